"""Graphs that share memory and overwrite each other, and graphs that pile up."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.fact import CaptureBegin, Op
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.rule import rule

from .piling import piles_up, pool_for_each
from .sharing import at_once, pool_of, replay_order, retired, small_to_large


@rule("GL008", "memory-pool", "warning", "graphs that share memory overwrite each other, or graphs pile up")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    yield from empty_cache(region)
    if region.kind == "graphed-callables":
        return
    others = [
        f.begun
        for f in region.life
        if isinstance(f, CaptureBegin) and f.begun is not region and f.begun.kind != "compile"
    ]
    shared = [o for o in others if o.end < region.begin and pool_of(o) is not None and pool_of(o) is pool_of(region)]
    yield from replay_order(region, shared)
    yield from retired(region, shared)
    yield from at_once(region, shared)
    yield from small_to_large(region)
    yield from pool_for_each(region, others)
    yield from piles_up(region, others)


def empty_cache(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if isinstance(fact, Op) and fact.name in ("torch.cuda.empty_cache", "torch.accelerator.empty_cache"):
            message = (
                "`empty_cache()` in a capture gives nothing back (torch 2.8 and later): free and empty before "
                "the capture"
            )
            yield Problem(fact.at, message, region.way(fact)[:5], function=fact.function)
