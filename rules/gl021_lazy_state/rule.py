"""Values made on first use at the wrong time: in the warm-up for ever, or inside the capture at every replay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from graphlint import queries
from graphlint.fact import Bind, Branch, Enter, Fact, Frame, Op, Return, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Instance, Storage, Tensor, Value, origins, tensors

#: How many branches of a function are looked back to from an assignment.
NEAR = 12


@rule("GL021", "lazy-state", "error", "a value made on first use is frozen in the graph, or made anew by every replay")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    if not region.warm:
        yield from born_inside(region)
    yield from memo_of_data(region)


def memos(facts: list[Fact]) -> Iterator[tuple[Branch, Bind]]:
    """First-use assignments: attributes and items bound in the branch that tests them, or their flag."""
    taken: dict[tuple[str, int], list[Branch]] = {}
    named: dict[tuple[tuple[Frame, ...], str], list[Bind]] = {}
    recent: deque[Branch] = deque(maxlen=2 * NEAR)
    for position, fact in enumerate(facts):
        place = (fact.at.path, len(fact.chain))
        if isinstance(fact, Branch) and fact.body is not None:
            taken.setdefault(place, []).append(fact)
            recent.append(fact)
        elif isinstance(fact, Bind) and fact.how == "=" and fact.place.kind == "local":
            named.setdefault((fact.chain, fact.text), []).append(fact)
        elif isinstance(fact, Bind) and fact.how == "=" and fact.place.kind in ("attribute", "item"):
            following = facts[position : position + 12]
            for branch in reversed(taken.get(place, [])[-NEAR:]):
                if not _within(fact, branch):
                    continue
                if _tests(branch, fact, following) or _second_name(branch, fact, named, following):
                    yield branch, fact
                    break
            else:
                near = facts[max(position - NEAR, 0) : position + NEAR]
                asked = next((b for b in reversed(recent) if _prepares(b, fact, near)), None)
                if asked is not None:
                    yield asked, fact


def on_demand(facts: list[Fact]) -> Iterator[Bind]:
    """Entries of a table that looking for them makes: `defaultdict`, `__missing__`, `setdefault`."""
    for fact in facts:
        made = isinstance(fact, Bind) and (fact.how == "default" or fact.function.endswith(".__missing__"))
        if made and isinstance(fact, Bind) and fact.place.kind == "item":
            yield fact


def _within(fact: Fact, branch: Branch) -> bool:
    body = branch.body
    return (
        body is not None
        and fact.at.path == branch.at.path
        and len(fact.chain) == len(branch.chain)
        and body.line <= fact.at.line <= body.end_line
    )


def _tests(branch: Branch, bind: Bind, following: list[Fact]) -> bool:
    """True if the branch is taken because what is bound was missing: `is None`, `not in`, `hasattr`, a flag."""
    target = bind.text.partition("[")[0]
    text = branch.text
    if target and target in text and ("None" in text or " in " in text or text.startswith("not ")):
        return True
    if "hasattr(" in text or "getattr(" in text:
        return True
    flags = [f.text for f in following if isinstance(f, Bind) and f.place.kind == "attribute" and _within(f, branch)]
    return any(flag and flag in text for flag in flags)


def _prepares(branch: Branch, bind: Bind, near: list[Fact]) -> bool:
    """`if not self.ready: self.prepare()`: the memo is made in a call that also answers the question."""
    deeper = len(bind.chain) - len(branch.chain)
    if not 0 < deeper <= 2 or not queries.covers(branch, bind):
        return False
    asked = origins(branch.value)
    return any(
        isinstance(f, Bind) and f.place in asked and f.order > branch.order and queries.covers(branch, f) for f in near
    )


def _second_name(
    branch: Branch, bind: Bind, named: dict[tuple[tuple[Frame, ...], str], list[Bind]], following: list[Fact]
) -> bool:
    """`v = self.x` ... `if v is None: v = make(); self.x = v`: the memo is tested under a name of its own.

    A parameter that may be left out is no memo: such a name is bound in the branch only.
    """
    name = branch.text.removesuffix(" is None").removeprefix("not ")
    mine = named.get((branch.chain, name), [])
    if name == branch.text or not any(f.order < branch.order for f in mine):
        return False
    later = [f for f in following if isinstance(f, Bind) and f.chain == bind.chain and f.text == name]
    made = {t.storage for t in tensors(bind.value, 2)} if bind.value is not None else set()
    return any(
        f.order > branch.order and _within(f, branch) and f.value is not None
        and made & {t.storage for t in tensors(f.value, 2)}
        for f in [*mine, *later]
    )  # fmt: skip


def born_inside(region: Region) -> Iterator[Problem]:
    if _put_off(region):
        return
    captured = list(region.captured)
    for bind in (*(bind for _, bind in memos(captured)), *on_demand(captured)):
        made = [t for t in tensors(bind.value, 1) if t.storage.born is region] if bind.value is not None else []
        for later in captured:
            if isinstance(later, Write) and later.order > bind.order and _goes_on(captured, bind, later, made):
                drops = [f for f in region.before if isinstance(f, Bind) and f.place == bind.place and f.region is None]
                message = (
                    f"`{bind.text}` is made inside the capture on first use and then changed in place: "
                    "every replay starts from its initial value again; make it before the capture and reset it in place"
                )
                notes = tuple(Note(f.at, "dropped here after the warm-up") for f in drops[-1:] if not _is_tensor(f))
                yield Problem(bind.at, message, (*notes, *region.way(bind))[:5], function=bind.function)
                break


def _put_off(region: Region) -> bool:
    """True if it is not known at which call the capture is made, and other calls run the same code eagerly: a counter
    lets it wait for them, as a warm-up."""
    begin = queries.begin_fact(region)
    first = next((f for f in region.captured if isinstance(f, Enter)), None)
    if begin is None or not begin.maybe or first is None:
        return False
    if not any(isinstance(f, Branch) and queries.covers(f, begin) for f in queries.start_of_call(region, begin)):
        return True  # `with graph_or_nullcontext:`
    return any(isinstance(f, Enter) and f.region is None and f.defined == first.defined for f in region.life)


def _goes_on(captured: list[Fact], bind: Bind, write: Write, made: list[Tensor]) -> bool:
    """True if a write changes what stood there, rather than filling it anew."""
    if not _looks_at(write.target, made):
        return False
    if write.how not in ("copy_", "fill_", "zero_", "normal_", "uniform_", "out=") or write.index is not None:
        return True
    between = queries.makers(f for f in captured if bind.order < f.order < write.order)
    needs, _ = queries.sources(write.source, between)
    return any(t.storage in needs for t in made)


def _is_tensor(bind: Bind) -> bool:
    return bind.value is not None and bool(tensors(bind.value, 1))


def _looks_at(value: object, made: list[Tensor]) -> bool:
    return isinstance(value, Tensor) and any(value.storage is t.storage for t in made)


def memo_of_data(region: Region) -> Iterator[Problem]:
    """A memo that the graph reads was computed from data that changes between replays."""
    facts = (
        [f for f in region.life if f.region is region]
        if region.warm
        else [f for f in region.before if f.region is None]
    )
    changes = changing(region)
    refreshed = {s for f in region.after if isinstance(f, Write) for s in queries.storages(f.target)}
    inputs, writes = set(region.inputs), set(region.writes)
    tested = {f.at for f in region.captured if isinstance(f, Branch)}
    for memo in kept_on_first_use(facts, tested):
        kept = {t.storage for t in tensors(memo.value, 2)} if memo.value is not None else set()
        read = kept if region.warm else kept & inputs
        if not read or kept & refreshed or kept & writes:
            continue
        since = region.life[region.position(memo.start) : region.position(memo.fact.order)]
        made = queries.makers(f for f in since if (f.region is region) == region.warm)
        needs, _ = queries.sources(memo.value, made)
        stale = [why for storage, why in changes.items() if storage in needs - kept]
        if stale:
            message = (
                f"`{memo.text}` is computed on first use, in the warm-up, from data that changes later: "
                "the graph goes on with the first value; compute it in the captured code"
            )
            yield Problem(memo.at, message, (stale[0], *region.way(memo.fact))[:5], function=memo.function)


@dataclass(frozen=True)
class Memo:
    """A value kept on first use: computed from `start` on, kept at `fact`, reported at `at`."""

    start: int
    at: Location
    value: Value | None
    text: str
    function: str
    fact: Fact


def kept_on_first_use(facts: list[Fact], tested: set[Location]) -> Iterator[Memo]:
    """`tested` are the branches that captured code comes by: a memo that it never asks for is none of its own."""
    for branch, bind in memos(facts):
        if branch.at in tested:
            yield Memo(branch.order, bind.at, bind.value, bind.text, bind.function, bind)
    returns: dict[str, list[Return]] = {}
    for fact in facts:
        if isinstance(fact, Return):
            returns.setdefault(fact.callee, []).append(fact)
    for enter in facts:
        if isinstance(enter, Enter) and enter.memo:
            for fact in returns.get(enter.name, []):
                if fact.order > enter.order and fact.chain == enter.chain:
                    name = enter.name.rpartition(".")[2]
                    yield Memo(enter.order, enter.defined, fact.value, name, enter.name, fact)
                    break


def changing(region: Region) -> dict[Storage, Note]:
    """Memory that is written between replays, each with the place that does it."""
    found: dict[Storage, Note] = {}
    for fact in region.after:
        if fact.region is not None:
            continue
        if isinstance(fact, Write):
            for storage in queries.storages(fact.target, 1):
                found.setdefault(storage, Note(fact.at, "changed here"))
        elif isinstance(fact, Op) and fact.name == "torch.nn.Module.load_state_dict":
            for storage in queries.storages(fact.receiver, 4):
                found.setdefault(storage, Note(fact.at, "loaded anew here"))
        elif isinstance(fact, Op) and fact.name.startswith("torch.optim.") and fact.name.endswith(".step"):
            params = fact.receiver.args[:1] if isinstance(fact.receiver, Instance) else ()
            for storage in {*region.inputs, *(s for v in params for s in queries.storages(v))}:
                if storage.kind == "parameter":
                    found.setdefault(storage, Note(fact.at, "the optimizer changes it here"))
    if region.kind == "graphed-callables":
        for storage in queries.storages(region.options.get("sample_args")):
            found.setdefault(storage, Note(region.at, "every call copies its arguments here"))
    return found
