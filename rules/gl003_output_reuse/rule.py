"""Static outputs that outlive the next replay, which overwrites them."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import edits, queries
from graphlint.fact import Bind, Branch, Enter, Fact, HostRead, Index, Keep, Leave, Op, Operator, Replay, Return, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Instance, Place, Sequence, Storage, Tensor, Value, options, tensors

from . import aggregates


@rule("GL003", "output-reuse", "error", "a static output is kept across the next replay, which overwrites it")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile" or region.clones_outputs:
        return
    replays = [f for f in region.after if isinstance(f, Replay) and region in f.replayed]
    if not replays:
        return
    seen: set[Location] = set()
    found = [
        *kept(region, replays),
        *together(region, replays),
        *side_by_side(region, replays),
        *read_late(region, replays),
        *chosen(region, replays),
    ]
    for fact, what in found or gathered(region, replays):
        if fact.at not in seen:
            seen.add(fact.at)
            message = f"{what} the graph's own output: the next replay overwrites it; `.clone()` it after each replay"
            yield Problem(fact.at, message, notes(region, fact, replays), function=fact.function)


def notes(region: Region, fact: Fact, replays: list[Replay]) -> tuple[Note, ...]:
    handed = [
        f
        for f in region.after
        if isinstance(f, (Return, Keep))
        and (isinstance(f, Return) or f.how == "yield")
        and f.order < fact.order
        and f.region is None
        and queries.static_outputs(region, f.value)
    ]
    found = [Note(region.at, "captured here")]
    if handed:
        found.append(Note(handed[-1].at, "handed out without a copy here"))
    again = next((r for r in replays if r.order > fact.order), replays[-1])
    return (*found, Note(again.at, "overwritten by the next replay here"))


def outputs(region: Region, value: Value | None) -> set[Storage]:
    return {t.storage for t in queries.static_outputs(region, value, 2)}


def kept(region: Region, replays: list[Replay]) -> Iterator[tuple[Fact, str]]:
    """Put into a container that lives on while the graph is replayed again."""
    for fact in region.after:
        if not isinstance(fact, Keep) or fact.region is not None or not outputs(region, fact.value):
            continue
        if fact.how == "yield" or queries.held_graphs(fact.value) or one_by_one(region, fact):
            continue
        past = [r for r in replays if r.order < fact.order]
        if past and _again(region, fact, replays):
            yield fact, "collects"


def one_by_one(region: Region, fact: Keep) -> bool:
    """True for a generator whose items are used up as they come."""
    container = fact.container
    if not (isinstance(container, Sequence) and container.kind == "generator"):
        return False
    for later in region.after:
        if later.order > fact.order:
            value = later.value if isinstance(later, (Bind, Return)) else None
            values = [*queries.operands(later), *([value] if value is not None else [])]
            for other in values:
                if (
                    isinstance(other, Sequence)
                    and other.kind != "generator"
                    and any(i is j for i in other.items for j in container.items)
                ):
                    return False
    return True


def gathered(region: Region, replays: list[Replay]) -> Iterator[tuple[Fact, str]]:
    """A list of several results of one graph that was not seen to grow: `list(results)`."""
    for fact in region.after:
        value = fact.value if isinstance(fact, Bind) and fact.region is None else None
        if isinstance(value, Sequence) and value.kind in ("list", "tuple", "deque") and not queries.held_graphs(value):
            mine = [i.storage for i in value.items if isinstance(i, Tensor) and outputs(region, i)]
            ran = sum(r.order < fact.order for r in replays)
            if len(mine) > len(set(mine)) and ran > 1:
                yield fact, "collects"
                return


def _again(region: Region, fact: Keep, replays: list[Replay]) -> bool:
    """True if a replay follows while the container still holds the output."""
    fresh = [
        f
        for f in region.after
        if isinstance(f, Bind)
        and f.value is not None
        and any(o is c for o in options(f.value) for c in options(fact.container))
    ]
    if gone_before(region, fact, fresh, replays) or (fact.how == "collect" and not fresh):
        return False  # nothing holds it, or what was gathered is handed on: whoever keeps it has a name for it
    loops = {loop for loop, _ in fact.loops}
    if fresh:
        # A container that is made anew in each round of a loop does not outlive the round.
        loops -= {loop for bind in fresh for loop, _ in bind.loops}
    for replay in replays:
        if replay.order > fact.order and not any(f.order > fact.order and f.order < replay.order for f in fresh):
            return True
        if {loop for loop, _ in replay.loops} & loops:
            return True
    return False


def gone_before(region: Region, keep: Keep, bound: list[Bind], replays: list[Replay]) -> bool:
    """True if the container is a local of a call that ends before the next replay, and is not handed out."""
    if not bound or any(b.place.kind != "local" for b in bound):
        return False
    scopes = {b.place.owner for b in bound}
    for fact in region.life[region.position(keep.order) :]:
        if isinstance(fact, Replay) and fact in replays:
            return False
        if isinstance(fact, Return) and any(o is c for o in _parts(fact.value) for c in options(keep.container)):
            return False
        if isinstance(fact, Leave) and fact.scope in scopes:
            return True
    return False


def _parts(value: Value) -> list[Value]:
    return [p for o in options(value) for p in (o, *(o.items if isinstance(o, Sequence) else ()))]


def together(region: Region, replays: list[Replay]) -> Iterator[tuple[Fact, str]]:
    """Two results of one graph in one expression: both are the memory of the later."""
    for fact in region.after:
        if fact.region is not None or not isinstance(fact, (Op, Operator)):
            continue
        given: list[Tensor] = []
        operands = queries.operands(fact)
        if len(operands) < 2 and not any(isinstance(v, Sequence) for v in operands):
            continue
        for value in operands:
            items = value.items if isinstance(value, Sequence) else [value]
            given += [o for item in items for o in options(item) if isinstance(o, Tensor) and outputs(region, o)]
        twice = [t for t in given if sum(t.storage is o.storage for o in given) > 1]
        if twice and _made_by_calls(region, fact, replays) > 1:
            yield fact, "uses two results of one graph together, each"


def _made_by_calls(region: Region, fact: Fact, replays: list[Replay]) -> int:
    """How many replays the statement at `fact` made itself, by calls in it."""
    count = 0
    lines = range(fact.at.line, fact.at.span.end_line + 1)
    for position in range(region.position(fact.order) - 1, -1, -1):
        past = region.life[position]
        if not queries.inside(past, fact):
            break
        called = past.chain[len(fact.chain)].at if len(past.chain) > len(fact.chain) else past.at
        if called.line not in lines:
            break
        if isinstance(past, Replay) and past in replays:
            count += 1
    return count


def side_by_side(region: Region, replays: list[Replay]) -> Iterator[tuple[Fact, str]]:
    """`a, b = step(x), step(y)`: both names stand for the memory of the later result."""
    bound: dict[Location, Bind] = {}
    for fact in region.after:
        if not isinstance(fact, Bind) or fact.region is not None or not isinstance(fact.value, Tensor):
            continue
        other = bound.get(fact.at)
        mine = outputs(region, fact.value)
        if other is not None and other.chain == fact.chain and other.loops == fact.loops and mine:
            again = fact.place != other.place and mine & outputs(region, other.value)
            if again and _made_by_calls(region, other, replays) > 1:
                yield other, "binds two results of one graph together, each"
        elif mine:
            bound[fact.at] = fact


def read_late(region: Region, replays: list[Replay]) -> Iterator[tuple[Fact, str]]:
    """Bound to a name or attribute after one replay, and read under it after another."""
    renewed = _renewed(region, replays)
    held: dict[Place, Bind] = {}
    stale: dict[Place, Bind] = {}
    inside: dict[int, Place] = {}
    last: Replay | None = None
    for fact in region.after:
        if isinstance(fact, Replay) and region in fact.replayed:
            stale |= held
            held, last = {}, fact
            continue
        if fact.region is not None:
            continue
        if isinstance(fact, Leave):  # its names are gone; who has what they stood for has another name for it
            for names in (held, stale):
                for place in [p for p in names if p.kind == "local" and p.owner == fact.scope]:
                    del names[place]
            continue
        for place in _places(region, fact) if stale else ():
            if place in stale:
                yield stale.pop(place), "keeps"
        if isinstance(fact, Bind):
            value = fact.value
            source = inside.get(id(value), value.place) if isinstance(value, Tensor) else None
            older = stale.get(source) if source is not None else None
            stale.pop(fact.place, None)
            if older is not None:
                stale[fact.place] = older  # another name for what an earlier replay left
                continue
            second = source is not None and source in held and source != fact.place
            held.pop(fact.place, None)
            if last is None or not outputs(region, value) or queries.held_graphs(value):
                continue
            if isinstance(value, Tensor):
                if second or _result_of_call(fact, last) or _copied_name(region, fact, last) or fact in renewed:
                    held[fact.place] = fact
            elif fact in renewed or _result_of_call(fact, last) or _names_the_past(fact):
                for place, tensor in aggregates.members(region, fact, last.order).items():
                    held[place], inside[id(tensor)] = fact, place


def _renewed(region: Region, replays: list[Replay]) -> set[Bind]:
    """Statements that give a name to the output again and again, after each replay: what they keep is one result, not
    the place of all."""
    seen: dict[tuple[Location, Place], Bind] = {}
    found: set[Bind] = set()
    orders = [r.order for r in replays]
    for fact in region.after:
        if isinstance(fact, Bind) and fact.region is None and fact.how == "=" and fact.value is not None:
            if not outputs(region, fact.value) or not orders or fact.order < orders[0]:
                continue
            past = seen.get((fact.at, fact.place))
            if past is not None and any(past.order < order < fact.order for order in orders):
                found |= {past, fact}
            seen[fact.at, fact.place] = fact
    return found


def chosen(region: Region, replays: list[Replay]) -> Iterator[tuple[Fact, str]]:
    """Kept on some condition in the loop that replays (the best one so far), and used when the loop is over."""
    # Loops that the program itself has: a negative number stands for users who call its methods again and again.
    running = {loop for r in replays for loop, _ in r.loops if loop >= 0}
    for fact in region.after:
        if not isinstance(fact, Bind) or fact.region is not None or not fact.maybe or fact.how != "=":
            continue
        if not {loop for loop, _ in fact.loops} & running or queries.held_graphs(fact.value):
            continue
        following = next((r for r in replays if r.order > fact.order), None)
        if following is not None and following.loops == fact.loops and queries.inside(following, fact):
            continue  # looked up for the replay that comes next
        if _taken_out(region, fact) or _gone_with_its_call(region, fact, running):
            continue
        holders = [o for o in options(fact.value) if _holds(region, o, fact)] if fact.value is not None else []
        if holders and not _leaves_loop(region, fact) and _used_after(region, fact, holders):
            yield fact, "keeps"


def _gone_with_its_call(region: Region, bind: Bind, running: set[int]) -> bool:
    """True for a local of a call that is made and over in one round of the loop."""
    return bind.place.kind == "local" and any(
        isinstance(f, Leave) and f.scope == bind.place.owner and {loop for loop, _ in f.loops} & running
        for f in region.life[region.position(bind.order) :]
    )


def _taken_out(region: Region, bind: Bind) -> bool:
    """True if a statement takes an output out of a table together with its graph: both are let go of."""
    start = region.position(bind.order)
    for fact in reversed(region.life[max(start - 8, 0) : start]):
        if isinstance(fact, Bind) and fact.how == "pop" and fact.at.line == bind.at.line and fact.chain == bind.chain:
            return bool(queries.held_graphs(fact.old))
    return False


def _holds(region: Region, value: Value, bind: Bind) -> bool:
    """True for a second name of a static output, and for an object made of one."""
    if isinstance(value, Tensor):
        second = value.place is not None and value.place != bind.place and value.place.kind != "item"
        return second and value.storage in region.outputs
    if not isinstance(value, Instance) or value.external or value.made is None:
        return False
    fresh = value.made.path == bind.at.path and bind.at.span.line <= value.made.line <= bind.at.span.end_line
    return fresh and any(isinstance(a, Tensor) and a.storage in region.outputs for a in value.attrs.values())


def _leaves_loop(region: Region, bind: Bind) -> bool:
    """True if the branch that binds ends with the loop: nothing replays after it."""
    for fact in reversed([f for f in region.life if isinstance(f, Branch) and f.order < bind.order]):
        body = fact.body
        if fact.taken and body is not None and body.line <= bind.at.line <= body.end_line:
            last = (edits.text(Location(fact.at.path, body)).rstrip().splitlines() or [""])[-1].strip()
            return last.startswith(("break", "return", "raise"))
    return False


def _used_after(region: Region, bind: Bind, holders: list[Value]) -> bool:
    owners = {h.id for h in holders if isinstance(h, Instance)}
    around = [loop for loop, _ in bind.loops]
    for fact in region.after:
        inside = [loop for loop, _ in fact.loops[: len(around)]] == around  # in this round of the loop or a later one
        if fact.order < bind.order or fact.region is not None or inside:
            continue
        values = [fact.value] if isinstance(fact, (Return, HostRead, Bind)) else queries.operands(fact)
        for option in (o for v in values if v is not None for o in options(v)):
            if any(option is h for h in holders) or (
                option.place is not None and (option.place == bind.place or option.place.owner in owners)
            ):
                return True
    return False


def _result_of_call(bind: Bind, replay: Replay) -> bool:
    """`y = step(x)`: the replay ran inside the expression that is bound."""
    depth = len(bind.chain)
    lines = range(bind.at.line, bind.at.span.end_line + 1)
    if replay.chain[:depth] != bind.chain:
        return False
    if len(replay.chain) > depth:
        return replay.chain[depth].at.line in lines
    # A graphed callable replays where it is called; `graph.replay()` is a statement of its own.
    return not queries.graphs(replay.graph) and replay.at.line in lines


def _copied_name(region: Region, bind: Bind, replay: Replay) -> bool:
    """`previous = self.out`, in the call that replayed: a second name for an output that has one."""
    value = bind.value
    return (
        isinstance(value, Tensor)
        and value.place is not None
        and value.place != bind.place
        and value.place.kind != "item"
        and bind.chain == replay.chain
        and bind.place.kind in ("local", "attribute", "global")
        and _names_the_past(bind)
    )


def _names_the_past(bind: Bind) -> bool:
    return any(w in bind.place.name for w in ("prev", "last", "old", "before", "first"))


def _places(region: Region, fact: Fact) -> Iterator[Place]:
    """The places that `fact` reads static outputs from."""
    values: list[Value] = []
    if isinstance(fact, (Op, Operator, Index, Write)):
        values = queries.operands(fact)
    elif isinstance(fact, HostRead):
        values = [fact.value]
    elif isinstance(fact, Enter):
        values = [v for v in fact.given.values() if isinstance(v, Tensor)]
    for value in values:
        for tensor in tensors(value, 1):
            if tensor.place is not None and outputs(region, tensor):
                yield tensor.place
