"""`.grad` that is there at a capture, or thrown away while a graph writes it."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import histories, places, queries
from graphlint.fact import Bind, Fact, Index, Op, Operator, Replay, Unfollowed, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Const, Instance, Storage, Tensor, Unknown, Value, tensors

_BACKWARD = histories.BACKWARD


@rule("GL015", "grad-lifetime", "error", "`.grad` exists at the capture, or is cleared while a graph writes it")
def check(region: Region) -> Iterator[Problem]:
    told: set[Location] = set()
    found: Iterator[Problem] = iter(())
    if region.kind in places.MANUAL:
        found = _manual(region)
    elif region.kind == "graphed-callables":
        found = _accumulated(region)
    for problem in found:
        if problem.at not in told:
            told.add(problem.at)
            yield problem


def _manual(region: Region) -> Iterator[Problem]:
    inside = region.life[region.position(region.begin) : region.position(region.end)]
    backwards = [f for f in region.captured if isinstance(f, Op) and f.name in _BACKWARD]
    if not backwards:
        return
    backward = backwards[0]
    used = _parameters(region) & {s for b in backwards for s in histories.filled(region, b, inside).storages}
    if (left := _left_over(region, backward, used)) is not None:
        message = (
            "`.grad` of an earlier backward is still there when this one is captured, so every replay adds to it: "
            "set gradients to None right before the capture"
        )
        notes = (Note(left.at, "gradients come from here"), *region.way(backward))
        yield Problem(backward.at, message, notes[:5], function=backward.function)
    if any(isinstance(f, Op) and f.name.endswith(".step") and places.is_optimizer(f.receiver) for f in region.captured):
        return
    for fact in region.after:
        if fact.region is None and _clears(fact, used, strict=True) and places.next_replay(region, fact) is not None:
            if _set_again(region, fact):
                continue
            message = (
                "sets gradients to None while a graph writes them: later replays fill memory that no "
                "parameter points to, "
                "and the optimizer skips the parameters"
            )
            yield _problem(region, fact, message)
        elif fact.region is None and _replaces(region, fact, used) and places.next_replay(region, fact) is not None:
            message = (
                "puts a new tensor in the place of a gradient that a graph writes: later replays fill the old one, "
                "and the optimizer goes on with this; change it in place"
            )
            yield _problem(region, fact, message)


def _replaces(region: Region, fact: Fact, used: set[Storage]) -> bool:
    """`p.grad = f(p.grad)`: a new tensor, computed from the gradient that the graph writes."""
    if not isinstance(fact, Bind) or fact.place.name != "grad" or fact.how != "=" or not isinstance(fact.owner, Tensor):
        return False
    value = fact.value
    if not isinstance(value, Tensor) or value.storage.kind == "grad" or fact.owner.storage not in used:
        return False
    made = queries.makers(queries.start_of_call(region, fact))
    return any(
        (t.place is not None and t.place.name == "grad") or t.storage.kind == "grad"
        for step in queries.sources(value, made)[1]
        for v in queries.operands(step)
        for t in tensors(v, 1)
    )


def _problem(region: Region, fact: Fact, message: str) -> Problem:
    notes = [Note(region.at, "captured here")]
    replay = places.next_replay(region, fact)
    if replay is not None:
        notes.append(Note(replay.at, "replayed here"))
    return Problem(fact.at, message, tuple(notes), function=fact.function)


def _parameters(region: Region) -> set[Storage]:
    """Parameters, and other leaves whose `.grad` the program speaks of, that captured work reads."""
    leaves = {
        f.owner.storage
        for f in region.life
        if isinstance(f, Bind) and f.place.name == "grad" and isinstance(f.owner, Tensor)
    }
    return {s for s in region.inputs if s.kind == "parameter" or s in leaves}


def _clears(fact: Fact, used: set[Storage], strict: bool = False) -> bool:
    """True if `fact` sets `.grad` of one of the `used` parameters to None. `strict`: silent where that is not known."""
    if isinstance(fact, Op) and fact.name.rpartition(".")[2] == "zero_grad":
        flag = fact.argument(0, "set_to_none")
        if flag is not None and not (isinstance(flag, Const) and flag.value):
            return False
        return _concerns(fact.receiver, used, strict)
    if isinstance(fact, Unfollowed) and fact.text.rpartition(".")[2] == "zero_grad":
        # An optimizer that somebody handed in: it may well be that of these parameters.
        return not strict and all(isinstance(a, Const) and a.value for a in fact.args)
    if isinstance(fact, Bind) and fact.place.name == "grad" and places.is_empty(fact.value):
        owner = fact.owner
        if isinstance(owner, Tensor):
            # A backward that was begun outside reads no parameter in the capture: it may be any.
            return owner.storage in used or (not strict and (not used or owner.storage.kind == "unknown"))
        return not strict
    return False


def _concerns(owner: Value | None, used: set[Storage], strict: bool) -> bool:
    """True if a module or an optimizer holds one of the parameters."""
    if not isinstance(owner, Instance):
        return not strict
    held: list[Tensor] = []
    vague = False
    if places.is_optimizer(owner):
        groups = owner.attrs.get("param_groups")
        for value in (*owner.args[:1], owner.kwargs.get("params"), groups):
            if value is not None:
                held += tensors(value, 5)
                vague = vague or isinstance(value, Unknown)
    else:
        held = tensors(owner, 8)
    known = {t.storage for t in held if t.storage.kind == "parameter"}
    if known:
        return bool(known & used)
    return not strict or vague or not used


def _zeroes(region: Region, fact: Fact, used: set[Storage]) -> bool:
    """True if `fact` zeroes gradients in place."""
    if isinstance(fact, Op) and fact.name.rpartition(".")[2] == "zero_grad":
        flag = fact.argument(0, "set_to_none")
        return isinstance(flag, Const) and flag.value is False and _concerns(fact.receiver, used, strict=False)
    return isinstance(fact, Write) and fact.how in ("zero_", "fill_") and any(
        t.storage.kind == "grad" or t.storage in places.gradients(region) for t in tensors(fact.target, 0)
    )  # fmt: skip


def _left_over(region: Region, captured: Op, used: set[Storage]) -> Fact | None:
    """The eager backward whose gradients are still there at the captured one; None if there is none."""
    present: Fact | None = None
    recent: list[Fact] = []
    for fact in region.life:
        if fact.order >= captured.order:
            break
        if fact.region is not None and fact.region is not region:
            continue
        if isinstance(fact, (Op, Operator, Index, Write)):
            recent.append(fact)
        if isinstance(fact, Op) and fact.name in _BACKWARD:
            if fact.region is None and _fills(region, fact, recent, used, captured):
                present = fact
            recent = []
        elif present is not None and _clears(fact, used):
            present = None
        elif isinstance(fact, Bind) and fact.place.name == "requires_grad":
            return None
    if present is None or queries.contradict(region, present, captured):
        return None
    if any(_zeroes(region, f, used) for f in region.captured if f.order < captured.order) or _accumulates_on_purpose(
        region
    ):
        return None
    if any(_zeroes(region, f, used) or _given(f) for f in region.after if f.region is None):
        return None
    return present


def _fills(region: Region, backward: Op, recent: list[Fact], used: set[Storage], captured: Op) -> bool:
    """True if an eager backward gives gradients to parameters that the captured one writes."""
    leaves = histories.filled(region, backward, recent)
    given = {s for s in leaves.storages if s.kind == "parameter"}
    return bool(given & used) if used and (given or leaves.sure) else backward.at == captured.at


def _accumulates_on_purpose(region: Region) -> bool:
    """True if another graph of the program holds the optimizer's step: this one is for the micro-batches."""
    return any(
        isinstance(f, Op)
        and f.name.endswith(".step")
        and f.region is not None
        and f.region.at != region.at
        and places.is_optimizer(f.receiver)
        for f in region.life
    )


def _given(fact: Fact) -> bool:
    return isinstance(fact, Bind) and fact.place.name == "grad" and not places.is_empty(fact.value)


def _set_again(region: Region, clear: Fact) -> bool:
    """True if gradients get their tensors back before the next replay."""
    replay = places.next_replay(region, clear)
    end = replay.order if replay is not None else 1 << 60
    return any(_given(f) for f in region.after if clear.order < f.order < end)


def _accumulated(region: Region) -> Iterator[Problem]:
    """Several backwards through a graphed callable after `.grad` was set to None once."""
    used = _parameters(region)
    clear: Fact | None = None
    calls: list[Fact] = []
    hooked = any(
        isinstance(f, Op) and f.name.endswith(("register_hook", "register_post_accumulate_grad_hook"))
        for f in region.life
    )
    if hooked:
        return
    replayed = False
    for fact in region.after:
        if fact.region is not None:
            continue
        if _clears(fact, used, strict=True):
            clear, calls = fact, []
        elif _given(fact) or _zeroes(region, fact, used):
            clear = None
        elif isinstance(fact, Replay) and region in fact.replayed:
            replayed = True
        elif isinstance(fact, Op) and fact.name in _BACKWARD and replayed:
            replayed = False
            calls.append(fact)
            if clear is not None and len(calls) > 1:
                message = (
                    "gradients are set to None and then accumulated over several calls of a graphed "
                    "callable: the first "
                    "`.grad` is the graph's own buffer, which the next call overwrites; start from zeroed tensors"
                )
                notes = (Note(region.at, "graphed here"), Note(calls[-1].at, "accumulates here"))
                yield Problem(clear.at, message, notes, function=clear.function)
                clear = None
