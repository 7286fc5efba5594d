"""State as part of what was frozen: flags that captured code branches on, set anew between replays.

Glossary:
    flag     a place that decides what is captured: an attribute, an entry, a global that holds a bool, a name or None.
    holder   the Bind that gave a flag the value that the capture saw.
    way      the calls from the root down to the capture; a Bind in one of them is on the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places, queries
from graphlint.arguments import all_origins, identity
from graphlint.fact import Bind, Branch, CaptureBegin, Fact, Frame, Keep, Pick, Replay
from graphlint.region import Region
from graphlint.value import Const, Host, Place, Value, options, origins

_KINDS = ("attribute", "item", "global")


def omitted_state(region: Region, begin: CaptureBegin, store: Keep) -> tuple[str, Fact] | None:
    """A flag that decides what is captured, gets another value later, and that the key was not made of."""
    key = all_origins(store.key)
    chosen = {place: fact for place, fact in _deciding(region) if place not in key}
    if not chosen:
        return None
    holders: dict[Place, Bind] = {}
    together: dict[tuple[Frame, ...], set[Place]] = {}
    for fact in region.life:
        if isinstance(fact, Bind) and fact.place.kind in _KINDS:
            together.setdefault(fact.chain, set()).add(fact.place)
            if fact.place in chosen and fact.order < region.begin:
                holders[fact.place] = fact
    for fact in region.after:
        if not isinstance(fact, Bind) or fact.place not in holders or fact.region is not None:
            continue
        if together[fact.chain] & key or places.by_harness(fact) or _by_itself(begin, store, fact):
            continue
        holder, replay = holders[fact.place], places.next_replay(region, fact)
        if replay is None or _set_again(region, fact, replay) or _restored(region, holder, fact):
            continue
        if _flipped(begin, holder, fact, replay) or _computed(region, key, holder, fact, replay):
            named = fact.text if fact.place.name in fact.text else fact.place.name
            return named, chosen[fact.place]
    return None


def _deciding(region: Region) -> Iterator[tuple[Place, Fact]]:
    """Flags that captured code branches on, or picks an entry of a container by, each with the first fact that does."""
    found: dict[Place, Fact] = {}
    for fact in region.captured:
        value = fact.value if isinstance(fact, Branch) else fact.key if isinstance(fact, Pick) else None
        for place in origins(value) if value is not None else ():
            if place.kind in _KINDS and place.owner:
                found.setdefault(place, fact)
    yield from found.items()


def _by_itself(begin: CaptureBegin, store: Keep, fact: Bind) -> bool:
    """True for a flag that the call which captures or stores the graph sets for itself."""
    if not fact.chain or not queries.inside(begin, fact):
        return False
    return queries.inside(fact, store) or fact.chain == begin.chain


def _set_again(region: Region, fact: Bind, replay: Replay) -> bool:
    """True if the place gets one more value before the replay, other than in the other arm of a condition."""
    between = region.life[region.position(fact.order + 1) : region.position(replay.order)]
    return any(
        isinstance(f, Bind) and f.place == fact.place and not (fact.maybe and queries.exclusive(region, fact, f))
        for f in between
    )


def _restored(region: Region, holder: Bind, fact: Bind) -> bool:
    """True if the flag was set for the capture alone, and has its old value back before the graph is used."""
    if any(r.order < fact.order for r in places.replays(region)):
        return False
    old, new = holder.old, fact.value
    return old is not None and new is not None and identity(old) == identity(new)


def _flipped(begin: CaptureBegin, holder: Bind, fact: Bind, replay: Replay) -> bool:
    """True if the flag has another known value at the replay."""
    if fact.maybe or not _other_mode(holder.value, fact.value):
        return False
    return not queries.inside(begin, fact) or not fact.chain or _seen(fact, replay)


def _computed(region: Region, key: frozenset[Place], holder: Bind, fact: Bind, replay: Replay) -> bool:
    """True if the flag is computed anew in each round of a loop, or set in those rounds that a condition picks, while
    the replay happens in all of them."""
    if replay.maybe or not fact.loops or not _seen(fact, replay) or not (_mode(holder.value) or _rounds(holder.value)):
        return False
    arms: list[Branch] = []
    if fact.maybe:
        arms = _conditions(region, fact) if _other_mode(holder.value, fact.value) else []
        decisive = [b.value for b in arms if _by_round(b.value)]
        if not arms or len(decisive) < len(arms):
            return False
    elif fact.value is None or not _rounds(fact.value):
        return False
    else:
        decisive = [fact.value]
    read = frozenset({fact.place}).union(*(all_origins(v) for v in decisive))
    if read & key or places.graph_dropped(region, replay):
        return False
    # The way to the replay may ask for the flag, and leave early.
    between = region.life[region.position(fact.order + 1) : region.position(replay.order)]
    asked = (f for f in between if isinstance(f, Branch) and queries.inside(replay, f) and origins(f.value) & read)
    return all(any(f.at == b.at for b in arms) for f in asked)


def _seen(fact: Bind, replay: Replay) -> bool:
    """True if the program itself leads from the one to the other: not two calls of which nobody knows the order."""
    if fact.place.name == "training":
        return False  # a matter of its own, told where the mode is switched
    driven = [f for f in (fact, replay) if f.loops and f.loops[0][0] < 0]
    return not driven or (len(driven) == 2 and fact.chain[:1] == replay.chain[:1])


def _conditions(region: Region, fact: Bind) -> list[Branch]:
    """The arms of unknown conditions that `fact` stands in."""
    past = region.life[: region.position(fact.order)]
    return [b for b in past if isinstance(b, Branch) and b.maybe and b.loops == fact.loops and queries.covers(b, fact)]


def _other_mode(old: Value | None, new: Value | None) -> bool:
    """True for two different known flags or names: numbers may well differ and choose the same."""
    return _mode(old) and _mode(new) and old is not None and new is not None and identity(old) != identity(new)


def _mode(value: Value | None) -> bool:
    return isinstance(value, Const) and (value.value is None or isinstance(value.value, (bool, str)))


def _rounds(value: Value | None) -> bool:
    """True for a flag that depends on the round of a loop."""
    if value is None or _mode(value):
        return False
    return all(_mode(o) or (_by_round(o) and isinstance(o, Host) and o.kind == "bool") for o in options(value))


def _by_round(value: Value) -> bool:
    return isinstance(value, Host) and value.source == "loop"
