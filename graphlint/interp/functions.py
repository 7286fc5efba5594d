"""`def` and `class` as values: decorators seen through, bodies left alone until they are called."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint.interp import effort
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue, Scope
from graphlint.knowledge.capture_api import is_kernel_decorator, is_uncapturing_decorator
from graphlint.lower import tree
from graphlint.value import External, Instance, Unknown, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: Decorators that change how a function is bound.
_BINDINGS = {
    "builtins.staticmethod": "staticmethod", "builtins.classmethod": "classmethod", "builtins.property": "property",
    "functools.cached_property": "property", "abc.abstractproperty": "property",
}  # fmt: skip
#: Context managers that work as decorators: the body runs inside them.
_CONTEXTS = {
    "torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.autocast", "torch.set_grad_enabled",
    "torch.profiler.record_function",
}  # fmt: skip
_STORES = re.compile(r"\]\s*=(?!=)|\.(?:setdefault|update|append|add)\(")
_MEMO = {"functools.lru_cache", "functools.cache", "functools.cached_property"}


def function_value(m: Machine, node: tree.Function, scope: Scope) -> Value:
    """The value of a `def`: its decorators applied, innermost first."""
    function = FunctionValue(node=node, scope=scope)
    if scope.class_scope and node.decorators:
        if any(isinstance(d, tree.Attribute) and d.name in ("setter", "deleter", "getter") for d in node.decorators):
            if any(isinstance(d, tree.Attribute) and d.name == "setter" for d in node.decorators):
                scope.variables[f"{node.name}.setter"] = function
            return scope.variables.get(node.name, function)
        function.undecorated = True
        return function
    return decorated(m, function, scope)


def decorated(m: Machine, function: FunctionValue, scope: Scope) -> Value:
    """The function with its decorators applied; they are evaluated in `scope`."""
    function.undecorated = False
    node = function.node
    assert isinstance(node, tree.Function)
    value: Value = function
    for decorator in reversed(node.decorators):
        value = _decorated(m, decorator, value, function)
    return value


def _decorated(m: Machine, decorator: tree.Expr, value: Value, function: FunctionValue) -> Value:
    if isinstance(decorator, tree.Attribute) and decorator.name in ("setter", "deleter", "getter"):
        return m.names.lookup(m, function.scope, function.node.name) or value  # type: ignore[union-attr]
    made = m.eval(decorator)
    name = made.name if isinstance(made, External) else made.external if isinstance(made, Instance) else ""
    if name in _BINDINGS:
        function.binding = _BINDINGS[name]
        function.memo = name in _MEMO
        return value
    if name in ("contextlib.contextmanager", "contextlib.asynccontextmanager"):
        function.context_manager = True
        return value
    if name in _CONTEXTS:
        context = made if isinstance(made, Instance) else m.instance_of(External(name), decorator.span)
        if context.made is None or context.made.span != decorator.span:
            # `amp = torch.autocast("cuda")` made elsewhere, `@amp` here: each use is a block of its own.
            context = replace(context, made=m.location(decorator.span))
        function.wraps = (*function.wraps, context)
        return value
    if name in _MEMO:
        function.memo = True
        return value
    if is_kernel_decorator(name) or is_uncapturing_decorator(name) or _is_eager(m, name, made):
        function.opaque = True
        return value
    if name == "torch.compile":
        span = decorator.span
        return m.call(made, (value,), {}, span, "torch.compile")
    if isinstance(made, External) or (isinstance(made, Instance) and made.external):
        return value
    if isinstance(made, Unknown):
        return value
    otherwise: Value = Unknown("decorator")
    result = effort.rationed(
        m, effort.DECORATOR, lambda: m.call(made, (value,), {}, decorator.span, "decorator"), otherwise
    )
    return value if isinstance(result, Unknown) else result


def _is_eager(m: Machine, name: str, made: Value) -> bool:
    """A decorator that the user says takes code out of the capture."""
    if isinstance(made, FunctionValue):
        name = f"{made.scope.module.name}.{made.name}"
    return any(name == n or name.endswith(f".{n}") for n in m.names.eager_decorators)


def class_value(m: Machine, node: tree.Class, scope: Scope) -> Value:
    """The value of a `class`: bases and body are resolved on first use."""
    cls = ClassValue(node=node, module=scope.module, scope=scope)
    for decorator in node.decorators:
        target = decorator.func if isinstance(decorator, tree.Call) else decorator
        made = m.eval(target)
        if isinstance(made, External) and made.name.rpartition(".")[2] in (
            "dataclass",
            "define",
            "frozen",
            "s",
            "attrs",
        ):
            cls.dataclass = cls.generates_init = True
        elif _registers(made):
            _register(m, decorator, cls)
    return cls


def _registers(decorator: Value) -> bool:
    """True for a decorator of the project that puts what it gets into a table, as far as its text tells."""
    function = decorator.function if isinstance(decorator, BoundMethod) else decorator
    if not isinstance(function, FunctionValue) or not isinstance(function.node, tree.Function):
        return False
    module = function.scope.module
    first, last = function.node.lines
    return module.in_project and any(map(_STORES.search, module.source.lines[first - 1 : last]))


def _register(m: Machine, decorator: tree.Expr, cls: ClassValue) -> None:
    """Applies the decorator for what it notes down; the class stays what it is."""

    def apply() -> Value:
        return m.call(m.eval(decorator), (cls,), {}, decorator.span, "decorator")

    otherwise: Value = Unknown("decorator")
    effort.rationed(m, effort.DECORATOR, apply, otherwise)
