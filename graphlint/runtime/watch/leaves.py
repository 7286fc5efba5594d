"""Where the numbers of captured code come from: the places in which the program keeps them.

A leaf is such a place: an attribute or an item of an object, a global, a variable of a function that is still running
or runs again. Inside a capture, leaves are handed on through local variables, arguments and what functions return.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine
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
#: Comprehensions have variables of their own in frames of their own.
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A number where the program keeps it. `root` gives the object it hangs from."""

    root: Any
    kind: type
    steps: tuple[tuple[str, Any], ...]
    text: str
    value: Any
    random: frames.Site | None = None
    call: int = 0
    """Of a function's variable: the call that it belongs to; `root` gives the function's code."""
    weak: bool = False
    """Another number here need not be another number there: a size is rounded up, a branch may go the same way."""

    @property
    def key(self) -> tuple[Any, ...]:
        return self.text, self.kind, self.call

    @property
    def variable(self) -> bool:
        """Whether it is a variable, not a part of an object."""
        return bool(self.call) or (self.kind is dict and self.text == self.steps[0][1] if self.steps else False)


class Leaves(Watcher):
    """Follows numbers through a capture. Other watchers ask it; it comes before them."""

    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.latest: dict[type, tuple[dict[str, Any], int, tuple[int, ...]]] = {}
        """Of each class of the user's, what its newest instance was made with, when, and under which calls."""
        self._ended: dict[int, int] = {}
        machine.on_graph.append(self._graph)
        machine.listeners.append(self._noted)

    @classmethod
    def of_journal(cls, journal: Journal) -> Leaves:
        """The one that the journal's other watchers share."""
        return next(w for w in journal.watchers if isinstance(w, cls))

    def _noted(self, name: str, data: dict[str, Any], at: Any) -> None:
        step = self.journal.current
        if name == "host-random" and step is not None:
            step.notes["drew"] = str(data["call"]).replace("aten::", "torch.")

    def _graph(self, graph: Any) -> None:
        self._ended[graph.number] = self.machine.order

    # ------------------------------------------------------------ handed on
    def entered(self, activation: Activation) -> None:
        frame = activation.frame
        code = frame.f_code
        if code.co_name == "__init__":
            values = frame.f_locals
            owner = values.get("self")
            if owner is not None:
                made = {k: v for k, v in values.items() if host_value(v)}
                self.latest[type(owner)] = (made, self.machine.order, tuple(a.number for a in self.journal.stack))
        caller = activation.parent
        if activation.number == 0 or not self.machine.capturing():
            return
        activation.data["inside"] = True
        if caller is None or caller.step is None or code.co_name in _COMPREHENSIONS:
            return
        origins = activation.data.setdefault("origins", {})
        matched = arguments_of(caller.step.statement, code)
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        first = frame.f_locals.get(parameters[0]) if parameters else None
        method = not isinstance(first, torch.Tensor) and hasattr(type(first), code.co_name)
        bound = parameters[1:] if method or parameters[:1] in (("self",), ("cls",)) else parameters
        for place, name in enumerate(bound):
            if not host_value(frame.f_locals.get(name, MISSING)):
                continue
            given = matched.get(name, matched.get(place))
            if given is not None:
                origins[name] = (*self.of(caller, _chains(given)), *_returned(caller.step))

    def done(self, step: Step) -> None:
        if step.graph is None or not self.journal.stack:
            return
        activation = self.journal.stack[-1]
        if activation.frame is not step.frame:
            return
        statement = step.statement
        decides, answers = isinstance(statement.node, (ast.If, ast.While)), isinstance(statement.node, ast.Return)
        if not statement.names and not decides and not answers:
            return
        leaves = self.used(activation, step)
        if decides or answers:
            known = activation.data.setdefault("answers", [])
            if len(known) < 64:
                known += map(_weakened, leaves) if decides else leaves
        origins = activation.data.setdefault("origins", {})
        for name in statement.names:
            value = step.frame.f_locals.get(name, MISSING)
            if host_value(value):
                kept = origins.get(name, ()) if statement.augmented else ()
                made = map(_weakened, leaves) if statement.calls and not isinstance(value, float) else leaves
                origins[name] = _distinct((*kept, *made))
            else:
                origins.pop(name, None)

    def returned(self, activation: Activation, value: Any) -> None:
        """A number that a function made of others: a schedule, a property."""
        parent = activation.parent
        step = parent.step if parent is not None else None
        if step is not None and step.graph is not None and host_value(value):
            answers = activation.data.get("answers", ())
            given = answers if isinstance(value, float) else map(_weakened, answers)
            step.notes["returned"] = _distinct((*_returned(step), *given))

    # ------------------------------------------------------------ answers
    def used(self, activation: Activation, step: Step) -> tuple[Leaf, ...]:
        """The leaves of all numbers that a statement loads, or draws."""
        drawn = self.random(step)
        extra = [Leaf(None, object, (), drawn, None, step.site)] if drawn else []
        return _distinct((*self.of(activation, step.statement.loads), *_returned(step), *extra))

    def of(self, activation: Activation, chains: Iterable[Chain]) -> tuple[Leaf, ...]:
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
            if not chain.steps:
                found += self._variable(activation, chain.root, value)
                continue
            root = lookup(frame, chain.root)
            steps = _fixed(frame, chain.steps)
            if steps is None:
                continue
            if host_value(root):
                found += origins.get(chain.root, ())
                continue
            found.append(Leaf(self.journal.identities.reference(root), type(root), steps, chain.text, value))
        return _distinct(found)

    def _variable(self, activation: Activation, name: str, value: Any) -> tuple[Leaf, ...]:
        frame = activation.frame
        code = frame.f_code
        if name not in frame.f_locals or code.co_name == "<module>":
            scope = frame.f_globals
            return (Leaf(lambda: scope, dict, (("item", name),), name, value),) if name in scope else ()
        if name in code.co_freevars:
            return self._enclosing(activation, name, value)
        if code.co_name in _COMPREHENSIONS or "inside" in activation.data:
            return ()
        return (Leaf(lambda: code, dict, (), name, value, call=activation.number, weak=not isinstance(value, float)),)

    def _enclosing(self, activation: Activation, name: str, value: Any) -> tuple[Leaf, ...]:
        """A variable of a function around this one."""
        outer = activation.parent
        while outer is not None:
            if name in outer.frame.f_code.co_cellvars:
                origins = outer.data.get("origins", {})
                return origins[name] if name in origins else self._variable(outer, name, value)
            outer = outer.parent
        cell = _cell(activation, name)
        return (Leaf(lambda: cell, object, (("attr", "cell_contents"),), name, value),) if cell is not None else ()

    def random(self, step: Step) -> str:
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

    def now(self, leaf: Leaf, graph: int) -> Any:
        """What stands at the leaf now, if that is another number than the one of the capture; MISSING otherwise."""
        value = self._present(leaf, graph)
        if value is MISSING or value == leaf.value:
            return MISSING
        return value if type(value) is type(leaf.value) or isinstance(value, (int, float)) else MISSING

    def _present(self, leaf: Leaf, graph: int) -> Any:
        if leaf.call:
            code = leaf.root()
            for activation in reversed(self.journal.stack):
                if activation.frame.f_code is code:
                    value = activation.frame.f_locals.get(leaf.text, MISSING)
                    return value if host_value(value) else MISSING
            return MISSING
        root = leaf.root() if leaf.root is not None else None
        if root is not None:
            value = root.cell_contents if leaf.kind is object and leaf.steps else follow(root, leaf.steps)
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


def _returned(step: Step) -> tuple[Leaf, ...]:
    """The leaves of what functions that a statement calls gave back."""
    found: tuple[Leaf, ...] = step.notes.get("returned", ())
    return found


def arguments_of(statement: Statement, code: Any) -> dict[Any, ast.expr]:
    """The arguments of the one call of a function in a statement, by place and by name."""
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


def _weakened(leaf: Leaf) -> Leaf:
    return leaf if leaf.weak or leaf.random is not None else replace(leaf, weak=True)


def _distinct(leaves: Iterable[Leaf]) -> tuple[Leaf, ...]:
    found: dict[Any, Leaf] = {}
    for leaf in leaves:
        if leaf.key not in found or not leaf.weak:
            found[leaf.key] = leaf
    return tuple(found.values())


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


def _cell(activation: Activation, name: str) -> Any:
    """The cell of a free variable whose function is no longer running."""
    code, caller = activation.frame.f_code, activation.parent
    if caller is None or caller.step is None:
        return None
    for call in caller.step.statement.calls:
        chain = chain_of(call.func)
        function = resolve_callable(caller.frame, chain) if chain is not None else None
        if getattr(function, "__code__", None) is code:
            cells = getattr(function, "__closure__", None) or ()
            return dict(zip(code.co_freevars, cells, strict=False)).get(name)
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
