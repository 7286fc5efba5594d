"""Python state that captured code changes: once, at the capture, and never again."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Bind, Branch, Enter, Fact, HostRead, Index, Keep, Op, Operator, Unfollowed
from graphlint.finding import Problem
from graphlint.interp.objects import ClassValue
from graphlint.knowledge.python_state import GROWING_CACHES, LOGGERS
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import (
    Const,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Storage,
    Tensor,
    Union,
    Unknown,
    Value,
    options,
    origins,
)

from .taking import taken

_GROWS = ("append", "extend", "add", "appendleft", "put", "put_nowait", "insert", "extendleft")


@rule("GL016", "side-effect", "error", "Python state changed in the capture is not changed by replays")
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in (*places.MANUAL, "graphed-callables", "cuda-graph-module", "root"):
        return
    told: set[Location] = set()
    fresh: set[tuple[int, str]] = set()
    emptied: set[int] = set()
    made: dict[Storage, list[Fact]] = {}
    reads: set[tuple[str, int]] = set()
    binders: dict[Place, set[str]] = {}
    for bind in region.before:
        if isinstance(bind, Bind):
            binders.setdefault(bind.place, set()).add(bind.function)
    for fact in region.captured:
        problem: Problem | None = None
        if isinstance(fact, HostRead):
            reads.add((fact.at.path, fact.at.line))
        elif isinstance(fact, Bind):
            key = (fact.place.owner, fact.place.name)
            if fact.how in ("clear", "pop", "popleft") and fact.owner is not None:
                emptied.add(getattr(fact.owner, "id", 0))
                problem = _taken(region, fact)
            elif fact.how == "turn":
                problem = _turned(region, fact)
            elif _begun_anew(region, fact):
                emptied |= _containers(fact.old)
            elif key not in fresh and _outlives(region, fact, binders):
                problem = _bound(region, fact, made, (fact.at.path, fact.at.line) in reads)
            if fact.how == "=" and problem is None:
                fresh.add(key)
        elif isinstance(fact, Keep):
            problem = _kept(region, fact, emptied)
        elif isinstance(fact, (Op, Unfollowed, Enter)):
            problem = _growing_cache(region, fact) or (_called(region, fact) if isinstance(fact, Op) else None)
        if isinstance(fact, (Op, Operator, Index)):
            for storage in queries.storages(queries.result(fact), 1):
                made.setdefault(storage, []).append(fact)
        if problem is not None and problem.at not in told and not _consumed(region, fact):
            told.add(problem.at)
            yield problem


def _problem(region: Region, fact: Fact, message: str) -> Problem:
    return Problem(fact.at, message, region.way(fact), function=fact.function)


def _outlives(region: Region, fact: Bind, binders: dict[Place, set[str]]) -> bool:
    """True if the place is there before and after the call that changes it."""
    owner = fact.owner
    if fact.place.kind in ("attribute", "item"):
        if isinstance(owner, (Instance, Sequence, Mapping)) and owner.born is region:
            return False
        return not (isinstance(owner, Tensor) or fact.place.name in ("training", "grad", "data"))
    if fact.place.kind == "global":
        return len(fact.chain) > region.depth
    return _nonlocal(region, fact, binders)


def _nonlocal(region: Region, fact: Bind, binders: dict[Place, set[str]]) -> bool:
    """A local of a function around: it is bound in another call than the one that has it."""
    if len(fact.chain) <= region.depth or fact.how == "del":
        return False
    return fact.old is not None and bool(binders.get(fact.place, set()) - {fact.function})


def _bound(region: Region, fact: Bind, made: dict[Storage, list[Fact]], read: bool) -> Problem | None:
    name = f"`{fact.text}`" if fact.text else "this"
    value = fact.value
    if value is None:
        return None
    scalars = [o for o in options(value) if isinstance(o, (Const, Host))]
    if scalars and len(scalars) == len(options(value)):
        if _taken_back(region, fact):
            return None
        if not any(_moves(s, fact) for s in scalars) and not (read and any(isinstance(s, Host) for s in scalars)):
            return None
        message = f"{name} is changed in Python while capturing: replays run no Python, so it stands still from then on"
        return _problem(region, fact, message)
    for tensor in (o for o in options(value) if isinstance(o, Tensor)):
        if tensor.storage.born is region and _from_itself(region, fact, tensor, made):
            message = (
                f"{name} is rebuilt from itself in the capture: the graph goes on reading the old tensor at "
                "every replay, "
                "so it never grows or advances; write into a tensor of fixed size"
            )
            return _problem(region, fact, message)
    return None


def _taken_back(region: Region, fact: Bind) -> bool:
    """True for a depth that is counted up and down again in the same capture: it ends as it began."""
    other = {"+=": "-=", "-=": "+="}.get(fact.how)
    return other is not None and any(
        isinstance(f, Bind) and f.place == fact.place and f.how == other for f in region.captured
    )


def _moves(value: Const | Host, fact: Bind) -> bool:
    """True if the number depends on its own last value, or on something that Python reads anew each time."""
    if any((p.owner, p.name) == (fact.place.owner, fact.place.name) for p in origins(value)):
        return True
    if fact.how not in ("=", "del") and not isinstance(getattr(value, "value", 0), str):
        return True
    if isinstance(value, Host):
        if value.source == "time":
            return True
        return value.source == "read" and (value.read_at is not None or value.kind == "string")
    return False


def _from_itself(region: Region, fact: Bind, value: Tensor, made: dict[Storage, list[Fact]]) -> bool:
    """True if the new tensor is computed from what the place held before the capture."""
    old = {t for t in queries.storages(fact.old, 0) if t.born is not region}
    key = (fact.place.owner, fact.place.name)
    seen, todo = {value.storage}, [value.storage]
    while todo:
        for maker in made.get(todo.pop(), ()):
            for operand in queries.operands(maker):
                for place in _places(operand):
                    if (place.owner, place.name) == key and not _shape_only(maker):
                        return True
                for storage in queries.storages(operand, 1) - seen:
                    if storage in old and not _shape_only(maker):
                        return True
                    if storage.born is region:
                        seen.add(storage)
                        todo.append(storage)
    return False


def _shape_only(fact: Fact) -> bool:
    return isinstance(fact, Op) and fact.name.endswith(("_like", "new_zeros", "new_ones", "new_full", "new_empty"))


def _places(value: Value) -> Iterator[Place]:
    for option in options(value):
        if option.place is not None:
            yield option.place
        if isinstance(option, Sequence):
            for item in option.items:
                yield from _places(item)


def _is_code(value: Value) -> bool:
    """True for a function or a class: a set of them registers what is there, whatever runs how often."""
    return not isinstance(value, (Const, Host, Unknown, Tensor, Sequence, Mapping, Instance, Union))


def _kept(region: Region, fact: Keep, emptied: set[int]) -> Problem | None:
    container = fact.container
    if fact.how not in _GROWS or getattr(container, "born", None) is region or len(fact.chain) <= region.depth:
        return None
    if not isinstance(container, (Sequence, Mapping)) or container.id in emptied:
        return None
    if _local_container(region, container.id) or (fact.how == "add" and (fact.maybe or _is_code(fact.value))):
        return None  # its own, or a note that something was said or registered once
    name = fact.text.rpartition(".")[0] if fact.text else ""
    what = f"`{name}`" if name else "a container"
    message = f"{what} grows while capturing only: replays run no Python and add nothing to it"
    return _problem(region, fact, message)


def _begun_anew(region: Region, fact: Bind) -> bool:
    """True if captured code puts a container of its own in the place of one: what it gathers is of this run alone."""
    made = [o for o in options(fact.value) if isinstance(o, (Sequence, Mapping))] if fact.value is not None else []
    return bool(made) and all(o.born is region for o in made)


def _containers(value: Value | None) -> set[int]:
    return {o.id for o in options(value) if isinstance(o, (Sequence, Mapping))} if value is not None else set()


def _taken(region: Region, fact: Bind) -> Problem | None:
    """An entry taken out of a list that outlives the call, and that captured code puts nothing into."""
    container = fact.owner
    if fact.how != "pop" or not isinstance(container, Sequence) or container.born is region:
        return None
    filled = any(isinstance(f, Keep) and f.container is container for f in region.captured)
    if filled or len(fact.chain) <= region.depth:
        return None
    name = fact.text.rpartition(".")[0] if fact.text else ""
    what = f"`{name}`" if name else "a container"
    message = f"an entry is taken out of {what} while capturing only: replays run no Python and use the same one again"
    return _problem(region, fact, message)


def _turned(region: Region, fact: Bind) -> Problem | None:
    """A ring that captured code turns on, once, and whose place other code reads between the replays."""
    ring = fact.owner
    if not isinstance(ring, Sequence) or ring.born is region or len(fact.chain) <= region.depth:
        return None
    turns = [f for f in region.captured if isinstance(f, Bind) and f.how == "turn" and f.owner is ring]
    begin = queries.begin_fact(region)
    if len(turns) != 1 or begin is None or len(fact.loops) > len(begin.loops):
        return None  # it may come round
    if not any(f.region is None and _reads(f, ring.id) for f in region.after):
        return None
    name = fact.text.rpartition(".")[0] if fact.text else ""
    what = f"`{name}`" if name else "a ring"
    message = f"{what} turns while capturing only: replays run no Python and leave it where it stands"
    return _problem(region, fact, message)


def _reads(fact: Fact, container: int) -> bool:
    """True if `fact` decides by, or computes with, what stands in the container."""
    values = [fact.value] if isinstance(fact, (Branch, HostRead)) else queries.operands(fact)
    return any(p.owner == container and p.name != "len" for v in values for o in options(v) for p in origins(o))


def _local_container(region: Region, container: int) -> bool:
    """True if the container is emptied or read to the end inside the capture as well: it is captured work's own."""
    for fact in region.captured:
        if (
            isinstance(fact, Bind)
            and fact.how in ("clear", "pop", "popleft")
            and getattr(fact.owner, "id", 0) == container
        ):
            return True
    return False


def _growing_cache(region: Region, fact: Op | Unfollowed | Enter) -> Problem | None:
    """A cache of transformers that concatenates in Python, handed to captured work."""
    given = list(fact.given.values()) if isinstance(fact, Enter) else list(getattr(fact, "kwargs", {}).values())
    inside = [v for table in given if isinstance(table, Mapping) for v in table.items.values()]
    for option in (o for value in (*fact.args, *given, *inside) for o in options(value)):
        if not isinstance(option, Instance) or not (name := _grows(option)):
            continue
        at = fact.at
        enters = fact.defined.path if isinstance(fact, Enter) else ""
        if isinstance(option.cls, ClassValue) and not places.in_package(enters):
            return None  # told where the package's code is entered
        if isinstance(fact, Enter):
            if any(isinstance(f, Unfollowed) and option in f.args for f in region.captured):
                return None  # told where it is used
            at = next((f.at for f in reversed(fact.chain) if not places.in_package(f.at.path)), at)
        message = (
            f"`{name}` grows by `torch.cat` in Python: the capture grows it once, every replay reads and writes the "
            "same place; use a `StaticCache`"
        )
        return Problem(at, message, region.way(fact), function=fact.function)
    return None


def _grows(value: Instance) -> str:
    """The name of the class if `value` is a cache that grows, as its package defines it."""
    if isinstance(value.cls, ClassValue):
        name = "" if value.cls.module.in_project else value.cls.name
    else:
        name = value.external.rpartition(".")[2]
    return name if name in GROWING_CACHES else ""


def _called(region: Region, fact: Op) -> Problem | None:
    if (message := taken(region, fact)) is not None:
        return _problem(region, fact, message)
    last = fact.name.rpartition(".")[2]
    receiver = fact.receiver
    if last == "step" and isinstance(receiver, Instance) and _scheduler(receiver):
        message = (
            f"`{fact.text}` in the capture: the schedule advances once, replays do not move it; call it after the "
            "replay"
        )
        return _problem(region, fact, message)
    if last == "unscale_" and "GradScaler" in fact.name:
        stepped = any(isinstance(f, Op) and f.name.endswith("GradScaler.step") for f in region.captured)
        if not stepped:
            message = (
                "`unscale_()` marks the gradients as unscaled in Python, at the capture only: an eager "
                "`scaler.step()` after "
                "a replay unscales them again"
            )
            return _problem(region, fact, message)
    if last in LOGGERS and not fact.name.startswith("torch.nn."):
        message = f"`{fact.text}` in the capture reports once: replays run no Python; report after the replay"
        return _problem(region, fact, message)
    return None


def _scheduler(value: Instance) -> bool:
    name = value.external or getattr(value.cls, "name", "")
    return name.startswith("torch.optim.") and (name.endswith("LR") or "Restarts" in name)


def _consumed(region: Region, fact: Fact) -> bool:
    """True if the number is set anew elsewhere in the capture: it only counts the parts of one run."""
    if not isinstance(fact, Bind):
        return False
    key = (fact.place.owner, fact.place.name)
    for other in region.captured:
        if (
            other is fact
            or not isinstance(other, Bind)
            or (other.place.owner, other.place.name) != key
            or other.how != "="
        ):
            continue
        if isinstance(other.value, (Const, Host)) and not any((p.owner, p.name) == key for p in origins(other.value)):
            return True
    return False
