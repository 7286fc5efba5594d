"""Which objects a capture made itself."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import FrameType
from typing import Any

from graphlint.runtime.identity import Identities
from graphlint.runtime.syntax import chain_of
from graphlint.runtime.watch.journal import Step, resolve

_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS = frozenset(
    ["list", "dict", "set", "copy", "deepcopy", "sorted", "replace", "fromkeys", "defaultdict", "deque", "OrderedDict"]
)


class Fresh:
    """Objects made inside a capture, by the capture's number."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._made: dict[int, set[int]] = {}

    def add(self, graph: int, value: Any) -> None:
        self._made.setdefault(graph, set()).add(self._identities.number(value))

    def holds(self, graph: int, value: Any) -> bool:
        return self._identities.known(value) in self._made.get(graph, ())

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
