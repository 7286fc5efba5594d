"""Questions that several rules ask of a region's life.

Glossary:
    activation  one call of a function: the facts from its entry to its return, those of what it calls included.
    waits       makes the host wait for the GPU: a synchronise call, or a host read of a CUDA value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphlint.fact import (
    Bind,
    Branch,
    CaptureBegin,
    Context,
    Enter,
    Fact,
    HostRead,
    Index,
    Keep,
    Op,
    Operator,
    Return,
    Write,
)
from graphlint.knowledge.capture_api import GRAPH_CLASSES
from graphlint.region import Region
from graphlint.value import (
    Const,
    Host,
    Instance,
    Place,
    Storage,
    Tensor,
    Unknown,
    Value,
    once,
    options,
    origins,
    parts,
    tensors,
)

STREAM_BLOCKS = frozenset({
    "torch.cuda.stream", "torch.cuda.StreamContext", "torch.cuda.Stream", "torch.Stream", "torch.cuda.ExternalStream",
    "torch.xpu.stream", "torch.xpu.Stream", "torch.accelerator.Stream",
})  # fmt: skip
AUTOCAST_BLOCKS = frozenset({
    "torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast", "torch.cuda.amp.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
})  # fmt: skip
_WAITS = ("synchronize",)
#: Values that hold no others.
_PLAIN = frozenset({Const, Host, Tensor, Unknown})
_EMPTY = _PLAIN - {Tensor}


def graphs(value: Value | None) -> list[Instance]:
    """The CUDA graph objects that `value` may be."""
    if value is None:
        return []
    return [o for o in options(value) if isinstance(o, Instance) and o.external in GRAPH_CLASSES]


def held_graphs(value: Value | None, depth: int = 3) -> list[Instance]:
    """The CUDA graph objects in `value`: itself, and those in containers and attributes, `depth` levels down."""
    if value is None or depth < 0 or type(value) in _PLAIN:
        return []
    return list(once("graphs", value, depth, _held_graphs))


def resets(fact: Fact, mine: list[Instance]) -> bool:
    """True if one of the graphs `mine` is reset, or may be the one of several that is."""
    if not isinstance(fact, Op) or not fact.name.endswith(".reset"):
        return False
    return any(g in mine for g in graphs(fact.receiver))


def _held_graphs(value: Value, depth: int) -> list[Instance]:
    found: dict[int, Instance] = {}
    for option in options(value):
        if isinstance(option, Instance) and (option.external in GRAPH_CLASSES or option.external == "graphed-callable"):
            found[option.id] = option
        else:
            for item in parts(option):
                found.update((g.id, g) for g in held_graphs(item, depth - 1))
    return list(found.values())


def keeps(region: Region, facts: Iterable[Fact]) -> Iterator[Keep]:
    """Those of `facts` that put the region's graph, or what holds it, into a container."""
    mine = graphs(region.graph)
    for fact in facts:
        if isinstance(fact, Keep) and any(g in mine for g in held_graphs(fact.value)):
            yield fact


def begin_fact(region: Region) -> CaptureBegin | None:
    """The fact that opens `region`."""
    start = region.position(region.begin)
    near = region.life[max(start - 1, 0) : start + 2]
    return next((f for f in near if isinstance(f, CaptureBegin) and f.begun is region), None)


def stream_block(fact: Fact) -> Context | None:
    """The innermost stream block that is open at `fact`."""
    return next((c for c in reversed(fact.contexts) if c.name in STREAM_BLOCKS), None)


def stream_of(block: Context | None) -> Value | None:
    """The stream that a stream block makes current."""
    value = block.value if block is not None else None
    if isinstance(value, Instance) and value.external.endswith(("stream", "StreamContext")):
        return value.args[0] if value.args else value.kwargs.get("stream")
    return value


def inside(fact: Fact, outer: Fact) -> bool:
    """True if `fact` lies in the same call as `outer`, or in one made from there."""
    depth = len(outer.chain)
    return len(fact.chain) >= depth and fact.chain[:depth] == outer.chain


def rest_of_call(region: Region, fact: Fact) -> Iterator[Fact]:
    """What the call around `fact` goes on to do after it, up to and with its return."""
    for position in range(region.position(fact.order + 1), len(region.life)):
        later = region.life[position]
        if not inside(later, fact):
            return
        yield later
        if isinstance(later, Return) and len(later.chain) == len(fact.chain) and not later.maybe:
            return


def rest_of_caller(region: Region, fact: Fact) -> list[Fact]:
    """What the caller goes on to do once the call around `fact` has returned, up to and with its own return."""
    depth = len(fact.chain) - 1
    if depth < 0:
        return []
    inner = list(rest_of_call(region, fact))
    first = region.position((inner[-1] if inner else fact).order + 1)
    found: list[Fact] = []
    for position in range(first, len(region.life)):
        later = region.life[position]
        if len(later.chain) < depth or later.chain[:depth] != fact.chain[:depth]:
            break
        found.append(later)
        if isinstance(later, Return) and len(later.chain) == depth and not later.maybe:
            break
    return found


def start_of_call(region: Region, fact: Fact) -> Iterator[Fact]:
    """What the call around `fact` did before it, latest first."""
    for position in range(region.position(fact.order) - 1, -1, -1):
        past = region.life[position]
        if not inside(past, fact):
            return
        yield past
        if isinstance(past, Enter) and len(past.chain) == len(fact.chain):
            return


def asked_before(region: Region, fact: Fact, flags: set[Place]) -> bool:
    """True if the call around `fact` first looks at one of the `flags`."""
    return any(isinstance(f, Branch) and origins(f.value) & flags for f in start_of_call(region, fact))


def exclusive(region: Region, first: Fact, second: Fact) -> bool:
    """True if the two stand in different arms of one branch: only one of them happens."""
    between = region.life[region.position(first.order) : region.position(second.order)]
    for branch in between:
        if isinstance(branch, Branch) and inside(first, branch) and branch.loops == first.loops[: len(branch.loops)]:
            for past in reversed(region.life[: region.position(first.order)]):
                if not inside(past, branch):
                    break
                if isinstance(past, Branch) and past.at == branch.at and past.chain == branch.chain:
                    other = past.taken != branch.taken and past.loops == branch.loops
                    if other and covers(past, first) and covers(branch, second):
                        return True
                    break
    return False


def contradict(region: Region, first: Fact, second: Fact) -> bool:
    """True if the two stand in arms of two branches that ask the same and answer differently: `if graphs: ... else:`
    here, and again further down."""
    asked = {(b.text, b.chain): b.taken for b in _around(region, first) if b.text}
    return any(asked.get((b.text, b.chain), b.taken) != b.taken for b in _around(region, second))


def in_one_round(region: Region, first: Fact, second: Fact) -> bool:
    """True if the two stand in rounds of one loop behind `i == n`, which its counter passes in one of them only."""
    shared = {loop for loop, _ in first.loops} & {loop for loop, _ in second.loops}
    counters = {
        f.text for f in region.life if isinstance(f, Bind) and f.how == "for" and f.loops and f.loops[-1][0] in shared
    }
    if not counters:
        return False
    asked = (b.text.split(" == ") for b in _around(region, second) if b.taken)
    return any(len(sides) == 2 and not counters.isdisjoint(sides) for sides in asked)


def _around(region: Region, fact: Fact) -> Iterator[Branch]:
    """The arms that `fact` happens in."""
    for past in region.life[: region.position(fact.order)]:
        if isinstance(past, Branch) and covers(past, fact):
            yield past


def covers(branch: Branch, fact: Fact) -> bool:
    """True if `fact` happens in the arm, or in what it calls."""
    if branch.body is None or not inside(fact, branch):
        return False
    at = fact.at if len(fact.chain) == len(branch.chain) else fact.chain[len(branch.chain)].at
    return at.path == branch.at.path and branch.body.line <= at.line <= branch.body.end_line


def waits(fact: Fact) -> bool:
    """True if the host waits for the GPU at `fact`."""
    if isinstance(fact, HostRead):
        return any(t.device != "cpu" for t in tensors(fact.value, 1))
    return isinstance(fact, Op) and fact.name.rsplit(".", 1)[-1] in _WAITS


def storages(value: Value | None, depth: int = 3) -> set[Storage]:
    """The memory behind all tensors in `value`."""
    if value is None or type(value) in _EMPTY:
        return set()
    return {t.storage for t in tensors(value, depth)}


def static_outputs(region: Region, value: Value | None, depth: int = 3) -> list[Tensor]:
    """Tensors in `value` that every replay of `region` overwrites."""
    if value is None or type(value) in _EMPTY:
        return []
    return [
        t
        for t in tensors(value, depth)
        if t.storage.born is region or (region.graph is not None and t.storage.graphed is region.graph)
    ]


# ----------------------------------------------------------------------------------------------- where data came from

#: Calls whose result depends on a tensor's shape, dtype or device only.
SHAPE_ONLY = (
    "_like", "new_zeros", "new_ones", "new_full", "new_empty", ".zeros", ".ones", ".full", ".empty", ".arange",
    ".linspace", ".eye", ".shape", ".size", ".numel", ".dim",
)  # fmt: skip


def operands(fact: Fact) -> list[Value]:
    """The values that `fact` computes from; empty for facts that compute nothing."""
    if isinstance(fact, Op):
        return [*([fact.receiver] if fact.receiver is not None else []), *fact.args, *fact.kwargs.values()]
    if isinstance(fact, Operator):
        return list(fact.operands)
    if isinstance(fact, Index):
        return [fact.base, fact.index]
    if isinstance(fact, Write):
        return [v for v in (fact.target, fact.source) if v is not None]
    return []


def result(fact: Fact) -> Value | None:
    """What `fact` makes or changes."""
    if isinstance(fact, (Op, Operator, Index)):
        return fact.result
    return fact.target if isinstance(fact, Write) else None


def makers(facts: Iterable[Fact]) -> dict[Storage, list[Fact]]:
    """Memory -> the facts that computed or wrote it, in order."""
    made: dict[Storage, list[Fact]] = {}
    for fact in facts:
        for storage in storages(result(fact), 2):
            made.setdefault(storage, []).append(fact)
    return made


def sources(value: Value | None, made: dict[Storage, list[Fact]]) -> tuple[set[Storage], list[Fact]]:
    """The memory whose *content* `value` was computed from, and the facts that did it."""
    seen = set(storages(value))
    facts: list[Fact] = []
    todo = list(seen)
    while todo:
        for fact in made.get(todo.pop(), ()):
            if any(fact is f for f in facts):
                continue
            facts.append(fact)
            if isinstance(fact, Op) and fact.name.endswith(SHAPE_ONLY):
                continue
            for operand in operands(fact):
                for storage in storages(operand, 1) - seen:
                    seen.add(storage)
                    todo.append(storage)
    return seen, facts
