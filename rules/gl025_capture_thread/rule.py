"""Captures in "global" mode while another thread may call CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import CaptureBegin, Fact, Iterate, Op
from graphlint.finding import Note, Problem
from graphlint.other_threads import HANDS_OVER, starts, uses_cuda
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Instance, options

LOADERS = (
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
)
ENDS = (".join", ".result", ".shutdown", ".exception")


@rule("GL025", "capture-thread", "warning", "another thread may call CUDA during a capture in global mode")
def check(region: Region) -> Iterator[Problem]:
    begin = queries.begin_fact(region)
    mode = region.options.get("capture_error_mode")
    own = isinstance(mode, Const) and mode.value in ("thread_local", "relaxed")
    if begin is None or region.kind == "compile" or (mode is not None and not isinstance(mode, Const)):
        return
    if not own:
        yield from loaders(region, begin)
        yield from workers(region, begin)
    yield from captured_in_threads(region, begin)


def loaders(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    for fact in region.before:
        if isinstance(fact, Iterate) and _runs_in(begin, fact) and any(_pins(o) for o in _sources(fact)):
            message = (
                "captured while a loader with `pin_memory=True` is being iterated: its pinning thread calls "
                "CUDA, which "
                'breaks a capture in "global" mode now and then; capture before the loop'
            )
            yield Problem(
                region.at, message, (Note(fact.at, "iterated here"), *region.way(begin))[:5], function=region.function
            )
            return


def _sources(fact: Iterate) -> list[Instance]:
    found = [o for o in options(fact.value) if isinstance(o, Instance)]
    for instance in list(found):
        found += [o for a in (*instance.args, *instance.attrs.values()) for o in options(a) if isinstance(o, Instance)]
    return found


def _pins(loader: Instance) -> bool:
    pin, workers = loader.kwargs.get("pin_memory"), loader.kwargs.get("num_workers")
    if loader.external not in LOADERS or not (isinstance(pin, Const) and pin.value is True):
        return False
    return workers is not None and not (isinstance(workers, Const) and workers.value == 0)


def _runs_in(fact: Fact, loop: Iterate) -> bool:
    depth = len(loop.loops)
    return queries.inside(fact, loop) and len(fact.loops) > depth and fact.loops[:depth] == loop.loops


def workers(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    """Threads and jobs that use CUDA, started before the capture and not awaited."""
    running: dict[int, Fact] = {}
    for fact in region.before:
        if not isinstance(fact, Op):
            continue
        if starts(fact) and uses_cuda(region, fact) and not captures_itself(begin, fact):
            running[_key(fact)] = fact
        elif fact.name.endswith(ENDS):
            if fact.name.endswith(".shutdown"):
                running.clear()
            elif isinstance(fact.receiver, Instance):
                running.pop(fact.receiver.id, None)
            else:
                running.clear()
    for fact in running.values():
        message = (
            'captured in "global" mode while another thread may call CUDA, which breaks the capture now and then: '
            'wait for the thread first, or pass `capture_error_mode="thread_local"`'
        )
        yield Problem(
            region.at, message, (Note(fact.at, "started here"), *region.way(begin))[:5], function=region.function
        )
        return


def captures_itself(begin: CaptureBegin, start: Op) -> bool:
    """True if it is the thread started here that captures."""
    return any(frame.at == start.at for frame in begin.chain)


def _key(fact: Op) -> int:
    if fact.name.endswith(HANDS_OVER):
        return fact.result.id if isinstance(fact.result, Instance) else fact.order
    return fact.receiver.id if isinstance(fact.receiver, Instance) else fact.order


def _awaited_at_once(region: Region, start: Op) -> bool:
    """True for a job that is waited for before anything else is handed over: one after the other."""
    for fact in region.life[region.position(start.order + 1) :]:
        if isinstance(fact, Op) and fact.name.endswith(ENDS) and fact.receiver is start.result is not None:
            return True
        if isinstance(fact, Op) and starts(fact):
            return False
    return False


def captured_in_threads(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    begun = [f for f in region.life if isinstance(f, Op) and starts(f)]
    mine = next((s for s in begun for frame in begin.chain if frame.at == s.at), None)
    if mine is None or _awaited_at_once(region, mine):
        return
    same = [s for s in begun if s.at == mine.at]
    others = [
        f
        for f in region.life
        if isinstance(f, CaptureBegin) and f.begun is not region and any(fr.at == s.at for s in begun for fr in f.chain)
    ]
    if len(same) > 1 or mine.loops or others:
        message = (
            "captured from several threads: only one capture can be under way in a process; capture one after the other"
        )
        yield Problem(
            region.at, message, (Note(mine.at, "thread started here"), *region.way(begin))[:5], function=region.function
        )
