"""What outlives the call of a root: only that can be used by somebody afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphlint.fact import Bind, Fact, Keep
from graphlint.interp.objects import BoundMethod, ClassValue, ExternalMethod, FunctionValue, Partial, Scope, SuperValue
from graphlint.value import Instance, Union, Unknown, Value, parts

_MOST = 50_000


def escaping(returned: Value | None, known: Iterable[Value], scopes: Iterable[Scope], life: Iterable[Fact]) -> set[int]:
    """The ids of the objects that can be reached when a root has returned.

    known: objects that were there before. scopes: modules'. life: what the root did; what it put into something
    unknown may be reached, too.
    """
    start = [*known, *([returned] if returned is not None else [])]
    for scope in scopes:
        start += scope.variables.values()
    for fact in life:
        if isinstance(fact, Keep) and isinstance(fact.container, Unknown):  # noqa: SIM114 - mypy cannot narrow both
            start.append(fact.value)
        elif isinstance(fact, Bind) and isinstance(fact.owner, Unknown) and fact.value is not None:
            start.append(fact.value)
    found: set[int] = set()
    seen: set[int] = set()
    while start and len(seen) < _MOST:
        value = start.pop()
        if id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Instance):
                found.add(value.id)
            start += _inside(value)
    return found


def _inside(value: Value) -> Iterator[Value]:
    """What a value holds alive."""
    match value:
        case Union():
            yield from value.options
        case Instance():
            yield from (*value.attrs.values(), *value.args, *value.kwargs.values())
        case BoundMethod() | ExternalMethod() | SuperValue():
            yield value.receiver
            if isinstance(value, BoundMethod):
                yield value.function
        case FunctionValue():
            scope: Scope | None = value.scope
            while scope is not None and not scope.is_module:
                yield from scope.variables.values()
                scope = scope.parent
        case Partial():
            yield from (value.function, *value.args, *value.kwargs.values())
        case ClassValue():
            yield from value.attrs.values()
        case _:
            yield from parts(value)
