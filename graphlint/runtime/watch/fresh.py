"""Which objects a capture made itself, and a way to look at containers again without keeping them alive."""

from __future__ import annotations

import ast
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from graphlint.runtime.syntax import chain_of
from graphlint.runtime.watch.journal import Step, resolve

_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS = frozenset(
    ["list", "dict", "set", "copy", "deepcopy", "sorted", "replace", "fromkeys", "defaultdict", "deque", "OrderedDict"]
)
#: Containers that are looked at again.
MAX_HELD = 512


class Fresh:
    """Objects made inside a capture, by the capture's number. While it is open, what was there before is alive or its
    address may be one of these by chance; that chance is taken."""

    def __init__(self) -> None:
        self._made: dict[int, set[int]] = {}

    def add(self, graph: int, value: Any) -> None:
        self._made.setdefault(graph, set()).add(id(value))

    def holds(self, graph: int, value: Any) -> bool:
        return id(value) in self._made.get(graph, ())

    def drop(self, graph: int) -> None:
        self._made.pop(graph, None)

    def entered(self, graph: int, frame: FrameType) -> None:
        """A function of the user's begins inside the capture."""
        code = frame.f_code
        if code.co_name == "__init__" and code.co_argcount:
            self.add(graph, frame.f_locals.get(code.co_varnames[0]))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            place = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
            self.add(graph, frame.f_locals.get(code.co_varnames[place]))

    def done(self, graph: int, step: Step) -> None:
        """A statement inside the capture has run."""
        node = step.statement.node
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            return
        for target in targets:
            for place, value in _pairs(target, node.value):
                chain = chain_of(place)
                if chain is not None and made_here(value):
                    self.add(graph, resolve(step.frame, chain))


def _pairs(target: Any, value: ast.expr) -> Iterator[tuple[Any, ast.expr]]:
    """Targets of an assignment with what each gets, as far as it is written out."""
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        if len(target.elts) == len(value.elts):
            for part, given in zip(target.elts, value.elts, strict=True):
                yield from _pairs(part, given)
    else:
        yield target, value


def made_here(node: ast.expr) -> bool:
    """Whether an expression makes a new object: a display, `dict(...)`, `x.copy()`, a class that is called."""
    if isinstance(node, _DISPLAYS):
        return True
    if not isinstance(node, ast.Call):
        return False
    chain = chain_of(node.func)
    if chain is None:
        return False
    name = str(chain.steps[-1][1]) if chain.steps else chain.root
    return name in _MAKERS or name[:1].isupper()


class Held:
    """References to objects that take no weak ones (lists, dictionaries). They are let go of as soon as nobody else
    has them."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[int, list[Any]]] = {}
        self._numbers = 0

    def reference(self, value: Any) -> Callable[[], Any]:
        """Gives the object as long as the program has it, then None."""
        try:
            return weakref.ref(value)
        except TypeError:
            pass
        key = id(value)
        if key not in self._objects:
            if len(self._objects) >= MAX_HELD:
                return lambda: None
            self._numbers += 1
            self._objects[key] = self._numbers, [value]
        number = self._objects[key][0]

        def get() -> Any:
            known = self._objects.get(key)
            return known[1][0] if known is not None and known[0] == number else None

        return get

    def prune(self) -> None:
        """Lets go of what only this has."""
        gone = [key for key, (_, box) in self._objects.items() if sys.getrefcount(box[0]) <= 2]
        for key in gone:
            del self._objects[key]
