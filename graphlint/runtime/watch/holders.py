"""Who holds an input when a capture ends: attributes, members of modules, dictionary items, globals.

Glossary:
    place   where the program keeps an input: an object and the steps that lead from it to the tensor.
    wanted  the tensors that are looked for, by id, with the address of their memory.
"""

from __future__ import annotations

import gc
import types
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from graphlint.runtime import frames

#: With more inputs than this, a model's own parameters are looked for in its modules only.
MANY = 64

_CONTAINERS = (types.FrameType, list, tuple, types.CellType, weakref.ref, set, torch.Tensor, types.GeneratorType)


@dataclass(slots=True, eq=False)
class Place:
    """`root` gives the object that the steps start from, None once it is gone."""

    root: Any
    steps: tuple[tuple[str, Any], ...]
    text: str
    address: int
    graph: int
    gradient: bool = False
    group: str = ""
    """`_parameters` or `_buffers`, for a member of a module."""
    changed: Change | None = None


@dataclass(slots=True, eq=False)
class Change:
    """A place got something else. kind: "tensor", "host", "none"."""

    at: frames.Site | None
    kind: str
    address: int
    order: int
    replays: int
    item: bool = False
    into_capture: bool = False


def find(wanted: dict[int, tuple[Any, int]], graph: int) -> list[Place]:
    """The places that hold the tensors: one pass over all objects for each of three levels of owners."""
    found: list[Place] = []
    if len(wanted) > MANY:
        wanted = _members_of_modules(found, wanted, graph)
    if not wanted:
        return found
    skip = {id(wanted), *(id(v) for v in wanted.values())}
    tensors = [t for t, _ in wanted.values()]
    skip.add(id(tensors))
    dicts: dict[int, tuple[Any, list[tuple[Any, int]]]] = {}
    for holder in gc.get_referrers(*tensors):
        if id(holder) in skip:
            continue
        if isinstance(holder, dict):
            hits = [(k, wanted[id(v)][1]) for k, v in list(holder.items()) if id(v) in wanted and wanted[id(v)][0] is v]
            if hits:
                dicts[id(holder)] = (holder, hits)
        elif not isinstance(holder, _CONTAINERS):
            _attributes(found, holder, wanted, graph)
    plain: dict[int, Any] = {}
    for holder, hits in dicts.values():
        if _is_globals(holder):
            for key, address in hits:
                found.append(Place(lambda h=holder: h, (("item", key),), str(key), address, graph))
        else:
            plain[id(holder)] = holder
    if plain:
        _owners(found, plain, dicts, graph)
    return found


def _members_of_modules(
    found: list[Place], wanted: dict[int, tuple[Any, int]], graph: int
) -> dict[int, tuple[Any, int]]:
    """The places of a model's own parameters and buffers; returns the tensors that are none. To ask the garbage
    collector for the holders of n tensors takes n times a walk over all objects."""
    placed: set[int] = set()
    for owner in gc.get_objects():
        if torch.nn.Module not in type(owner).__mro__:
            continue
        own = vars(owner)
        for group in ("_parameters", "_buffers"):
            for name, value in list((own.get(group) or {}).items()):
                if id(value) in wanted and wanted[id(value)][0] is value:
                    placed.add(id(value))
                    text = f"{type(owner).__name__}.{name}"
                    steps = (("attr", group), ("item", name))
                    place = Place(weakref.ref(owner), steps, text, wanted[id(value)][1], graph)
                    place.group = group
                    found.append(place)
    return {key: entry for key, entry in wanted.items() if key not in placed}


def _attributes(found: list[Place], owner: Any, wanted: dict[int, tuple[Any, int]], graph: int) -> None:
    """An object that keeps its attributes inline."""
    own = _members(owner)
    if own is None:
        return
    for name, value in list(own.items()):
        if id(value) in wanted and wanted[id(value)][0] is value:
            text = f"{type(owner).__name__}.{name}"
            found.append(Place(weakref.ref(owner), (("attr", name),), text, wanted[id(value)][1], graph))


def _owners(
    found: list[Place], plain: dict[int, Any], dicts: dict[int, tuple[Any, list[tuple[Any, int]]]], graph: int
) -> None:
    """Who holds the dictionaries: instances whose `__dict__` they are, or that hold them under a name."""
    held = list(plain.values())
    outer: dict[int, Any] = {}
    for owner in gc.get_referrers(*held):
        if owner is held or owner is plain or isinstance(owner, _CONTAINERS) or id(owner) in dicts:
            continue
        if isinstance(owner, dict):
            outer[id(owner)] = owner
            continue
        own = _members(owner)
        if own is None:
            continue
        if id(own) in plain:
            _hits(found, owner, (), dicts[id(own)][1], graph)
        for name, value in list(own.items()):
            if id(value) in plain and plain[id(value)] is value:
                _hits(found, owner, (("attr", name),), dicts[id(value)][1], graph)
    inner = {k: v for k, v in outer.items() if not _is_globals(v)}
    for owner in outer.values():
        if _is_globals(owner):
            for name, value in list(owner.items()):
                if id(value) in plain and plain[id(value)] is value:
                    for key, address in dicts[id(value)][1]:
                        steps = (("item", name), ("item", key))
                        found.append(Place(lambda o=owner: o, steps, f"{name}[{key!r}]", address, graph))
    if not inner:
        return
    namespaces = list(inner.values())
    for instance in gc.get_referrers(*namespaces):
        if instance is namespaces or isinstance(instance, (*_CONTAINERS, dict)):
            continue
        own = _members(instance)
        if own is None or id(own) not in inner:
            continue
        for name, value in list(own.items()):
            if id(value) in plain and plain[id(value)] is value:
                _hits(found, instance, (("attr", name),), dicts[id(value)][1], graph)


def _hits(
    found: list[Place], owner: Any, way: tuple[tuple[str, Any], ...], hits: list[tuple[Any, int]], graph: int
) -> None:
    for key, address in hits:
        if not way or way[0][1] in ("_parameters", "_buffers"):
            steps: tuple[tuple[str, Any], ...] = (("attr", key),)
            text = f"{type(owner).__name__}.{key}"
        else:
            steps, text = (*way, ("item", key)), f"{type(owner).__name__}.{way[0][1]}[{key!r}]"
        found.append(Place(weakref.ref(owner), steps, text, address, graph))


def _is_globals(holder: dict[Any, Any]) -> bool:
    return "__name__" in holder and "__builtins__" in holder


def _members(owner: Any) -> dict[str, Any] | None:
    """An object's attributes, None for those that cannot be followed."""
    if type(owner).__module__.startswith("graphlint."):
        return None
    try:
        weakref.ref(owner)
        own = vars(owner)
    except TypeError:
        return None
    return own if isinstance(own, dict) else None
