"""Python numbers that reach captured work, and whether the program changes them between replays.

For every statement that launches captured work, the numbers it loads are followed to where the program keeps them
(`self.temperature`, `group["lr"]`, through local variables and arguments). Before each replay they are read again: a
number that is now another one was baked into the graph.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine, off
from graphlint.runtime.syntax import Chain, Statement, chain_of
from graphlint.runtime.watch.journal import (
    MISSING,
    Activation,
    Journal,
    Step,
    Watcher,
    follow,
    host_value,
    lookup,
    resolve,
)

_STATE_READS = frozenset({"initial_seed", "seed", "get_offset"})
_RANDOM_MODULES = ("random", "numpy.random", "secrets", "uuid", "torch.random", "torch.cuda.random")


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A number where the program keeps it. `root` gives the object it hangs from."""

    root: Any
    kind: type
    steps: tuple[tuple[str, Any], ...]
    text: str
    value: Any
    random: frames.Site | None = None


@dataclass(slots=True, eq=False)
class Use:
    """A statement that gave numbers to captured work."""

    graph: int
    site: frames.Site
    leaves: tuple[Leaf, ...]
    stale: set[str] = field(default_factory=set)


class Scalars(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.uses: dict[int, list[Use]] = {}
        self.latest: dict[type, tuple[dict[str, Any], int, tuple[int, ...]]] = {}
        """Of each class of the user's, what its newest instance was made with, when, and under which calls."""
        self._ended: dict[int, int] = {}
        self.given: dict[int, dict[str, Any]] = {}
        """Host values that the captured functions were given, by parameter."""
        self.host_scalars: dict[int, list[tuple[weakref.ref[Any], Any, frames.Site]]] = {}
        """CPU tensors without dimensions: their value is part of the launch."""
        machine.on_call.append(self._call)
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)
        machine.listeners.append(self._noted)

    def _noted(self, name: str, data: dict[str, Any], at: Any) -> None:
        step = self.journal.current
        if name == "host-random" and step is not None:
            step.notes["drew"] = str(data["call"]).replace("aten::", "torch.")

    # ------------------------------------------------------------ where numbers come from
    def entered(self, activation: Activation) -> None:
        frame = activation.frame
        code = frame.f_code
        if code.co_name == "__init__":
            values = frame.f_locals
            owner = values.get("self")
            if owner is not None:
                made = {k: v for k, v in values.items() if host_value(v)}
                self.latest[type(owner)] = (made, self.machine.order, tuple(a.number for a in self.journal.stack))
        if activation.parent is None or activation.number == 0 or not self.machine.capturing():
            return
        values_given = self.given.setdefault(self.machine.capture.number, {})
        for name in code.co_varnames[: code.co_argcount]:
            value = frame.f_locals.get(name)
            if host_value(value) and not isinstance(value, str):
                values_given.setdefault(name, tuple(value) if isinstance(value, list) else value)
        caller = activation.parent
        step = caller.step
        if step is None:
            return
        origins = activation.data.setdefault("origins", {})
        matched = self._arguments(step.statement, code)
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        bound = parameters[1:] if parameters[:1] in (("self",), ("cls",)) else parameters
        for place, name in enumerate(bound):
            if not host_value(frame.f_locals.get(name, MISSING)):
                continue
            given = matched.get(name, matched.get(place))
            if given is None:
                continue
            leaves = self._leaves_of(caller, _chains(given))
            if leaves:
                origins[name] = leaves

    @staticmethod
    def _arguments(statement: Statement, code: Any) -> dict[Any, ast.expr]:
        wanted = []
        for call in statement.calls:
            text = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if text == code.co_name or (code.co_name in ("forward", "__call__") and text not in dir(torch.Tensor)):
                wanted.append(call)
        exact = [
            c
            for c in wanted
            if (c.func.attr if isinstance(c.func, ast.Attribute) else getattr(c.func, "id", "")) == code.co_name
        ]
        chosen = exact or wanted
        if len(chosen) != 1:
            return {}
        call = chosen[0]
        found: dict[Any, ast.expr] = {i: a for i, a in enumerate(call.args) if not isinstance(a, ast.Starred)}
        found.update({k.arg: k.value for k in call.keywords if k.arg is not None})
        return found

    def _leaves_of(self, activation: Activation, chains: Iterable[Chain]) -> tuple[Leaf, ...]:
        found: list[Leaf] = []
        frame = activation.frame
        origins = activation.data.get("origins", {})
        for chain in chains:
            if not chain.steps and chain.root in origins:
                found += origins[chain.root]
                continue
            value = resolve(frame, chain)
            if not host_value(value):
                continue
            root = lookup(frame, chain.root)
            if not chain.steps:
                if chain.root not in frame.f_locals or frame.f_code.co_name == "<module>":
                    scope = frame.f_globals
                    if chain.root in scope:
                        found.append(Leaf(lambda scope=scope: scope, dict, (("item", chain.root),), chain.root, value))
                continue
            steps = _fixed(frame, chain.steps)
            if steps is None:
                continue
            if chain.root in origins and not host_value(root):
                continue
            reference = _reference(root)
            if reference is not None:
                found.append(Leaf(reference, type(root), steps, chain.text, value))
        return _distinct(found)

    def done(self, step: Step) -> None:
        if step.graph is None or not step.statement.names or not self.journal.stack:
            return
        activation = self.journal.stack[-1]
        if activation.frame is not step.frame:
            return
        origins = activation.data.setdefault("origins", {})
        leaves = list(self._leaves_of(activation, step.statement.loads))
        drawn = self._random(step)
        for name in step.statement.names:
            value = step.frame.f_locals.get(name, MISSING)
            if host_value(value):
                extra = [Leaf(None, object, (), drawn, value, step.site)] if drawn else []
                kept = origins.get(name, ()) if step.statement.augmented else ()
                origins[name] = _distinct((*kept, *leaves, *extra))
            else:
                origins.pop(name, None)

    def _random(self, step: Step) -> str:
        """The call that draws a random number on the host, if the statement has one."""
        if "drew" in step.notes:
            return str(step.notes["drew"])
        for call in step.statement.calls:
            chain = chain_of(call.func)
            if chain is None:
                continue
            function = resolve_callable(step.frame, chain)
            module = getattr(function, "__module__", None) or ""
            bound = getattr(function, "__self__", None)
            owner = type(bound).__module__
            if isinstance(bound, torch._C.Generator) and chain.steps[-1][1] in _STATE_READS:
                return chain.text
            if module.startswith(_RANDOM_MODULES) or owner.startswith(_RANDOM_MODULES):
                return chain.text
        return ""

    # ------------------------------------------------------------ captured work
    def _call(self, func: Any, name: str, held: Any, changes: Any, fresh: Any, stream: int) -> None:
        machine = self.machine
        if machine.capture is None or not machine.capturing():
            return
        step = self.journal.current
        if step is None or step.graph is None:
            return
        for value in machine.here.arguments:
            if isinstance(value, torch.Tensor) and value.dim() == 0 and not machine.holds(value):
                with off():
                    known = (weakref.ref(value), value.item(), step.site)
                self.host_scalars.setdefault(step.graph, []).append(known)
        if "used" in step.notes:
            return
        step.notes["used"] = True
        activation = self.journal.stack[-1]
        leaves = self._leaves_of(activation, step.statement.loads)
        drawn = self._random(step)
        if drawn:
            leaves = (*leaves, Leaf(None, object, (), drawn, None, step.site))
        if leaves:
            self.uses.setdefault(step.graph, []).append(Use(step.graph, step.site, leaves))

    def _graph(self, graph: Any) -> None:
        self._ended[graph.number] = self.machine.order

    def begins(self, step: Step) -> None:
        if step.graph is None and self._ended and self.journal.stack:
            self.journal.stack[-1].data.setdefault("lines", set()).add(step.site)

    def _for_others(self, graph: Any) -> None:
        """A replay for an object that carries another value than the captured functions were given."""
        given = self.given.get(graph.number)
        if not given:
            return
        for activation in self.journal.stack:
            if activation.frame.f_code.co_name == "<module>":
                continue
            code, values = activation.frame.f_code, activation.frame.f_locals
            for name in given.keys() & set(code.co_varnames[: code.co_argcount]):
                if self._other(graph, activation, given, name, values.get(name)):
                    return
            for owner in list(values.values()):
                members = getattr(owner, "__dict__", None)
                if not isinstance(members, dict) or isinstance(owner, torch.nn.Module):
                    continue
                for name in given.keys() & members.keys():
                    if self._other(graph, activation, given, name, members[name]):
                        return

    def _other(self, graph: Any, activation: Activation, given: dict[str, Any], name: str, now: Any) -> bool:
        now = tuple(now) if isinstance(now, list) else now
        if not host_value(now) or now == given[name] or type(now) is not type(given[name]):
            return False
        lines = tuple(activation.data.get("lines", ()))
        self.machine.note("replayed-for-others", graph.number, lines=lines, text=name, old=given[name], new=now)
        return True

    def _replay(self, graph: Any) -> None:
        self._for_others(graph)
        for reference, old, site in self.host_scalars.get(graph.number, ()):
            tensor = reference()
            if tensor is not None:
                with off():
                    now = tensor.item()
                if now != old:
                    self.machine.note(
                        "number-changed", graph.number, site=site, text="the CPU scalar", old=old, new=now
                    )
        for use in self.uses.get(graph.number, ()):
            for leaf in use.leaves:
                if leaf.random is not None:
                    if leaf.text not in use.stale:
                        use.stale.add(leaf.text)
                        self.machine.note("random-baked", graph.number, site=leaf.random, use=use.site, text=leaf.text)
                    continue
                now = self._now(leaf, graph.number)
                if now is MISSING or (type(now) is not type(leaf.value) and not isinstance(now, (int, float))):
                    continue
                if now != leaf.value and leaf.text not in use.stale:
                    use.stale.add(leaf.text)
                    self.machine.note(
                        "number-changed", graph.number, site=use.site, text=leaf.text, old=leaf.value, new=now
                    )

    def _now(self, leaf: Leaf, graph: int) -> Any:
        root = leaf.root()
        if root is not None:
            value = follow(root, leaf.steps)
            if host_value(value) and value != leaf.value:
                return value
        latest = self.latest.get(leaf.kind)
        if latest is not None and len(leaf.steps) == 1 and leaf.steps[0][0] == "attr":
            made, order, stack = latest
            name = leaf.steps[0][1]
            here = {a.number for a in self.journal.stack if a.frame.f_code.co_name != "<module>"}
            if order > self._ended.get(graph, 0) and name in made and here & set(stack):
                return made[name]
        return MISSING


def _distinct(leaves: Iterable[Leaf]) -> tuple[Leaf, ...]:
    return tuple({(leaf.text, leaf.kind): leaf for leaf in leaves}.values())


def _chains(node: ast.AST) -> tuple[Chain, ...]:
    found: list[Chain] = []
    whole = chain_of(node)
    if whole is not None:
        return (whole,)
    for part in ast.iter_child_nodes(node):
        found += _chains(part)
    return tuple(found)


def _fixed(frame: Any, steps: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...] | None:
    """The steps with the values that variable keys have now."""
    out: list[tuple[str, Any]] = []
    for kind, value in steps:
        if kind == "key":
            key = lookup(frame, value)
            if key is MISSING or not isinstance(key, (int, str)):
                return None
            out.append(("item", key))
        elif kind == "keys":
            return None
        else:
            out.append((kind, value))
    return tuple(out)


def _reference(root: Any) -> Any:
    if isinstance(root, dict):
        return lambda: root
    if isinstance(root, type(ast)):
        return lambda: root
    try:
        return weakref.ref(root)
    except TypeError:
        return None


def resolve_callable(frame: Any, chain: Chain) -> Any:
    value = lookup(frame, chain.root)
    for kind, name in chain.steps:
        if value is MISSING or kind != "attr":
            return MISSING
        try:
            inner = vars(value).get(name, MISSING)
        except TypeError:
            inner = MISSING
        if inner is MISSING and isinstance(getattr(type(value), name, None), property):
            return MISSING
        value = inner if inner is not MISSING else getattr(value, name, MISSING)
    return value
