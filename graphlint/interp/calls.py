"""Calls: what a callee is, how arguments meet parameters, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint.fact import (
    Enter,
    Frame,
    Unfollowed,
)
from graphlint.interp import contexts, effort, externals, hooks, layers, making, repeats, torch_objects
from graphlint.interp.objects import (
    BoundMethod,
    ClassValue,
    ExternalMethod,
    FunctionValue,
    Partial,
    Scope,
    SuperValue,
)
from graphlint.interp.tape import Activation
from graphlint.knowledge.capture_api import ACCELERATOR_GETTERS, CUDAGRAPH_MODES, GRAPH_CLASSES
from graphlint.knowledge.python_state import STEADY_NUMBERS
from graphlint.lower import tree
from graphlint.source import Location, SourceError, Span
from graphlint.value import (
    CAPTURING,
    STEADY,
    Const,
    External,
    Host,
    Instance,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

MAX_DEPTH = 40
#: Methods of tensors that change more than their result.
_ACTING = frozenset({"backward", "record_stream", "register_hook", "register_post_accumulate_grad_hook"})
#: How deep a function that calls itself is followed down a tree of modules.
DEEPEST_TREE = 7
Args = tuple[Value, ...]
Kwargs = dict[str, Value]


def call(m: Machine, function: Value, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    m.tick()
    match function:
        case FunctionValue():
            return call_function(m, function, args, kwargs, span)
        case BoundMethod(receiver=ClassValue() as cls, function=inner) if making.is_loader(inner):
            return making.loaded(m, cls, span)
        case BoundMethod(receiver=receiver, function=inner):
            return call_function(m, inner, (receiver, *args), kwargs, span)
        case ClassValue():
            return making.instantiate(m, function, args, kwargs, span)
        case Partial(function=inner_value, args=first, kwargs=more):
            return call(m, inner_value, (*first, *args), {**more, **kwargs}, span, text)
        case ExternalMethod(receiver=receiver, name=name):
            return externals.call_method(m, receiver, name, args, kwargs, span, text)
        case External(name="builtins.super"):
            return _super(m, args)
        case External(name=name) if (handle := hooks.register_global(m, name, args, kwargs, span)) is not None:
            return handle
        case External(name=name):
            return _steady(m, name, args, externals.call_external(m, name, args, kwargs, span, text))
        case Instance():
            return _call_instance(m, function, args, kwargs, span, text)
        case Union():
            return _call_any(m, function, args, kwargs, span, text)
        case _:
            return _unknown_call(m, function, args, kwargs, span, text)


def _steady(m: Machine, name: str, args: Args, result: Value) -> Value:
    """A number that is the same at every call tells entries of a table apart as far as the rest of their key does."""
    if isinstance(result, Unknown) and name in STEADY_NUMBERS:
        result = Host()
    if not isinstance(result, Host) or result.symbol is not None:
        return result
    if name == "builtins.id" and len(args) == 1 and isinstance(args[0], Instance):
        return replace(result, symbol=f"{STEADY}id{args[0].id}")
    within = any(c.name in ("torch.cuda.device", "torch.device") for c in m.contexts)
    return replace(result, symbol=STEADY + name) if name in STEADY_NUMBERS and not within else result


def _call_any(m: Machine, function: Union, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    callees = [o for o in function.options if not (isinstance(o, Const) and o.value is None)]
    known = [o for o in callees if not isinstance(o, Unknown)] or callees[:1]
    if len(known) == 1:
        return call(m, known[0], args, kwargs, span, text)
    methods = [o for o in known if isinstance(o, ExternalMethod)]
    if len(methods) == len(known) and all(o.name in ("replay", "reset") for o in methods):
        receivers = [o.receiver for o in methods]
        if all(isinstance(r, Instance) and r.external in GRAPH_CLASSES for r in receivers):
            # Which graph it is is not known, but one it is, and only one.
            return externals.call_any_graph(m, receivers, methods[0].name, args, kwargs, span, text)
    results: list[Value] = []
    m.choices += 1
    try:
        with nullcontext() if _same_reading(function) else m.condition():
            for option in known[:4]:
                results.append(call(m, option, args, kwargs, span, text))
    finally:
        m.choices -= 1
    return join(*results) if results else Unknown()


def _same_reading(function: Union) -> bool:
    """True if whichever tensor it is, the same method reads it on the same device: that much is certain."""
    options = function.options
    methods = [o for o in options if isinstance(o, ExternalMethod) and isinstance(o.receiver, Tensor)]
    told = {(o.name, o.receiver.device) for o in methods if isinstance(o.receiver, Tensor)}
    return (
        len(methods) == len(options)
        and len(told) == 1
        and not methods[0].name.endswith("_")
        and methods[0].name not in _ACTING
    )


def _unknown_call(m: Machine, function: Value, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    m.emit(Unfollowed, span, text=text, args=(*args, *kwargs.values()))
    m.unfollowed(span, f"{text}(...)")
    fact = m.life[-1]
    m.reads(fact, *args, *kwargs.values())
    hint = function.hint if isinstance(function, Unknown) else text
    return Unknown(f"{hint}()")


def _super(m: Machine, args: Args) -> Value:
    activation = m.stack[-1]
    function = activation.function
    if args and isinstance(args[0], ClassValue) and len(args) > 1:
        return SuperValue(receiver=args[1], after=args[0])
    owner = function.owner if function is not None else None
    receiver = next(iter(activation.scope.variables.values()), Unknown()) if activation.scope.variables else Unknown()
    if owner is None:
        return Unknown("super")
    return SuperValue(receiver=receiver, after=owner)


# ------------------------------------------------------------------------------------------------- functions


def call_function(m: Machine, function: FunctionValue, args: Args, kwargs: Kwargs, span: Span) -> Value:
    node = function.node
    if function.opaque:
        return externals.opaque_call(m, function.name, args, kwargs, span)
    if (
        isinstance(node, tree.Function)
        and node.name in ACCELERATOR_GETTERS
        and "accelerator" in function.scope.module.name
    ):
        return External("torch.cuda")
    if m.names.is_guard(function) and m.region is not None:
        return Const(True, frozenset({CAPTURING}))
    if m.names.is_negative_guard(function) and m.region is not None:
        return Const(False, frozenset({CAPTURING}))
    if m.names.is_manager(function):
        made = m.instance_of(External("torch.cuda.graph"), span)
        made.args, made.kwargs = args, {k: v for k, v in kwargs.items() if k != "*"}
        return made
    if function.context_manager:
        made = m.instance_of(External("contextlib.contextmanager"), span)
        made.attrs["$function"], made.args, made.kwargs = function, args, kwargs
        return made
    recursion = sum(1 for a in m.stack if a.function is not None and a.function.node is node)
    if len(m.stack) > MAX_DEPTH or (recursion >= 2 and not _descends(m, node, args, recursion)):
        return Unknown(function.name)
    key = repeats.signature(m, function, args, kwargs)
    if key is not None and key in m.memo:
        m.reach(function, function.scope.module)
        return repeats.taken(m, key, function, args, kwargs, span)
    asked = repeats.asked_before(function, args, kwargs)
    if asked is not None and asked in m.cached_calls:
        return m.cached_calls[asked]
    outside = repeats.pure_key(m, function, args, kwargs)
    if outside is not None and outside in m.pure:
        return repeats.renewed(m, m.pure[outside], span)
    start, ticks = len(m.life), m.ticks
    otherwise: Value = Unknown(function.name)
    result = effort.spend(m, function, args, lambda: _run(m, function, args, kwargs, span, None), otherwise)
    if result is otherwise:
        if asked is not None and not args and m.region is None:
            m.cached_calls[asked] = result
        return result
    if key is not None:
        repeats.remember(m, key, result, start)
    elif outside is not None and repeats.worth_keeping(m, ticks, start):
        m.pure[outside] = result
    if asked is not None:
        m.cached_calls[asked] = result
    return result


def _descends(m: Machine, node: tree.Function | tree.Lambda, args: Args, recursion: int) -> bool:
    """True if a function that calls itself goes down a tree of modules: it is given one that no call above has."""
    given = {a.id for a in args if isinstance(a, Instance) and torch_objects.is_module(m, a)}
    if not given or recursion >= DEEPEST_TREE:
        return False
    above = (a.scope.variables for a in m.stack if a.function is not None and a.function.node is node)
    passed = [variables.get(p.name) for variables in above for p in node.params]
    return not given & {v.id for v in passed if isinstance(v, Instance)}


def _run(
    m: Machine,
    function: FunctionValue,
    args: Args,
    kwargs: Kwargs,
    span: Span,
    on_yield: Callable[[Value], None] | None,
) -> Value:
    node = function.node
    module = function.scope.module
    scope = Scope(module, parent=function.scope)
    activation = Activation(function, scope, function.name, on_yield=on_yield)
    called_from = Location(m.path, span)
    saved_chain, saved_path = m.chain, m.path
    m.stack.append(activation)
    m.path = str(module.path)
    m.chain = (*m.chain, Frame(called_from, function.name))
    try:
        bind_parameters(m, function, scope, args, kwargs)
        m.reach(function, module)
        if args and isinstance(args[0], Instance):
            m.used.add((args[0].id, id(node)))
        if isinstance(node, tree.Lambda):
            return m.eval(node.body)
        defined = Location(m.path, node.span)
        receiver = args[0] if args and function.owner is not None else None
        m.emit(
            Enter,
            node.span,
            name=function.name,
            defined=defined,
            args=args,
            given=dict(scope.variables),
            receiver=receiver,
            memo=function.memo,
        )
        try:
            body = node.body
        except SourceError as error:
            m.names.program.errors.setdefault(module.path, str(error))
            return Unknown(function.name)
        return contexts.decorate(m, function.wraps, node.span, lambda: _body(m, activation, body, node))
    finally:
        if m.region_stack and m.region_stack[-1].kind == "begin-end":
            m.abandon(node)
        m.stack.pop()
        m.chain, m.path = saved_chain, saved_path


def _body(m: Machine, activation: Activation, body: tuple[tree.Stmt, ...], node: tree.Function) -> Value:
    end = m.run(body)
    if activation.deltas:
        m.merge_weakly(activation.deltas)
        activation.deltas = []
    m.leave_scope(activation.scope, node)
    if node.is_generator and activation.on_yield is None:
        items = activation.yields
        return m.sequence("generator", items[:4], items[-1] if items else Unknown())
    results = list(activation.returns)
    if end == "raise" and not results:
        return Unknown(activation.name)
    if end not in ("return", "raise"):
        results.append(Const(None))
    return join(*results) if results else Const(None)


def run_generator(
    m: Machine, function: FunctionValue, args: Args, kwargs: Kwargs, span: Span, on_yield: Callable[[Value], None]
) -> None:
    """Runs a generator's body, calling `on_yield` where it yields."""
    _run(m, function, args, kwargs, span, on_yield)


def bind_parameters(m: Machine, function: FunctionValue, scope: Scope, args: Args, kwargs: Kwargs) -> None:
    """Gives every parameter a value: passed, default, or unknown by its annotation."""
    params = function.node.params
    positional = [p for p in params if p.kind in ("positional-only", "positional")]
    unknown_rest = "*" in kwargs
    for index, param in enumerate(positional):
        if index < len(args):
            value = args[index]
            if isinstance(value, Unknown) and param.annotation is not None:
                value = m.names.annotated(m, param.annotation, function.scope) or value
        elif param.name in kwargs:
            value = kwargs[param.name]
            if isinstance(value, Unknown) and param.annotation is not None:
                value = m.names.annotated(m, param.annotation, function.scope) or value
        else:
            value = _missing(m, function, param, unknown_rest)
        scope.variables[param.name] = value
    extra = args[len(positional) :]
    taken = {p.name for p in params}
    for param in params:
        if param.kind == "keyword-only":
            scope.variables[param.name] = (
                kwargs[param.name] if param.name in kwargs else _missing(m, function, param, unknown_rest)
            )
        elif param.kind == "*":
            rest = kwargs["*"] if unknown_rest and not extra else None
            scope.variables[param.name] = m.sequence(
                "tuple", list(extra), Unknown(param.name) if rest is not None else None
            )
        elif param.kind == "**":
            items: dict[object, Value] = {k: v for k, v in kwargs.items() if k not in taken and k != "*"}
            scope.variables[param.name] = m.mapping(items, Unknown(param.name) if unknown_rest else None)


def _missing(m: Machine, function: FunctionValue, param: tree.Param, unknown_rest: bool) -> Value:
    if param.default is not None and not unknown_rest:
        with m.quiet():
            return m.eval_in(function.scope, param.default)
    annotated = deciding_default(param.default) or m.names.annotated(m, param.annotation, function.scope)
    if annotated is not None:
        return annotated
    if isinstance(param.default, tree.Constant) and isinstance(param.default.value, bool):
        return Host(source="param", kind="bool")  # the default tells the type as well as an annotation
    return m.hinted(param.name)


def deciding_default(node: tree.Expr | None) -> Value | None:
    """A default that makes a compiled function capture: what it does then is looked at, though others may be given."""
    return Const(node.value) if isinstance(node, tree.Constant) and node.value in CUDAGRAPH_MODES else None


# --------------------------------------------------------------------------------------------------- classes


def _call_instance(m: Machine, instance: Instance, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if "$hooks" in instance.attrs or hooks.of_all(m, instance):
        return hooks.around(m, instance, args, kwargs, span, lambda a: _call_object(m, instance, a, kwargs, span, text))
    return _call_object(m, instance, args, kwargs, span, text)


def _call_object(m: Machine, instance: Instance, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    from graphlint.interp.attributes import find_method

    if isinstance(instance.cls, ClassValue):
        if "forward" in instance.attrs and m.names.is_module_class(m, instance.cls):
            return m.call(instance.attrs["forward"], args, kwargs, span, text)
        for name in ("__call__", "forward"):
            method = find_method(m, instance, name)
            if method is not None:
                return m.call(method, args, kwargs, span, text)
        if "$items" in instance.attrs and "torch.nn.Sequential" in instance.cls.external_bases:
            return layers.run_sequential(m, instance.attrs["$items"], args, span)
        if instance.cls.external_bases:
            return layers.call_base(m, instance, args, kwargs, span, text)
        return _unknown_call(m, Unknown(text), args, kwargs, span, text)
    return layers.call_object(m, instance, args, kwargs, span, text)


def is_callable(value: Value) -> bool:
    return isinstance(value, (FunctionValue, BoundMethod, ClassValue, Partial, ExternalMethod, External, Instance))
