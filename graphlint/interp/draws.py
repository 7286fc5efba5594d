"""What is drawn from a sequence at random, by Python's `random` and by numpy: as many as are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp import iteration
from graphlint.interp.objects import BoundMethod, FunctionValue
from graphlint.value import Const, Host, Instance, Sequence, Tensor, Value, join

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
_OBJECTS = (Instance, Tensor, FunctionValue, BoundMethod)


def result(m: Machine, name: str, args: Args, kwargs: Kwargs) -> Value:
    """What `random.name(...)`, or the method of a generator of numbers, hands back."""
    population = args[0] if args else kwargs.get("population", kwargs.get("x"))
    if name == "shuffle":
        if isinstance(population, Sequence):
            _shuffle(population)
        return Const(None)
    if name == "choice" and population is not None:
        return _one_of(m, population)
    if name in ("sample", "choices") and population is not None:
        count = kwargs.get("k", args[1] if name == "sample" and len(args) > 1 else Const(1))
        one = _one_of(m, population)
        if isinstance(count, Const) and isinstance(count.value, int) and 0 <= count.value <= iteration.LISTED:
            return m.sequence("list", [one] * count.value)
        return m.sequence("list", [], one)
    return Host("random")


def _one_of(m: Machine, population: Value) -> Value:
    picked = iteration.elements(m, population)
    return join(*picked) if any(isinstance(p, _OBJECTS) for p in picked) else Host("random")


def _shuffle(population: Sequence) -> None:
    """Numbers change their places; of objects, which are told apart by what is done to them, the order counts less."""
    population.items[:] = [
        Host(inputs=i.inputs) if isinstance(i, Const) and isinstance(i.value, (int, float, str)) else i
        for i in population.items
    ]
