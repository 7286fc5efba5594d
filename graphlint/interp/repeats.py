"""Calls that need not be run again: the same work on the same kinds of arguments, or one that changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint.cuda_streams import EVENTS, STREAMS
from graphlint.fact import (
    Bind,
    CaptureBegin,
    Context,
    Fact,
    Frame,
    Keep,
    Op,
    Replay,
    Write,
)
from graphlint.interp.objects import (
    BoundMethod,
    FunctionValue,
)
from graphlint.lower import tree
from graphlint.queries import STREAM_BLOCKS, stream_block
from graphlint.source import Span
from graphlint.value import (
    Const,
    External,
    Host,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Unknown,
    Value,
    options,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: Calls cheaper than this many ticks are run again rather than remembered.
WORTH_KEEPING = 150
#: Where numbers come from that are others each time.
_MOVING = ("read", "random", "time")
_ORDERING = frozenset({*STREAMS, *EVENTS})
_WORK = ("Tensor.", "torch.nn.", "torch.ops.", "kernel.")
Args = tuple[Value, ...]
Kwargs = dict[str, Value]


def signature(m: Machine, function: FunctionValue, args: Args, kwargs: Kwargs) -> tuple[object, ...] | None:
    """Inside a capture a call with the same kinds of arguments, on the same stream, does the same work: it is run
    once."""
    if m.region is None or isinstance(function.node, tree.Lambda):
        return None
    parts = tuple(_kind(a) for a in args) + tuple((k, _kind(v)) for k, v in sorted(kwargs.items()))
    return (
        id(m.region),
        id(function.node),
        id(function.scope) if function.scope.parent else 0,
        parts,
        m.conditions > 0,
        m.grad_enabled(),
        id(m.current_stream()),
    )


def remember(m: Machine, key: tuple[object, ...], result: Value, start: int) -> None:
    """Keeps the result of the call that began at this fact, and what it did with streams."""
    m.memo[key] = result
    if done := _with_streams(m.life[start:]):
        m.stream_work[key] = (len(m.chain), done)


def _with_streams(facts: list[Fact]) -> list[Fact]:
    """The forks, joins and records of events among `facts`, and one piece of work for each stream block."""
    found: list[Fact] = []
    blocks: set[int] = set()
    open_ = any(isinstance(f, Context) and f.name in STREAM_BLOCKS for f in facts)
    for fact in facts:
        if isinstance(fact, Op) and isinstance(fact.receiver, Instance) and fact.receiver.external in _ORDERING:
            found.append(fact)
        elif open_ and (isinstance(fact, Write) or (isinstance(fact, Op) and fact.name.startswith(_WORK))):
            block = stream_block(fact)
            if block is not None and block.order >= facts[0].order and block.order not in blocks:
                blocks.add(block.order)
                found.append(fact)
    return found


def taken(
    m: Machine, key: tuple[object, ...], function: FunctionValue, args: Args, kwargs: Kwargs, span: Span
) -> Value:
    """The result of a call that is not run again; it hangs on what this one is given too. What it did with streams is
    told again: each join counts for what the stream has done since the last one."""
    result = m.memo[key]
    if m.region is not None and isinstance(result, (Tensor, Sequence, Mapping)):
        given = tuple(v for v in (*args, *kwargs.values()) if isinstance(v, (Tensor, Sequence, Mapping)))
        if given:
            m.region.repeated.append((result, given))
    depth, facts = m.stream_work.get(key, (0, []))
    way = (*m.chain, Frame(m.location(span), function.name))
    for fact in facts:
        m.order += 1
        m.life.append(replace(fact, order=m.order, chain=(*way, *fact.chain[depth + 1 :]), loops=m.loops))
    return result


def asked_before(function: FunctionValue, args: Args, kwargs: Kwargs) -> tuple[object, ...] | None:
    """The question that a function under `functools.cache` answers once; None if it may be another one each time."""
    if not function.memo or function.binding == "property":
        return None
    given = (*args, *kwargs.values())
    if any(isinstance(o, Unknown) or (isinstance(o, Host) and o.source in _MOVING) for v in given for o in options(v)):
        return None
    named = tuple((k, _kind(v)) for k, v in sorted(kwargs.items()))
    return id(function.node), id(function.scope) if function.scope.parent else 0, tuple(map(_kind, args)), named


def forget(m: Machine, function: FunctionValue) -> None:
    """`function.cache_clear()`."""
    for key in [k for k in m.cached_calls if k[0] == id(function.node)]:
        del m.cached_calls[key]


def pure_key(m: Machine, function: FunctionValue, args: Args, kwargs: Kwargs) -> tuple[object, ...] | None:
    """Outside a capture a call that changes nothing is run once for each kind of arguments."""
    if m.region is not None or isinstance(function.node, tree.Lambda) or function.context_manager:
        return None
    parts = tuple(_kind(a) for a in args) + tuple((k, _kind(v)) for k, v in sorted(kwargs.items()))
    around = tuple(c.name for c in m.contexts)
    return (id(function.node), id(function.scope) if function.scope.parent else 0, parts, around, m.inner_epoch)


def worth_keeping(m: Machine, ticks: int, start: int) -> bool:
    """True if the call that began at these ticks, and facts, cost something and changed nothing."""
    return m.ticks - ticks >= WORTH_KEEPING and m.region is None and _is_pure(m.life[start:])


def _is_pure(facts: list[Fact]) -> bool:
    """True if nothing that outlives the call was changed and no torch object was driven."""
    for fact in facts:
        match fact:
            case Bind(owner=None, place=place) if place.kind == "local":
                continue
            case Bind() | Write() | Keep() | CaptureBegin() | Replay() | Context():
                return False
            case Op(receiver=Instance() as receiver) if not receiver.external.startswith("torch.nn."):
                return False
            case Op(name=name) if name.endswith((".backward", "manual_seed", "synchronize", ".call")):
                return False
    return True


def renewed(m: Machine, value: Value, span: Span) -> Value:
    """What a call that is not run again hands back: new memory where the first one made new memory."""
    if isinstance(value, Tensor) and value.storage.kind == "fresh" and value.view is None:
        return m.tensor(
            span, device=value.device, shape=value.shape, dtype=value.dtype, requires_grad=value.requires_grad,
            grad_graph=value.grad_graph, sure=value.sure,
        )  # fmt: skip
    if isinstance(value, Sequence) and value.kind == "tuple":
        return m.sequence(value.kind, [renewed(m, i, span) for i in value.items], value.rest)
    return value


def _kind(value: Value) -> object:
    match value:
        case Tensor():
            own = value.storage.id if value.storage.born is None else 0
            tracked = value.requires_grad or value.grad_graph
            return ("T", value.device, value.dtype, value.shape, own, tracked)
        case Const():
            try:
                hash(value.value)
            except TypeError:
                return "const"
            return ("C", type(value.value).__name__, value.value)
        case Host():
            return ("H", value.source, value.symbol)
        case Unknown():
            return "?"
        case Instance() | Mapping():
            return ("I", value.id)
        case Sequence():
            return ("S", value.kind, tuple(_kind(i) for i in value.items[:6]))
        case External():
            return ("E", value.name)
        case BoundMethod():
            return ("B", id(value.function.node), _kind(value.receiver))
        case FunctionValue():
            return ("F", id(value.node), value.scope.id)
        case _:
            return id(value)
