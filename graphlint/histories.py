"""Which leaves a backward fills: the history of its loss, as autograd keeps it.

Glossary:
    tracked   autograd keeps a history of it.
    history   the facts that a loss was computed from with autograd on, without what lies behind a `detach`.
    leaf      a parameter or another tensor at the beginning of a history: a backward fills its `.grad`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphlint import queries
from graphlint.fact import Bind, Context, Fact, Iterate, Op, Operator
from graphlint.knowledge.results import differentiable
from graphlint.region import Region
from graphlint.value import Const, Instance, Storage, Tensor, Unknown, Value, options, tensors

BACKWARD = ("Tensor.backward", "torch.autograd.backward")
#: So many items of a long sequence are looped over.
_LOOPED = 4


@dataclass(frozen=True, slots=True)
class Filled:
    """`storages` are the leaves that a backward may give gradients to; `sure` if it can be no others."""

    storages: frozenset[Storage]
    sure: bool


def recording(contexts: tuple[Context, ...]) -> bool:
    """False inside the innermost block that turns autograd off."""
    for context in reversed(contexts):
        match context.name:
            case "torch.no_grad":
                return False
            case "torch.enable_grad":
                return True
            case "torch.inference_mode" if _given(context.value, "mode") is not False:
                return False
            case "torch.set_grad_enabled" if (mode := _given(context.value, "mode")) is not None:
                return mode
    return True


def _given(manager: Value, name: str) -> bool | None:
    if not isinstance(manager, Instance):
        return None
    value = manager.args[0] if manager.args else manager.kwargs.get(name)
    return bool(value.value) if isinstance(value, Const) else None


def filled(region: Region, backward: Op, facts: list[Fact]) -> Filled:
    """The leaves that `backward` fills, its loss having been computed by `facts` (in order)."""
    if (named := backward.kwargs.get("inputs")) is not None and not _vague(named):
        return Filled(frozenset(t.storage for t in tensors(named, 3)), sure=True)
    loss = backward.receiver if backward.name == BACKWARD[0] else backward.argument(0, "tensors")
    walk = _Walk(region, backward.order, [f for f in facts if f.order < backward.order])
    walk.run([loss] if loss is not None else [])
    read = {s for f in walk.facts if recording(f.contexts) for s in walk.leaves_read(f)}
    return Filled(frozenset(walk.leaves if walk.sure else read), walk.sure)


def _vague(value: Value) -> bool:
    """True if `value` may hold tensors that are not known."""
    return any(isinstance(o, Unknown) for o in options(value)) or any(
        isinstance(o, Unknown) for p in (getattr(value, "items", ()), (getattr(value, "rest", None),)) for o in p
    )


class _Walk:
    """Backwards through the facts that a loss was computed by."""

    def __init__(self, region: Region, end: int, facts: list[Fact]) -> None:
        self.facts = facts
        self.leaves: set[Storage] = set()
        self.sure = True
        self._made = queries.makers(facts)
        self._again: dict[Storage, list[Value]] = {}
        for result, args in region.repeated:
            for storage in queries.storages(result, 2):
                self._again.setdefault(storage, []).extend(args)
        self._frozen = _switched(region, end)
        self._seen: set[int] = set()

    def run(self, losses: list[Value]) -> None:
        todo: list[Tensor] = []
        self._take(losses, todo)
        self.sure = self.sure and bool(todo)
        visited: set[tuple[Storage, bool]] = set()
        while todo:
            tensor = todo.pop()
            tracked = tensor.requires_grad or tensor.grad_graph
            if (tensor.storage, tracked) not in visited:
                visited.add((tensor.storage, tracked))
                self._visit(tensor, tracked, todo)

    def _visit(self, tensor: Tensor, tracked: bool, todo: list[Tensor]) -> None:
        storage = tensor.storage
        made = self._made.get(storage, [])
        if not tracked and any(_tracks(f, storage) for f in made):
            return  # detached since
        if self._is_leaf(tensor):
            self.leaves.add(storage)
        if not made and storage not in self._again:
            # Of a tensor that came from elsewhere nobody knows what it hangs on.
            self.sure = self.sure and tensor.sure and not (tensor.grad_graph and storage.kind == "fresh")
        for fact in made:
            if id(fact) in self._seen or not recording(fact.contexts):
                continue
            self._seen.add(id(fact))
            if isinstance(fact, (Op, Operator)) and not _passes(fact, storage):
                continue
            self._take(queries.operands(fact), todo)
        self._take(self._again.get(storage, ()), todo)

    def _take(self, values: Iterable[Value], todo: list[Tensor]) -> None:
        for value in values:
            self.sure = self.sure and not _vague(value)
            todo += tensors(value, 2)

    def _is_leaf(self, tensor: Tensor) -> bool:
        """A parameter, or another tensor, unless it wants no gradient."""
        if (wants := self._frozen.get(tensor.storage)) is not None:
            return wants and tensor.view not in ("detach", "data")
        return tensor.requires_grad or tensor.storage.kind != "parameter"

    def leaves_read(self, fact: Fact) -> set[Storage]:
        return {t.storage for v in queries.operands(fact) for t in tensors(v, 2) if self._is_leaf(t)}


def _tracks(fact: Fact, storage: Storage) -> bool:
    made = queries.result(fact)
    return made is not None and any(
        t.storage is storage and (t.requires_grad or t.grad_graph) for t in tensors(made, 2)
    )


def _passes(fact: Op | Operator, storage: Storage) -> bool:
    """False if what `fact` makes has no history, whatever it is made from."""
    if isinstance(fact, Op) and fact.name == "torch.autograd.grad":
        wants = fact.kwargs.get("create_graph", Const(False))
        return not isinstance(wants, Const) or bool(wants.value)
    name = fact.op if isinstance(fact, Operator) else fact.name.rpartition(".")[2]
    made = next((t for t in tensors(fact.result, 2) if t.storage is storage), None) if fact.result is not None else None
    return differentiable(name, made.dtype if made is not None else None)


def _switched(region: Region, end: int) -> dict[Storage, bool]:
    """Whether leaves want gradients at order `end`, as far as `requires_grad_` and the like were seen to say it."""
    found: dict[Storage, bool] = {}
    loops: dict[int, set[Storage]] = {}
    for index, fact in enumerate(region.life[: region.position(end)]):
        switch = _switch(fact)
        if switch is None:
            continue
        owner, wants = switch
        mine = {t.storage for t in tensors(owner, 8)}
        if fact.loops and isinstance(owner, Tensor):
            seen = loops.setdefault(fact.loops[-1][0], set())
            seen |= mine
            looped = {t.storage for t in _looped_over(region, index)}
            # Of many parameters only a few are looped over: what is said of each of these is said of all.
            if len(seen & looped) >= min(_LOOPED, len(looped)):
                mine |= looped
        for storage in mine:
            found[storage] = wants or (fact.maybe and found.get(storage, True))
    return found


def _switch(fact: Fact) -> tuple[Value, bool] | None:
    """The tensor, or the module, that is told whether it wants gradients, and what it is told."""
    if isinstance(fact, Bind) and fact.place.name == "requires_grad" and fact.owner is not None:
        return fact.owner, not (isinstance(fact.value, Const) and not fact.value.value)
    if isinstance(fact, Op) and fact.name.rpartition(".")[2] == "requires_grad_" and fact.receiver is not None:
        given = fact.argument(0, "requires_grad")
        return fact.receiver, not (isinstance(given, Const) and not given.value)
    return None


def _looped_over(region: Region, index: int) -> list[Tensor]:
    """The tensors of the sequence that the innermost loop around a fact runs over."""
    fact = region.life[index]
    for past in reversed(region.life[:index]):
        if isinstance(past, Iterate) and past.chain == fact.chain and len(past.loops) == len(fact.loops) - 1:
            return tensors(past.value, 3)
    return []
