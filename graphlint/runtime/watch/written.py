"""A store of captured code, and where in the program it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphlint.runtime import frames
from graphlint.runtime.syntax import Chain
from graphlint.runtime.watch.journal import MISSING, attribute, lookup, resolve
from graphlint.runtime.watch.leaves import Leaf


@dataclass(slots=True, eq=False)
class Written:
    """A store of captured code. kind: "host", "container", "rebound" (a tensor that the graph reads was replaced)."""

    graph: int
    at: frames.Site
    owner: Any
    """Gives the object, None once it is gone."""
    name: Any
    """The attribute or key; None where the object itself was changed, by a method."""
    kind: str
    text: str
    way: tuple[frames.Site, ...]
    """The user's lines inside the capture that led there, innermost first."""
    carried: bool
    """Whether the new value is made of the old one."""
    leaves: tuple[Leaf, ...]
    """What else it is made of."""
    since: int = 0
    """How many replays there were when other code last stored there."""
    told: bool = False
    container: tuple[type, ...] = ()
    """Its type, if it is a container."""
    holder: Any = None
    """Of a container that was changed: gives the object that had it as its attribute `member`."""
    member: str = ""

    def now(self) -> Any:
        """The changed object, or the container that took its place since; None if there is neither."""
        owner = self.owner()
        holder = self.holder() if self.holder is not None else None
        there = attribute(holder, self.member) if holder is not None else MISSING
        return there if isinstance(there, self.container) else owner


def at_leaf(leaf: Leaf, owner: Any, name: Any) -> bool:
    return len(leaf.steps) == 1 and leaf.steps[0][1] == name and leaf.root is not None and leaf.root() is owner


def name_of(frame: Any, chain: Chain) -> Any:
    """The attribute or key at the end of a chain; MISSING if that cannot be told."""
    kind, name = chain.steps[-1]
    if kind == "key":
        return lookup(frame, name)
    return MISSING if kind == "keys" else name


def walk(frame: Any, chain: Chain) -> Iterator[tuple[Any, Any]]:
    """Of each step of a chain, the object that it starts from and the attribute or key."""
    for place in range(len(chain.steps)):
        part = Chain(chain.root, chain.steps[: place + 1])
        owner = resolve(frame, part.owner)
        name = name_of(frame, part)
        if owner is MISSING:
            return
        try:
            hash(name)
        except TypeError:
            return
        yield owner, name
