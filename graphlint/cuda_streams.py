"""Streams and events in facts: which one a block makes current, which one a call records or waits for.

Identities are those of the objects in the program that is read; a stream nobody was seen to make has one too.
"""

from __future__ import annotations

from graphlint.fact import Context, Op
from graphlint.value import Const, Instance, Value, options

STREAMS = ("torch.cuda.Stream", "torch.Stream", "torch.cuda.ExternalStream", "torch.xpu.Stream")
EVENTS = ("torch.cuda.Event", "torch.Event", "torch.xpu.Event")


def recorded(fact: Op) -> int | None:
    """The event that `fact` records."""
    last = fact.name.rpartition(".")[2]
    if last == "record" and identity(fact.receiver, EVENTS) is not None:
        return identity(fact.receiver, EVENTS)
    if last == "record_event" and identity(fact.receiver, STREAMS) is not None:
        return identity(fact.argument(0, "event"), EVENTS) or identity(fact.result, EVENTS)
    return None


def event_of(value: Value | None) -> Instance | None:
    found = [o for o in options(value) if isinstance(o, Instance) and o.external in EVENTS] if value is not None else []
    return found[0] if len(found) == 1 else None


def is_external(event: Instance) -> bool:
    flag = event.kwargs.get("external")
    return flag is not None and not (isinstance(flag, Const) and not flag.value)


def identity(value: Value | None, kinds: tuple[str, ...]) -> int | None:
    if value is None:
        return None
    found = [o for o in options(value) if isinstance(o, Instance) and o.external in kinds]
    return found[0].id if len(found) == 1 else None


def stream_of(context: Context) -> Instance | None:
    """The stream that a block makes current."""
    value = context.value
    if isinstance(value, Instance) and value.external not in STREAMS:
        given = value.args[0] if value.args else value.kwargs.get("stream")
        value = given if given is not None else value
    found = [o for o in options(value) if isinstance(o, Instance) and o.external in STREAMS]
    return found[0] if len(found) == 1 else None
