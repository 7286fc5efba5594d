"""Code that asks whether a capture is under way and computes something else if so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from graphlint import queries
from graphlint.fact import Bind, Branch, Fact, Index, Iterate, Op, Operator, Pick, Replay, Return, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import CAPTURING, Const, Host, Sequence, Value, options, origins

#: How data is cut and laid out is not maths.
LAYOUT = frozenset({
    "split", "chunk", "view", "reshape", "contiguous", "cat", "stack", "transpose", "permute", "expand", "unsqueeze",
    "squeeze", "flatten", "unbind", "narrow", "to", "clone", "detach", "type_as", "concat", "concatenate", "unflatten",
    "index_select",
})  # fmt: skip


@rule("GL027", "capture-branch", "error", "the capturing side of a branch computes something else")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    yield from flags_in_maths(region)
    eager = [f for f in region.life if isinstance(f, (Branch, Pick)) and f.region is None]
    seen: set[object] = set()
    for branch in region.captured:
        if not isinstance(branch, (Branch, Pick)) or branch.at in seen or CAPTURING not in origins(asked(branch)):
            continue
        other = next((f for f in eager if f.at == branch.at and another_way(branch, f)), None)
        if other is None:
            continue
        seen.add(branch.at)
        why = difference(region, branch, other)
        if why:
            message = f"the branch on a capture under way {why}: that is what every replay runs"
            yield Problem(
                branch.at,
                message,
                (Note(other.at, "the eager side runs in the warm-up"), *region.way(branch))[:5],
                function=branch.function,
            )


def asked(choice: Branch | Pick) -> Value:
    """What decides: the test of a branch, the key under which a path is looked up."""
    return choice.value if isinstance(choice, Branch) else choice.key


def another_way(choice: Branch | Pick, other: Branch | Pick) -> bool:
    if isinstance(choice, Branch):
        return isinstance(other, Branch) and other.taken != choice.taken
    return isinstance(other, Pick) and CAPTURING in origins(other.key)


def flags_in_maths(region: Region) -> Iterator[Problem]:
    """A value that depends on the capture enters a computation directly: `training=not capturing`."""
    for fact in region.captured:
        if not isinstance(fact, (Op, Operator)) or kind(fact) in LAYOUT or kind(fact) == "print":
            continue
        if any(isinstance(v, Const) and CAPTURING in origins(v) for v in queries.operands(fact)):
            message = f"`{kind(fact)}` gets a value that depends on a capture under way: replays compute something else"
            yield Problem(fact.at, message, region.way(fact), function=fact.function)


def difference(region: Region, captured: Fact, eager: Fact) -> str:
    """How the maths after the two sides differ; empty if it does not, or if both are done in their own way."""
    if any(isinstance(f, Replay) for f in queries.rest_of_call(region, eager)):
        return ""  # the eager side has a graph of its own for the same maths
    # Work in a loop counts once: how often it runs is how the data is cut.
    ours = once(work(list(queries.rest_of_call(region, captured)), len(captured.chain)))
    theirs = once(work(list(queries.rest_of_call(region, eager)), len(eager.chain)))
    if not ours and not theirs:
        return answered(region, captured, eager)
    mine, other = Counter(map(kind, ours)), Counter(map(kind, theirs))
    if mine == other:
        if constants(ours, theirs):
            return "uses another constant"
        return "runs a loop another number of times" if trips(region, captured, eager) else ""
    if not mine - other and other - mine:
        missing = next(iter(other - mine))
        return f"leaves out `{missing}`"
    if not other - mine:
        extra = next(iter(mine - other))
        return f"adds `{extra}`"
    return ""


def once(found: list[Fact]) -> list[Fact]:
    return list({f.at: f for f in found}.values())


def answered(region: Region, captured: Fact, eager: Fact) -> str:
    """The call around the branch computes nothing: the number or flag that it answers with may enter its caller's
    maths."""
    if len(captured.chain) <= region.depth:
        return ""
    ours = once(work(queries.rest_of_caller(region, captured), len(captured.chain) - 1))
    theirs = once(work(queries.rest_of_caller(region, eager), len(eager.chain) - 1))
    same = Counter(map(kind, ours)) == Counter(map(kind, theirs))
    return "gives the maths of its caller another constant" if same and constants(ours, theirs) else ""


def work(facts: list[Fact], depth: int) -> list[Fact]:
    """What a call `depth` calls deep computes with `facts`, as far as it reaches its result or an attribute."""
    made = queries.makers(facts)
    found: list[Fact] = []
    for fact in facts:
        sink: Value | None = None
        if isinstance(fact, Return):
            sink = fact.value if len(fact.chain) == depth else None
        elif isinstance(fact, Bind):
            sink = fact.value if fact.place.kind == "attribute" else None
        elif isinstance(fact, Write):
            sink = fact.target
        if sink is not None:
            for step in queries.sources(sink, made)[1]:
                if not any(step is f for f in found) and kind(step) not in LAYOUT and not isinstance(step, Index):
                    found.append(step)
    return sorted(found, key=lambda f: f.order)


def trips(region: Region, captured: Fact, eager: Fact) -> bool:
    """True if a loop that goes on from its own last result has another known number of rounds on the two sides.

    A loop that looks at its number cuts data into parts: how many there are is layout, not maths.
    """
    ours, theirs = (
        {f.at: f for f in queries.rest_of_call(region, b) if isinstance(f, Iterate) and f.chain == b.chain}
        for b in (captured, eager)
    )
    for at, loop in ours.items():
        other = theirs.get(at)
        if other is None or bounds(loop) is None or bounds(other) is None or bounds(loop) == bounds(other):
            continue
        inner = [f for f in queries.rest_of_call(region, other) if len(f.loops) > len(other.loops)]
        steps = [f for f in inner if isinstance(f, (Op, Operator, Index))]
        if carried(steps) and not any(counted(v) for f in steps for v in queries.operands(f)):
            return True
    return False


def bounds(loop: Iterate) -> list[object] | None:
    """The constants of a `range`; None if it is another loop, or they are not known."""
    if not isinstance(loop.value, Sequence) or loop.value.kind != "range":
        return None
    found = [i.value for i in loop.value.items if isinstance(i, Const)]
    return found if len(found) == len(loop.value.items) else None


def carried(steps: Collection[Fact]) -> bool:
    """True if work of a later round reads what the round before made."""
    first = {s for f in steps if f.loops[-1][1] == 0 for s in queries.storages(queries.result(f))}
    return any(first & queries.storages(v) for f in steps if f.loops[-1][1] for v in queries.operands(f))


def counted(value: Value) -> bool:
    """True if the number of the round is in it."""
    if isinstance(value, Sequence):
        return any(counted(i) for i in value.items)
    return isinstance(value, Host) and value.source == "loop"


def kind(fact: Fact) -> str:
    if isinstance(fact, Op):
        return (
            fact.name.rsplit(".", 2 if fact.name.endswith(".forward") else 1)[-1].removesuffix(".forward").rstrip("_")
        )
    if isinstance(fact, Operator):
        return fact.op
    return fact.how if isinstance(fact, Write) else type(fact).__name__


def constants(ours: list[Fact], theirs: list[Fact]) -> bool:
    """True if some number in the maths is a constant on one side and another value on the other."""
    for a, b in zip(ours, theirs, strict=False):
        for left, right in zip(queries.operands(a), queries.operands(b), strict=False):
            if isinstance(left, (Const, Host)) and isinstance(right, (Const, Host)) and not _same(left, right):
                return True
    return False


def _same(left: Value, right: Value) -> bool:
    if isinstance(left, Const) and isinstance(right, Const):
        return bool(left.value == right.value)
    if isinstance(left, Host) and isinstance(right, Host):
        return left.symbol == right.symbol
    return not any(isinstance(o, Const) for o in (*options(left), *options(right)))
