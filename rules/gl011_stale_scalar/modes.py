"""Modes in force at the capture, and others at a replay: training or evaluation, autocast."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Bind, Branch, Context, Fact, Op, Operator
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Const, Instance, Place, origins

_MODAL = ("Dropout", "BatchNorm", "InstanceNorm", "RReLU")
_MODAL_CALLS = ("dropout", "batch_norm", "rrelu", "feature_alpha_dropout")


def mode_flips(region: Region) -> Iterator[Problem]:
    """`eval()` or `train()` on a captured module, still in force at a replay."""
    modal = _modal_modules(region)
    if not modal:
        return
    state: dict[int, Bind] = {}
    for fact in region.after:
        if isinstance(fact, Bind) and fact.place.name == "training" and fact.place.owner in modal:
            was = modal[fact.place.owner]
            now = fact.value.value if isinstance(fact.value, Const) else None
            if isinstance(now, bool) and now != was:
                state[fact.place.owner] = fact
            else:
                state.pop(fact.place.owner, None)
        elif fact in places.replays(region) and state and not _chosen_by_mode(region, fact):
            flip = next(iter(state.values()))
            message = (
                f"`{flip.text}` changes nothing in the graph, which keeps the mode of the capture: set it "
                "before the capture"
                if flip.text
                else "the mode is switched after the capture, which the graph does not see"
            )
            notes = (Note(region.at, "captured here"), Note(fact.at, "replayed here"))
            yield Problem(flip.at, message, notes, function=flip.function)
            return


def _chosen_by_mode(region: Region, replay: Fact) -> bool:
    """True if the code around a replay has asked for the mode first: there is a graph for each."""
    return any(
        isinstance(f, Branch)
        and f.order < replay.order
        and f.chain == replay.chain
        and any(p.name == "training" for p in origins(f.value))
        for f in region.after
    )


def _modal_modules(region: Region) -> dict[int, bool]:
    """Captured modules that do different work in training mode, with the mode of the capture."""
    found: dict[int, bool] = {}
    for fact in region.captured:
        if isinstance(fact, Op) and isinstance(fact.receiver, Instance) and fact.name.endswith(".forward"):
            if any(m in fact.name for m in _MODAL):
                found[fact.receiver.id] = _mode_before(region, fact.receiver)
        elif isinstance(fact, Op) and fact.name.rpartition(".")[2] in _MODAL_CALLS:
            for value in fact.kwargs.values():
                for place in origins(value):
                    if place.name == "training":
                        found[place.owner] = bool(getattr(value, "value", True))
    return found


def _mode_before(region: Region, module: Instance) -> bool:
    mode = True
    for fact in region.before:
        if (
            isinstance(fact, Bind)
            and fact.place == Place(module.id, "training", "attribute")
            and isinstance(fact.value, Const)
        ):
            mode = bool(fact.value.value)
    return mode


def autocast_around(region: Region) -> Iterator[Problem]:
    """Autocast entered around the replay of a graph that was captured without it."""
    begin = places.begins(region)
    if begin is None or any(_is_autocast(c) for c in begin.contexts):
        return
    if any(_is_autocast(f) for f in region.captured if isinstance(f, Context)) or not _casts(region):
        return
    for replay in places.replays(region):
        block = next((c for c in replay.contexts if _is_autocast(c)), None)
        if block is not None:
            message = (
                "autocast around a replay has no effect, the graph keeps the dtypes of the capture: capture inside it"
            )
            notes = (Note(region.at, "captured here"), Note(replay.at, "replayed here"))
            yield Problem(block.at, message, notes, function=block.function)
            return


def _is_autocast(context: Context) -> bool:
    if context.name not in queries.AUTOCAST_BLOCKS:
        return False
    flag = context.value.kwargs.get("enabled") if isinstance(context.value, Instance) else None
    return not (isinstance(flag, Const) and not flag.value)


def _casts(region: Region) -> bool:
    """True if the capture holds work that autocast would run in another dtype."""
    return any(
        (isinstance(f, Operator) and f.op == "@")
        or (
            isinstance(f, Op)
            and any(
                w in f.name.lower() for w in ("linear", "conv", "matmul", "mm", "attention", "lstm", "gru", "einsum")
            )
        )
        for f in region.captured
    )
