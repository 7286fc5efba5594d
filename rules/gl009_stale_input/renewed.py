"""Memory that the graph reads is given up, though no name is seen to change: a module is cast or loaded anew, a line
that made an input runs again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from graphlint import places, queries
from graphlint.fact import Bind, Index, Op, Operator, Unfollowed, Write
from graphlint.finding import Problem
from graphlint.knowledge.factories import dtype_of
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Const, Storage, Tensor, Unknown, Value, options, tensors

from .notes import problem

_REFRESHES = re.compile(r"copy|refresh|update|fill|prepare|load", re.IGNORECASE)
_CASTS = frozenset({"half", "bfloat16", "double"})


def moved(region: Region) -> Iterator[Problem]:
    """Calls that give parameters, or the state of a captured optimizer, new memory."""
    lent = places.borrowed(region)
    for fact in region.after:
        if not isinstance(fact, Op) or fact.region is not None:
            continue
        last = fact.name.rpartition(".")[2]
        message = ""
        if fact.name == "torch.nn.Module.load_state_dict" and _true(fact.argument(2, "assign")):
            if _holds(fact.receiver, lent):
                message = "`load_state_dict(assign=True)` replaces the parameters that the graph reads: load in place"
        elif fact.name.startswith("torch.nn.Module.") and _casts(fact) and _holds(fact.receiver, lent):
            if not _cast_before(region, fact):
                message = (
                    f"`{fact.text}` gives the parameters new memory, the graph keeps the old: cast before the capture"
                )
        elif fact.name == "torch.nn.utils.vector_to_parameters":
            if any(t.storage in lent for t in tensors(fact.argument(1, "parameters") or Unknown(), 3)):
                message = (
                    "`vector_to_parameters` gives the parameters new memory, the graph keeps the old: copy in place"
                )
        elif fact.name in ("Tensor.set_",) and isinstance(fact.receiver, Tensor) and fact.receiver.storage in lent:
            message = f"`{fact.text}` gives a tensor that the graph reads other memory: copy into it with `copy_()`"
        elif last == "load_state_dict" and fact.name.startswith("torch.optim.") and _steps(region, fact.receiver):
            message = (
                "`load_state_dict` replaces the state tensors of an optimizer whose step is captured: capture again "
                "after it"
            )
        if message and places.lives_on(region, fact):
            yield problem(region, fact, message)


def _true(value: Value | None) -> bool:
    return isinstance(value, Const) and bool(value.value)


def _holds(module: Value | None, lent: set[Storage]) -> bool:
    return module is not None and any(t.storage in lent for t in tensors(module, 8))


def _casts(fact: Op) -> bool:
    last = fact.name.rpartition(".")[2]
    if last in _CASTS:
        return True
    return last in ("to", "type") and any(
        dtype_of(v) not in (None, "float32") for v in (*fact.args, *fact.kwargs.values()) if isinstance(v, Value)
    )


def _cast_before(region: Region, fact: Op) -> bool:
    """True if the same cast ran before the capture, so that it changes nothing now."""
    return any(
        isinstance(f, Op) and f.name == fact.name and f.receiver is fact.receiver and _casts(f) for f in region.before
    )


def _steps(region: Region, optimizer: Value | None) -> bool:
    return optimizer is not None and any(
        isinstance(f, Op) and f.receiver is optimizer and f.name.endswith(".step") for f in region.captured
    )


def made_anew(region: Region, told: Collection[Location]) -> Iterator[Problem]:
    """A line that made an input runs again before a replay, and nobody but the graph would read the result.

    told: bindings that are reported: what goes into one of them is not reported once more.
    """
    bound = [f for f in region.after if isinstance(f, Bind) and f.at in told]
    origin = {s.made: s for s in region.inputs if s.made is not None and s.born is None and s.kind == "fresh"}
    used: set[Storage] = set()
    if not origin:
        return
    vague, kept = _vague_refreshes(region), _kept_at(region)
    read = _lines_read(region, set(origin.values()))
    for fact in reversed(region.life):
        if fact.order <= region.end:
            break
        made = queries.result(fact) if isinstance(fact, (Op, Operator, Index)) else None
        if fact.region is None and made is not None:
            for tensor in (o for o in options(made) if isinstance(o, Tensor)):
                new = tensor.storage
                old = origin.get(new.made) if new.made is not None else None
                if old is None or new is old or new.born is not None or new in used or fact.region is not None:
                    continue
                if new.made in read:
                    continue  # what it makes in one round is read in the next
                replay = places.next_replay(region, fact)
                if replay is None or places.captured_elsewhere(region, new):
                    continue
                span = range(fact.order + 1, replay.order)
                if any(o in span for o in vague) or not any(o in span for o in kept.get(new, ())):
                    continue
                if places.refreshed(region, old, region.end, replay.order):
                    continue
                if any(b.order in span and new in queries.storages(b.value, 3) for b in bound):
                    continue
                message = (
                    "makes a new tensor before each replay, but the graph reads the one of the capture: write into that"
                )
                yield problem(region, fact, message)
        for operand in fact.args if isinstance(fact, Unfollowed) else queries.operands(fact):
            used |= {t.storage for t in tensors(operand, 3)}


def _lines_read(region: Region, mine: set[Storage]) -> set[Location | None]:
    """The lines whose results eager code reads after the capture."""
    return {
        tensor.storage.made
        for fact in region.after
        if fact.region is None
        for operand in (fact.args if isinstance(fact, Unfollowed) else queries.operands(fact))
        for tensor in tensors(operand, 3)
        if tensor.storage.born is None and tensor.storage not in mine
    }


def _vague_refreshes(region: Region) -> list[int]:
    """Orders at which something that is not known is copied into: a loop over attributes, a call not followed."""
    found: list[int] = []
    for fact in region.after:
        if isinstance(fact, Write) and fact.how == "copy_":
            if all(t.storage.kind == "unknown" for t in tensors(fact.target, 0)):
                found.append(fact.order)
        elif isinstance(fact, Unfollowed) and _REFRESHES.search(fact.text):
            found.append(fact.order)
    return found


def _kept_at(region: Region) -> dict[Storage, list[int]]:
    """New memory -> the orders at which it is bound to something after the capture."""
    found: dict[Storage, list[int]] = {}
    for fact in region.after:
        if isinstance(fact, Bind) and fact.value is not None:
            for storage in queries.storages(fact.value):
                found.setdefault(storage, []).append(fact.order)
    return found
