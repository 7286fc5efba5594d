"""Python state that captured code changes, and whether the program reads it after a replay.

A store of captured code runs once. That is a fault where the program counts on its running again: where the new value
is made of the old one (a counter, a list that grows, a tensor that is carried from step to step), or of something that
has changed since. What each run would make anew (an attribute that is rebuilt in every forward, what hangs on an object
that the capture itself made) is the same after a replay.
"""

from __future__ import annotations

from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.syntax import KEEPERS, Chain, chain_of
from graphlint.runtime.watch.fresh import Fresh
from graphlint.runtime.watch.journal import MISSING, Activation, Journal, Step, Watcher, host_value, lookup, resolve
from graphlint.runtime.watch.leaves import Leaf, Leaves, resolve_callable
from graphlint.runtime.watch.written import Written, at_leaf, name_of, walk

#: More stores of captured code are not followed.
MAX_WRITTEN = 2000
Key = tuple[int, Any]


class Stores(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.leaves = Leaves.of_journal(journal)
        self.identities = journal.identities
        self.fresh = Fresh(journal.identities)
        self.written: list[Written] = []
        self.replays: dict[int, int] = {}
        self._loaded: dict[int, dict[Key, set[tuple[str, int]]]] = {}
        self._stored: dict[int, dict[Key, bool]] = {}
        """Of each capture, the places that it stored to, and whether what stands there is made of what stood there
        before the capture."""
        self._origins: dict[int, dict[Any, tuple[Leaf, ...]]] = {}
        """Of each capture, what the numbers that it stored were made of."""
        self._pending: list[tuple[Written, int]] = []
        """Tensors that took the place of others, with the addresses of those."""
        self._openers: dict[int, int] = {}
        """Of each capture, the call of the code that opened it."""
        machine.on_begin.append(self._begun)
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)

    def _begun(self, graph: int) -> None:
        self._openers[graph] = self.journal.call_of(frames.user_frame())

    def entered(self, activation: Activation) -> None:
        if self.machine.capture is not None and self.machine.capturing():
            self.fresh.entered(self.machine.capture.number, activation.frame)

    # ------------------------------------------------------------ stores
    def begins(self, step: Step) -> None:
        statement = step.statement
        if step.graph is None:
            if self.written:
                self._read(step)
            return
        self._load(step)
        before: list[tuple[Chain, Any, str, Any]] = []
        for chain in statement.stores:
            before.append((chain, resolve(step.frame, chain.owner), "store", self._seen(resolve(step.frame, chain))))
        for chain, method in statement.mutated:
            value = resolve(step.frame, chain)
            if isinstance(value, (list, dict, set)) or type(value).__name__ == "deque":
                before.append((chain, value, method, len(value)))
        for call in statement.calls:
            bound = chain_of(call.func)
            schedule = resolve(step.frame, bound.owner) if bound is not None and bound.steps else None
            if bound is not None and isinstance(schedule, torch.optim.lr_scheduler.LRScheduler):
                before.append((bound, schedule, "schedule", schedule.last_epoch))
        for name in statement.names:
            if name in statement.nonlocals:
                before.append((Chain(name), None, "name", self._seen(lookup(step.frame, name))))
        step.notes["before"] = before

    def _load(self, step: Step) -> None:
        assert step.graph is not None
        loads = self._loaded.setdefault(step.graph, {})
        line = (step.path, step.line)
        for chain in step.statement.loads:
            if len(loads) > 20_000:
                return
            if chain.root not in step.frame.f_code.co_varnames:
                loads.setdefault((self.identities.number(step.frame.f_globals), chain.root), set()).add(line)
            for owner, name in walk(step.frame, chain):
                loads.setdefault((self.identities.number(owner), name), set()).add(line)

    def loaded(self, graph: int, owner: Any, name: Any) -> bool:
        """Whether a statement of the captured code reads an attribute, an item or a global."""
        return (self.identities.known(owner), name) in self._loaded.get(graph, {})

    def done(self, step: Step) -> None:
        if step.graph is None:
            if self.written:
                self._stored_since(step)
            return
        for chain, owner, how, old in step.notes.pop("before", ()):
            if owner is not MISSING:
                self._inside(step, chain, owner, how, old)
        self.fresh.done(step.graph, step)

    def _inside(self, step: Step, chain: Chain, owner: Any, how: str, old: Any) -> None:
        graph = step.graph
        assert graph is not None
        if how == "schedule":
            if owner.last_epoch != old:
                self._add(self._written(step, owner, "last_epoch", how, f"{chain.text}()", True))
            return
        new = resolve(step.frame, chain)
        if how == "name":
            if not isinstance(new, torch.Tensor) and self._seen(new) != old:
                self._host(step, step.frame.f_globals, chain.root, chain.text, old, new)
            return
        if self.fresh.holds(graph, owner):
            return
        if how != "store":
            self._mutated(step, chain, owner, how, old)
            return
        name = name_of(step.frame, chain)
        if name is MISSING or (self._opens(step) and not host_value(new)):
            return  # `self.out = model(x)` in the block that captures
        if not isinstance(new, torch.Tensor):
            self._host(step, owner, name, chain.text, old, new, chain.owner if chain.steps[-1][0] != "attr" else None)
            return
        carried = self._carries(step, owner, name, False, earlier=True)
        if carried and isinstance(old, tuple) and old[0] == "tensor" and self._seen(new) != old:
            written = self._written(step, owner, name, "rebound", chain.text, True)
            self._pending.append((written, old[1]))

    def _host(
        self, step: Step, owner: Any, name: Any, text: str, old: Any, new: Any, chain: Chain | None = None
    ) -> None:
        """A number, a container or another object was stored."""
        assert step.graph is not None
        origins = self._origins.setdefault(step.graph, {})
        key = (self.identities.number(owner), name)
        known = origins.get(key)
        leaves = self._made_of(step)
        if step.statement.augmented:
            leaves += self._stood_there(owner, name, text, old) if known is None else known
        carried = self._carries(step, owner, name, any(at_leaf(x, owner, name) for x in leaves))
        origins[key] = leaves
        read = bool(step.notes.get("read"))
        kind = "host" if host_value(new) or new is None else "container"
        if carried and (self._seen(new) != old or read):
            self._add(self._written(step, owner, name, kind, text, True, (), chain))
        elif not carried and kind == "host":
            always = read or self._clock(step)
            if always or leaves:
                self._add(self._written(step, owner, name, kind, text, always, () if always else leaves, chain))

    def _stood_there(self, owner: Any, name: Any, text: str, old: Any) -> tuple[Leaf, ...]:
        if old[0] != "host":
            return ()
        how = "item" if isinstance(owner, (dict, list)) else "attr"
        return (Leaf(self.identities.reference(owner), type(owner), ((how, name),), text, old[1]),)

    def _carries(self, step: Step, owner: Any, name: Any, of_itself: bool, earlier: bool = False) -> bool:
        """Whether what is stored is made of what stood there before the capture. of_itself: it is known to be.
        earlier: what was read there earlier in the capture counts, too."""
        graph = step.graph
        assert graph is not None
        key = (self.identities.number(owner), name)
        lines = self._loaded.get(graph, {}).get(key, set())
        of_itself = of_itself or step.statement.augmented or (step.path, step.line) in lines
        if not of_itself and isinstance(owner, dict):
            asked = [c for c in step.statement.loads if c.steps and c.steps[-1] in (("attr", "get"), ("attr", "pop"))]
            of_itself = any(resolve(step.frame, c.owner) is owner for c in asked)
        stored = self._stored.setdefault(graph, {})
        stored[key] = stored[key] and of_itself if key in stored else of_itself or (earlier and bool(lines))
        return stored[key]

    def _mutated(self, step: Step, chain: Chain, owner: Any, method: str, old: int) -> None:
        graph = step.graph
        assert graph is not None
        if method == "clear":
            self.fresh.add(graph, owner)  # filled anew in every run
            return
        own = not chain.steps and chain.root in step.frame.f_code.co_varnames
        if own or len(owner) == old or (isinstance(owner, dict) and method in ("update", "setdefault")):
            return
        if self._opens(step) and method in KEEPERS and isinstance(owner, list) and isinstance(owner[-1], torch.Tensor):
            return  # the outputs of one graph after the other
        leaves: tuple[Leaf, ...] = ()
        if isinstance(owner, set):  # the same is added again without a change
            leaves = self._made_of(step)
            if not leaves:
                return
        text = f"{chain.text}.{method}(...)"
        self._add(self._written(step, owner, None, "container", text, not leaves, leaves, chain))

    def _made_of(self, step: Step) -> tuple[Leaf, ...]:
        """The numbers outside of the capture that what a statement stores is made of."""
        assert step.graph is not None
        used = self.leaves.used(self.journal.stack[-1], step)
        return tuple(x for x in self.outside(step.graph, used) if not x.weak and x.random is None)

    def outside(self, graph: int, leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
        """Leaves with what the capture itself stored traced back to what that was made of: nothing, where each run of
        the captured code sets a number anew."""
        origins = self._origins.get(graph)
        if not origins:
            return leaves
        found: list[Leaf] = []
        for leaf in leaves:
            root = leaf.root() if leaf.root is not None and len(leaf.steps) == 1 else None
            key = (self.identities.known(root), leaf.steps[0][1]) if root is not None else None
            found += origins.get(key, (leaf,))
        return tuple({x.key: x for x in found}.values())

    def _clock(self, step: Step) -> bool:
        """Whether the statement asks something that answers otherwise each time."""
        for call in step.statement.calls:
            chain = chain_of(call.func)
            function = resolve_callable(step.frame, chain) if chain is not None else None
            module = getattr(function, "__module__", None) or ""
            if module in ("time", "datetime") or function is next or bool(self.leaves.random(step)):
                return True
        return False

    def _opens(self, step: Step) -> bool:
        """Whether the statement stands in the very function that opened the capture."""
        return self.machine.capture is not None and self._openers.get(self.machine.capture.number) == step.call

    def _written(
        self,
        step: Step,
        owner: Any,
        name: Any,
        kind: str,
        text: str,
        carried: bool,
        leaves: tuple[Leaf, ...] = (),
        chain: Chain | None = None,
    ) -> Written:
        """chain: leads to the owner."""
        assert step.graph is not None
        steps = [a.step for a in reversed(self.journal.stack)]
        way = tuple(s.site for s in steps if s is not None and s.graph == step.graph)
        owned = self.identities.reference(owner)
        made = Written(step.graph, step.site, owned, name, kind, text, way, carried, leaves)
        if chain is not None and isinstance(owner, (list, dict, set)) and chain.steps and chain.steps[-1][0] == "attr":
            holder = resolve(step.frame, chain.owner)
            if holder is not MISSING and not isinstance(holder, (list, dict, tuple)):
                made.container, made.member = (type(owner),), chain.steps[-1][1]
                made.holder = self.identities.reference(holder)
        return made

    def _add(self, written: Written) -> None:
        if len(self.written) < MAX_WRITTEN:
            self.written.append(written)

    def _seen(self, value: Any) -> Any:
        """What is kept of a value to compare it later."""
        if value is MISSING or value is None:
            return ("none",)
        if isinstance(value, torch.Tensor):
            return ("tensor", _storage_of(value).data_ptr())
        if host_value(value):
            return ("host", tuple(value) if isinstance(value, list) else value)
        if isinstance(value, (list, dict, set)):
            return ("container", self.identities.number(value), len(value))
        return ("other", self.identities.number(value))

    # ------------------------------------------------------------ captures and replays
    def _graph(self, graph: Any) -> None:
        self.replays[graph.number] = 0
        pending, self._pending = self._pending, []
        for written, old in pending:
            if written.graph == graph.number and old in graph.inputs:
                self._add(written)
        self.fresh.drop(graph.number)

    def _replay(self, graph: Any) -> None:
        self.replays[graph.number] = graph.replays
        loads = self._loaded.get(graph.number, {})
        for written in self.written:
            if written.graph != graph.number or written.told:
                continue
            if written.kind in ("rebound", "schedule"):
                self._tell(written, None)
            elif written.kind == "host" and written.carried and (owner := written.owner()) is not None:
                key = (self.identities.known(owner), written.name)
                lines = loads.get(key, set()) - {(written.at.path, written.at.line)}
                if lines:  # a counter that the captured code itself depends on
                    path, line = min(lines)
                    self._tell(written, frames.Site(path, line, ""))

    def _tell(self, written: Written, read: frames.Site | None, weak: bool = False) -> None:
        written.told = True
        self.machine.note(
            "captured-store-read",
            written.graph,
            site=written.at,
            read=read,
            text=written.text,
            kind=written.kind,
            way=written.way,
            weak=weak,
        )

    # ------------------------------------------------------------ what other code does
    def _stored_since(self, step: Step) -> None:
        """What stands there now is no longer what the capture left."""
        statement = step.statement
        places = [(resolve(step.frame, c.owner), name_of(step.frame, c)) for c in statement.stores]
        places += [(resolve(step.frame, c), None) for c, _ in statement.mutated]
        places += [(step.frame.f_globals, n) for n in statement.names]
        for owner, name in places:
            if owner is MISSING:
                continue
            for written in self.written:
                same = name in (written.name, None) and written.now() is owner
                rebuilt = written.holder is not None and name == written.member and written.holder() is owner
                if same or rebuilt:
                    written.since = self.replays.get(written.graph, 0)

    def _read(self, step: Step) -> None:
        for written in self.written:
            if written.told or self.replays.get(written.graph, 0) <= written.since:
                continue
            owner = written.now()
            if owner is None:
                continue
            if any(self._reads(step, chain, written, owner) for chain in step.statement.loads) and (
                written.carried or any(self.leaves.now(x, written.graph) is not MISSING for x in written.leaves)
            ):
                self._tell(written, step.site, weak=owner is not written.owner())

    def _reads(self, step: Step, chain: Chain, written: Written, owner: Any) -> bool:
        frame = step.frame
        if written.name is not None and owner is frame.f_globals:
            return chain.root == written.name and chain.root not in frame.f_code.co_varnames
        if lookup(frame, chain.root) is owner:
            return self._takes(step, chain, 0, written, owner)
        for place, (part, name) in enumerate(walk(frame, chain), 1):
            if part is owner and written.name is not None:
                return bool(name == written.name)
            if written.name is None or isinstance(owner, dict):
                value = resolve(frame, Chain(chain.root, chain.steps[:place]))
                if value is owner:
                    return self._takes(step, chain, place, written, owner)
        return False

    def _takes(self, step: Step, chain: Chain, length: int, written: Written, owner: Any) -> bool:
        """Whether a chain that leads to the changed object itself, at `length`, takes from it what was changed."""
        frame = step.frame
        if length == len(chain.steps):
            stored = any(c.owner == chain for c in step.statement.stores)
            return not stored and (written.name is None or isinstance(owner, dict))
        if written.name is None:
            item = resolve(frame, Chain(chain.root, chain.steps[: length + 1]))
            return not (isinstance(item, torch.Tensor) and self.machine.holds(item))
        names = list(walk(frame, Chain(chain.root, chain.steps[: length + 1])))
        kind, name = chain.steps[length]
        if kind == "attr" and isinstance(owner, dict):
            if name not in ("get", "pop"):
                return True
            asked = [c.args[0] for c in step.statement.calls if c.args and chain_of(c.func) == chain]
            return any(getattr(a, "value", written.name) == written.name for a in asked)
        return bool(names) and names[-1][1] == written.name
