"""The standard library, numpy, and the methods that every torch module and torch object has."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from graphlint.fact import Context, ContextExit, HostRead, Keep, Op
from graphlint.interp import (
    arrays,
    attributes,
    backward,
    capture,
    copying,
    draws,
    exit_stacks,
    hooks,
    iteration,
    making,
    operators,
    protocols,
    threads,
    torch_modules,
    tuples,
)
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue, Partial
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import (
    Const,
    Device,
    External,
    Host,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    options,
    origins,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
LOG_METHODS = frozenset(["debug", "info", "warning", "error", "critical", "exception", "log", "warn"])
_TIMES = frozenset(["time", "perf_counter", "monotonic", "process_time", "time_ns", "perf_counter_ns", "monotonic_ns"])


def call_standard(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value | None:
    """A call into the standard library or numpy; None if it is neither, or nothing special."""
    top, _, rest = name.partition(".")
    if top == "functools":
        return _functools(m, rest, args, kwargs, span)
    if top in ("random", "secrets", "uuid") or name.startswith("numpy.random."):
        result: Value = Host("random")
        if name.startswith("numpy.random.") and name.rpartition(".")[2] in ("default_rng", "RandomState", "Generator"):
            result = m.instance_of(External("numpy.random.Generator"), span)
        elif rest == "Random":
            result = m.instance_of(External("random.Random"), span)
        elif top == "random" or rest in ("choice", "shuffle"):
            result = draws.result(m, rest, args, kwargs)
        m.emit(Op, span, name=name, args=args, kwargs=kwargs, result=result, text=text)
        return result
    if top == "time" or name.startswith("datetime."):
        m.emit(Op, span, name=name, args=args, kwargs=kwargs, text=text)
        return Host("time") if rest in _TIMES or top == "datetime" else Const(None)
    if name in protocols.MATH or top == "math":
        args = tuple([protocols.asked(m, a, protocols.MATH.get(name, protocols.NUMBER), (), span) or a for a in args])
    if name == "operator.index" and args and any(isinstance(o, Tensor) for o in options(args[0])):
        m.emit(HostRead, span, op="index", value=next(o for o in options(args[0]) if isinstance(o, Tensor)), text=text)
        return Host("read", read_at=m.location(span))
    if top in ("math", "cmath", "statistics"):
        return _math(m, name, args, span, text)
    if top == "numpy":
        return _numpy(m, name, args, kwargs, span, text)
    if name in ("copy.copy", "copy.deepcopy") and args:
        return copying.shallow(m, args[0], span) if rest == "copy" else copying.deep(m, args[0], span)
    if top == "collections":
        return _collections(m, rest, args, kwargs, span)
    if name == "itertools.product" and (rows := _combined(m, args, kwargs, span)) is not None:
        return rows
    if top == "itertools":
        items = [v for a in args for v in iteration.elements(m, a)]
        return m.sequence("generator", [], join(*items) if items else Unknown())
    if top == "asyncio" and (awaited := _asyncio(m, rest, args, kwargs, span)) is not None:
        return awaited
    if name == "types.MethodType" and len(args) == 2 and isinstance(args[0], FunctionValue):
        return BoundMethod(receiver=args[1], function=args[0])
    if name == "types.SimpleNamespace":
        return Mapping(kind="namespace", items={k: v for k, v in kwargs.items()}, born=m.region)
    if name == making.FIELD:
        return m.instance_of(External(name), span, kwargs=kwargs)
    if top == "dataclasses" and args and isinstance(args[0], (Instance, ClassValue)):
        return _dataclass(m, rest, args[0], kwargs, span)
    if name.startswith("contextlib."):
        made = m.instance_of(External(name), span)
        made.args, made.kwargs = args, kwargs
        return made
    if top == "logging":
        return _logging(m, name, args, kwargs, span, text)
    if name in ("typing.cast", "typing.assert_type") and len(args) == 2:
        return args[1]
    if top in ("os", "sys", "pathlib", "re", "json", "inspect"):
        return Host("env" if top == "os" else "other", kind="string", inputs=frozenset())
    if name in ("gc.collect", "gc.freeze", "gc.disable", "gc.enable"):
        m.emit(Op, span, name=name, args=args, kwargs=kwargs, text=text)
        return Const(None)
    return None


def _combined(m: Machine, columns: Args, kwargs: Kwargs, span: Span) -> Value | None:
    """`itertools.product(...)` of a few values that are all known."""
    if not columns or kwargs:
        return None
    known = [iteration.iterate(m, c, tree.Name(span, "product")) for c in columns]
    if not all(exact and not iteration.shortened(c, items) for c, (items, exact) in zip(columns, known, strict=True)):
        return None
    if math.prod(len(items) for items, _ in known) > 12:
        return None
    return m.sequence(
        "generator", [m.sequence("tuple", list(row)) for row in itertools.product(*(i for i, _ in known))]
    )


def _functools(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    if name in ("partial", "partialmethod") and args:
        return Partial(function=args[0], args=args[1:], kwargs=kwargs)
    if name in ("lru_cache", "cache") and args and isinstance(args[0], FunctionValue):
        return replace(args[0], memo=True)
    if name in ("lru_cache", "cache", "cached_property", "singledispatch") and args and not isinstance(args[0], Const):
        return args[0]
    if name == "reduce" and len(args) >= 2:
        items, _ = iteration.iterate(m, args[1], tree.Name(span, "reduce"))
        if isinstance(args[1], Sequence) and args[1].rest is None and len(args[1].items) <= 12:
            items = args[1].items
        value = args[2] if len(args) > 2 else items[0] if items else Unknown()
        for item in items[len(args) < 3 :] if isinstance(args[0], External) else items[:2]:
            value = m.call(args[0], (value, item), {}, span, "reduce")
        return value
    made = m.instance_of(External(f"functools.{name}"), span)
    made.args, made.kwargs = args, kwargs
    return made


def _math(m: Machine, name: str, args: Args, span: Span, text: str) -> Value:
    for value in args:
        for option in options(value):
            if isinstance(option, Tensor):
                m.emit(HostRead, span, op="math", value=option, text=f"{text}()")
                return Host("read", read_at=m.location(span))
    if name == "math.prod" and len(args) == 1 and (product := _product(m, args[0], span)) is not None:
        return product
    inputs = frozenset().union(*(origins(a) for a in args)) if args else frozenset()
    plain = [a.value for a in args if isinstance(a, Const)]
    if len(plain) == len(args) and all(isinstance(p, (int, float)) for p in plain):
        function = getattr(math, name.rpartition(".")[2], None)
        if function is not None:
            try:
                return Const(function(*plain), inputs)
            except Exception:
                return Host(inputs=inputs)
    sources = [a.source for a in args if isinstance(a, Host)]
    return Host(sources[0] if sources else "other", inputs=inputs)


def _product(m: Machine, values: Value, span: Span) -> Value | None:
    """`math.prod(shape)` as the product that it is, which may be known, or known to be equal to another."""
    if not isinstance(values, Sequence) or values.rest is not None or not values.items:
        return None
    if not all(isinstance(v, (Const, Host)) for v in values.items):
        return None
    node = tree.Name(span, "prod")
    return reduce(lambda left, right: operators.binary(m, "*", left, right, node), values.items)


def _numpy(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    for value in (*args, *kwargs.values()):
        for option in options(value):
            if isinstance(option, Tensor) and option.device != "cpu":
                m.emit(HostRead, span, op="numpy", value=option, text=f"{text}()")
    last = name.rpartition(".")[2]
    if last in ("copyto", "put", "place", "putmask") and len(args) > 1:
        arrays.written(m, args[0], "copy_", args[-1], span, text)
    if last in ("asarray", "ascontiguousarray", "atleast_1d") and args and arrays.tensor_of(args[0]) is not None:
        return args[0]
    if last in ("prod", "ceil", "floor", "sqrt", "log2", "cumsum", "int32", "int64", "float32"):
        inputs = frozenset().union(*(origins(a) for a in args)) if args else frozenset()
        return Host("other", inputs=inputs)
    made = m.instance_of(External("numpy.ndarray"), span)
    made.args, made.kwargs = args, kwargs
    return made


def _collections(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    if name == "deque":
        first = args[0] if args else None
        if isinstance(first, Sequence):
            return iteration.listed(m, "deque", first)
        return m.sequence("deque", [], None)
    if name == "defaultdict":
        made = m.mapping()
        made.kind = "defaultdict"
        made.keys = args[0] if args else None
        return made
    if name in ("OrderedDict", "Counter", "ChainMap", "UserDict"):
        made = m.mapping(dict(args[0].items) if args and isinstance(args[0], Mapping) else {})
        if name == "Counter":
            made.kind = name
            made.rest = Host() if args and not isinstance(args[0], Mapping) else None
        return made
    if name == "namedtuple" and len(args) == 2:
        return tuples.make_class(m, args, kwargs, span)
    return Unknown(name)


def _dataclass(m: Machine, name: str, value: Instance | ClassValue, kwargs: Kwargs, span: Span) -> Value | None:
    """`replace`, `fields`, `asdict` and `astuple` of a dataclass that was read."""
    cls = value.cls if isinstance(value, Instance) else value
    if not isinstance(cls, ClassValue):
        return None
    if name == "replace" and isinstance(value, Instance):
        return _replaced(m, value, kwargs, span)
    m.names.load(m, cls)
    names = [
        s.target.id
        for ancestor in reversed(cls.mro)
        for s in ancestor.node.body
        if isinstance(s, tree.AnnAssign) and isinstance(s.target, tree.Name)
    ]
    if name == "fields":
        fields: list[Value] = []
        for field in dict.fromkeys(names):
            fields.append(m.instance_of(External("dataclasses.Field"), span))
            fields[-1].attrs["name"] = Const(field)  # type: ignore[attr-defined]
        return m.sequence("tuple", fields)
    if isinstance(value, Instance) and name in ("asdict", "astuple"):
        held: dict[object, Value] = {n: value.attrs.get(n, Unknown(n)) for n in names}
        return m.mapping(held) if name == "asdict" else m.sequence("tuple", list(held.values()))
    return None


def _replaced(m: Machine, value: Instance, kwargs: Kwargs, span: Span) -> Value:
    made = m.instance_of(value.cls, span)
    made.attrs = {**value.attrs, **kwargs}
    made.complete = value.complete
    return made


def _logging(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if name.rpartition(".")[2] in LOG_METHODS:
        for value in args:
            for option in options(value):
                if isinstance(option, Tensor):
                    m.emit(HostRead, span, op="log", value=option, text=text)
        return Const(None)
    return m.instance_of(External("logging.Logger"), span)


def enter_context(m: Machine, manager: Value, span: Span, stack: Instance | None = None) -> Value:
    """`stack.enter_context(...)`, or `__enter__()` by hand: what it opens lasts until the stack, or it, is left."""
    if not isinstance(manager, Instance):
        return manager
    if capture.is_capture_manager(m, manager):
        return capture.enter(m, manager, span)
    depth = len(m.region_stack)
    method = attributes.find_method(m, manager, "__enter__")
    if method is not None:
        value = m.call(method, (), {}, span, "__enter__")
        capture.applied_here(m, depth, span)
        leave = attributes.find_method(m, manager, "__exit__")
        if stack is not None and leave is not None:
            exit_stacks.promise(m, stack, lambda: m.call(leave, (Const(None),) * 3, {}, span, "__exit__"))
        return value
    if manager.external.startswith("torch.") and manager.external != "torch.device":
        m.contexts = (*m.contexts, m.emit(Context, span, name=manager.external, value=manager))
    return manager


def leave_context(m: Machine, manager: Instance, span: Span) -> Value:
    """`__exit__()` by hand of a block of torch that was entered so."""
    left = next(c for c in reversed(m.contexts) if c.value is manager)
    m.contexts = tuple(c for c in m.contexts if c is not left)
    m.emit(ContextExit, span, entered=left)
    return Const(None)


def object_result(m: Machine, receiver: Instance, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """What a method of an object without source hands back."""
    kind = receiver.external
    if kind == hooks.HANDLE and name == "remove":
        hooks.remove(m, receiver)
        backward.remove(m, receiver)
        return Const(None)
    if kind == "torch.UntypedStorage":
        return Host("other") if name in ("nbytes", "size", "data_ptr", "__len__") else receiver
    if kind == backward.CONTEXT:
        return backward.context_method(m, receiver, name, args)
    if (made := tuples.method(m, receiver, name, args, kwargs, span)) is not None:
        return made
    if kind == "torch.Generator" and name in ("manual_seed", "set_state"):
        return receiver
    if kind == "torch.Generator" and name in ("seed", "initial_seed", "get_state", "get_offset"):
        return Host("random")
    if name == "is_capturing" and kind.endswith("Stream"):
        return capture.guard_value(m, name)
    if kind in ("torch.cuda.Stream", "torch.Stream") and name == "record_event":
        return args[0] if args else m.instance_of(External("torch.cuda.Event"), span)
    if name in ("record_event",):
        return m.instance_of(External("torch.cuda.Event"), span)
    if kind in ("torch.cuda.Event", "torch.cuda.Stream", "torch.Event", "torch.Stream"):
        if name in ("query", "elapsed_time"):
            return Host("read", "bool" if name == "query" else "number", m.location(span))
        return Const(None)
    if kind == "torch.amp.GradScaler":
        if name == "scale" and args:
            source = next((o for o in options(args[0]) if isinstance(o, Tensor)), None)
            return m.tensor(span, device="cuda", grad_graph=True, shape=source.shape if source else None)
        return Host("read") if name == "get_scale" else Const(None)
    if kind.startswith("torch.optim."):
        if name == "zero_grad":
            m.clear_grads([t for v in receiver.args[:1] for t in torch_modules.parameters_in(m, v)])
        if name == "step" and args and isinstance(args[0], (FunctionValue, BoundMethod)):
            return m.call(args[0], (), {}, span, "closure")
        if name in ("state_dict",):
            return m.mapping(rest=Unknown())
        return Const(None) if name in ("step", "zero_grad", "load_state_dict", "add_param_group") else Unknown(name)
    if kind.startswith("torch.distributions."):
        if name in ("sample", "rsample", "log_prob", "entropy", "cdf", "icdf"):
            return m.tensor(span, device=_joint(receiver), grad_graph=name == "rsample")
        return Unknown(name)
    if kind == "numpy.ndarray":
        if (seen := arrays.method(m, receiver, name, args, span, name)) is not None:
            return seen
        return Host("other") if name in ("item", "sum", "max", "min", "mean") else receiver
    if kind == "random.Random" or (kind == "numpy.random.Generator" and name in ("choice", "shuffle")):
        return draws.result(m, name, args, kwargs)
    if kind == "numpy.random.Generator":
        return Host("random")
    if (
        name in ("put", "put_nowait", "appendleft")
        and args
        and kind.startswith(("queue.", "multiprocessing.", "asyncio."))
    ):
        m.emit(Keep, span, container=receiver, value=args[0], how="put", text=f"{kind}.{name}")
        return Const(None)
    if kind == threads.EVENT_LOOP:
        if name == "run_in_executor" and len(args) > 1:
            return threads.job(m, args[1], args[2:], {}, span)
        if name == "create_task" and args:
            return threads.task(m, args[0])
        return threads.awaited(m, args[0], span) if name == "run_until_complete" and args else Unknown(name)
    if kind.startswith("threading.") or kind.startswith("concurrent."):
        return threads.thread_method(m, receiver, name, args, kwargs, span)
    if isinstance(receiver.cls, ClassValue) and name == "start" and "threading.Thread" in receiver.cls.external_bases:
        run = attributes.find_method(m, receiver, "run")
        return threads.started(m, run, (), span, "run") if run is not None else Const(None)
    if isinstance(receiver.cls, ClassValue) and name in ("__init__", "__post_init__", "__init_subclass__"):
        if name == "__init__" and any(b.startswith("torch.optim.") for b in receiver.cls.external_bases):
            defaults = args[1] if len(args) > 1 else kwargs.get("defaults")
            items: dict[object, Value] = dict(defaults.items) if isinstance(defaults, Mapping) else {}
            items["params"] = args[0] if args else kwargs.get("params", Unknown())
            receiver.attrs.setdefault("param_groups", m.sequence("list", [m.mapping(items, Unknown())]))
        return Const(None)
    return Unknown(f"{name}()")


def _asyncio(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value | None:
    match name:
        case "get_running_loop" | "get_event_loop" | "new_event_loop":
            return m.instance_of(External(threads.EVENT_LOOP), span)
        case "to_thread" if args:
            return threads.to_thread(m, args, kwargs, span)
        case "create_task" | "ensure_future" if args:
            return threads.task(m, args[0])
        case "run":
            threads.turn(m)
            return threads.awaited(m, args[0], span) if args else None
        case "wait_for" | "shield" if args:
            return args[0]
        case "gather" | "wait":
            return threads.gathered(m, args, span)
    return None


def _joint(receiver: Instance) -> Device:
    from graphlint.knowledge.results import first_tensors, joint_device

    found = first_tensors([*receiver.args, *receiver.kwargs.values()])
    return joint_device(found) if found else "?"
