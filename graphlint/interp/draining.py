"""Loops that run until a container is empty, `while self.busy: ... self.busy.pop() ...`: once for each item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from graphlint.lower import tree
from graphlint.value import Instance, Mapping, Sequence, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Container: TypeAlias = "Sequence | Mapping"
#: Of more items only a few are looked at, as in any loop of unknown length.
ITEMS = 12


def emptied(m: Machine, node: tree.While, test: Value) -> Container | None:
    """What the loop goes on with until it is empty, if what it holds is known one by one."""
    asked = node.test
    if isinstance(asked, tree.Compare) and asked.ops in ((">",), ("!=",)):
        zero = asked.comparators[0]
        if not isinstance(zero, tree.Constant) or zero.value != 0:
            return None
        asked = asked.left
    if isinstance(asked, tree.Call) and isinstance(asked.func, tree.Name) and asked.func.id == "len" and asked.args:
        asked = asked.args[0].value
    if not isinstance(asked, (tree.Name, tree.Attribute)) or _may_leave(node.body):
        return None
    value = test if asked is node.test else m.eval(asked)
    if isinstance(value, Instance):
        value = value.attrs.get("$items", value)
    if not isinstance(value, (Sequence, Mapping)) or value.rest is not None or not 0 < len(value.items) <= ITEMS:
        return None
    return value if isinstance(value, Mapping) or value.kind in ("list", "deque", "set") else None


def _may_leave(body: Iterable[tree.Stmt]) -> bool:
    """True if the loop may end before the container is empty."""
    for statement in body:
        if isinstance(statement, (tree.Break, tree.Return)):
            return True
        inner = [getattr(statement, part, ()) for part in ("body", "orelse", "final")]
        inner += [part.body for name in ("handlers", "cases") for part in getattr(statement, name, ())]
        if not isinstance(statement, (tree.Function, tree.Class)) and any(_may_leave(part) for part in inner):
            return True
    return False


class Drain:
    """One such loop, for as long as each of its rounds takes something out."""

    def __init__(self, m: Machine, loop: int, container: Container) -> None:
        self.m, self.container = m, container
        self.left = len(container.items)
        self.before = list(container.items) if isinstance(container, Sequence) else None
        self.outer = m.drained.get(container.id)
        m.drained[container.id] = loop

    def goes_on(self) -> bool:
        """True if the last round left less than there was before it."""
        fewer = len(self.container.items) < self.left and self.container.rest is None
        self.left = len(self.container.items)
        return fewer

    def end(self, complete: bool) -> None:
        container = self.container
        if self.outer is None:
            del self.m.drained[container.id]
        else:
            self.m.drained[container.id] = self.outer
        if not isinstance(container, Sequence) or self.before is None:
            return
        if self.m.conditions and container.id < self.m.uncertain_since:
            # In an arm that may not be run: afterwards the items may still be there.
            container.items[:] = self.before
            container.sized = False
        elif complete and container.rest is None and not container.items:
            container.sized = True
