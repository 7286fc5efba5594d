"""Where another thread is given something to do, and whether that uses the GPU."""

from __future__ import annotations

from graphlint import queries
from graphlint.fact import HostRead, Op, Operator, Write
from graphlint.region import Region
from graphlint.value import Instance, tensors

#: Jobs, each with a result to wait for.
HANDS_OVER = (".submit", ".run_in_executor", "asyncio.create_task")
STARTS = ("threading.Thread.start", "threading.Timer.start", *HANDS_OVER)
#: Handed over and waited for at once.
AWAITED = ("asyncio.to_thread",)


def starts(fact: Op) -> bool:
    """True if `fact` starts a thread or hands a job to an executor."""
    if fact.name.endswith(STARTS):
        return True
    bases = getattr(fact.receiver.cls, "external_bases", ()) if isinstance(fact.receiver, Instance) else ()
    return fact.name.endswith(".start") and "threading.Thread" in bases


def uses_cuda(region: Region, start: Op) -> bool:
    """What the thread runs is seen as a call made where it is started."""
    depth = len(start.chain)
    for fact in region.life:
        entered = len(fact.chain) > depth and fact.chain[depth].at == start.at
        # A layer of torch that is the job itself is no call that is entered.
        direct = fact.at == start.at and fact is not start and len(fact.chain) == depth
        if (entered or direct) and isinstance(fact, (HostRead, Op, Operator, Write)):
            values = [fact.value] if isinstance(fact, HostRead) else queries.operands(fact)
            made = queries.result(fact)
            if any(t.device == "cuda" for v in (*values, made) if v is not None for t in tensors(v, 1)):
                return True
    return False
