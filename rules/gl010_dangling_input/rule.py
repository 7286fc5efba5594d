"""Memory that a graph uses loses its last reference while the graph is still replayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from graphlint import places, queries
from graphlint.fact import Bind, Branch, Enter, Fact, Keep, Leave, Op, Return
from graphlint.finding import Note, Problem
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue, Partial, Scope
from graphlint.knowledge.factories import device_of
from graphlint.lower.tree import Lambda
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Const, Instance, Mapping, Sequence, Storage, Tensor, Value, options, tensors

from .heap import Heap, held_by, key_of, release_container
from .modules import EMPTYING, MEMORY, dying


@rule("GL010", "dangling-input", "error", "memory that the graph uses is freed while the graph lives")
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in places.MANUAL:
        return
    told: set[Location] = set()
    ends = (_dropped, _local_modules, _offloaded, _resized, _emptied)
    for problem in (problem for end in ends for problem in end(region)):
        if problem.at not in told:
            told.add(problem.at)
            yield problem


def _dropped(region: Region) -> Iterator[Problem]:
    lent = {s for s in places.borrowed(region) if s.born is None and s.kind not in ("unknown", "parameter", "grad")}
    if not lent:
        return
    closed = _closed_scopes(region)
    kept = _in_objects(region) | _closed_over(region)
    heap = Heap(lent)
    for fact in region.life:
        if isinstance(fact, Enter):
            heap.entered = [*heap.entered[: len(fact.chain) - 1], fact]
        elif isinstance(fact, Return):
            heap.returned |= queries.storages(fact.value, 4) | held_by(fact.value)
        elif isinstance(fact, Keep):
            if fact.how == "setitem" and isinstance(fact.key, Const):
                continue  # a place of its own, which a Bind tells
            heap.hold(fact.value, (getattr(fact.container, "id", 0), f"#{fact.order}"), fact)
        elif isinstance(fact, Bind):
            before = dict(heap.bound_by(key_of(fact.place))) if fact.maybe else {}
            yield from _at_bind(region, fact, heap, lent, kept)
            for storage, binding in before.items():  # it may as well not have happened
                heap.keep(storage, key_of(fact.place), binding)
        elif isinstance(fact, Leave):
            yield from _at_leave(region, fact, heap, lent, closed, kept)
            heap.returned.clear()


def _at_bind(region: Region, fact: Bind, heap: Heap, lent: set[Storage], kept: set[Storage]) -> Iterator[Problem]:
    if fact.how.startswith(("pop", "clear", "remove", "discard")) and fact.owner is not None:
        gone = release_container(heap, getattr(fact.owner, "id", 0), queries.storages(fact.old))
        if fact.how == "clear":
            gone |= held_by(fact.old)  # what the container was made with, too
    elif fact.place.kind == "item" and fact.place.name == "*" and not places.is_empty(fact.value):
        gone = set()  # an entry more, as far as is known
    else:
        gone = set(heap.release(key_of(fact.place))) | (held_by(fact.old) if fact.place.kind != "local" else set())
    inner = fact.region is not None and fact.place.kind == "local" and len(fact.chain) > fact.region.depth
    # Locals of captured calls are gone when the call returns, which no Leave tells inside a capture.
    if fact.value is not None and not inner and not fact.how.startswith(EMPTYING):
        heap.hold(fact.value, key_of(fact.place), fact)
    if fact.order < region.end or fact.region is not None:
        return
    for storage in gone & lent:
        if heap.held_beside(storage, fact) or storage in held_by(fact.value):
            continue
        empty = places.is_empty(fact.value)
        if not empty and not places.workspace(region, fact, storage):
            continue
        if storage in kept and empty and fact.place.kind in ("local", "global"):
            continue
        if (
            places.lives_on(region, fact)
            and not places.graph_dropped(region, fact)
            and not places.graph_replaced(region, fact)
        ):
            text = fact.text.removesuffix(".clear") if fact.how == "clear" else fact.text
            name = f"`{text}`" if text else "this"
            if empty:
                message = (
                    f"drops the last reference to {name}, which the graph still uses: the memory goes to somebody else"
                )
            else:
                message = (
                    f"{name} is allocated anew while a graph still writes to the old one, which is freed: reserve the "
                    "final size before the capture"
                )
            yield _problem(region, fact, fact.at, message, storage)
            return


def _at_leave(
    region: Region, fact: Leave, heap: Heap, lent: set[Storage], closed: dict[int, set[str]], kept: set[Storage]
) -> Iterator[Problem]:
    bound: dict[Storage, Fact | None] = {}
    mentioned = closed.get(fact.scope, set())
    for name, value in fact.variables.items():
        if name in mentioned:
            continue  # a function that lives on holds it
        released = heap.release((fact.scope, name))
        for storage in held_by(value):
            bound[storage] = released.get(storage, bound.get(storage))
    if fact.order < region.end or fact.region is not None:
        return
    entered = heap.entered[len(fact.chain) - 1] if 0 < len(fact.chain) <= len(heap.entered) else None
    for storage, binding in bound.items():
        if storage not in lent or heap.holders.get(storage) or storage in heap.returned or storage in kept:
            continue
        if storage.kind == "buffer" and binding is None:
            continue
        if not places.lives_on(region, fact):
            continue
        if binding is not None:
            message = (
                "a local of the code that captures: it is freed when the call returns, but the graph goes on reading "
                "it; keep it with the graph"
            )
            yield _problem(region, fact, binding.at, message, storage)
        elif entered is not None and _temporary(entered, storage) and fact.chain:
            message = (
                "a temporary: nobody holds it after this call, but the graph goes on reading its memory; give it a "
                "name that lives as long"
            )
            yield _problem(region, fact, fact.chain[-1].at, message, storage)


def _local_modules(region: Region) -> Iterator[Problem]:
    """A module made by the code that captures and held by nothing else: its weights go with it."""
    for fact, binding in dying(region, _closed_scopes(region)):
        message = (
            "a module of the code that captures: its weights are freed when the call returns, but the graph goes on "
            "reading them; keep it with the graph"
        )
        yield _problem(region, fact, binding.at, message, None)


def _temporary(entered: Enter, storage: Storage) -> bool:
    """True if the caller passed the tensor straight from the call that made it."""
    values = [*entered.args, *entered.given.values()]
    direct = [v for v in values if isinstance(v, Tensor) and v.storage is storage]
    return (
        bool(direct)
        and all(v.place is None and v.view is None and v.sure for v in entered.args if v in direct)
        and any(v in direct for v in entered.args)
    )


@lru_cache(maxsize=4)
def _closed_scopes(region: Region) -> dict[int, set[str]]:
    """Scopes that a function which lives on closes over, with the names that it mentions."""
    found: dict[int, set[str]] = {}
    for fact in region.life:
        if isinstance(fact, (Return, Keep)) or (isinstance(fact, Bind) and fact.place.kind != "local"):
            for value in _functions(fact.value, 3):
                scope: Scope | None = value.scope
                names = _mentioned(value)
                while scope is not None:
                    found.setdefault(scope.id, set()).update(names)
                    scope = scope.parent
    return found


def _mentioned(function: FunctionValue) -> set[str]:
    """The words of a function's text, and of the local functions, classes and objects of such classes that it names."""
    found: set[str] = set()
    queue: list[FunctionValue | ClassValue] = [function]
    seen = {id(function.node)}
    while queue:
        one = queue.pop()
        node, lines = one.node, one.scope.module.source.lines
        first, last = (node.span.line, node.span.end_line) if isinstance(node, Lambda) else node.lines
        words = set(re.findall(r"\w+", "\n".join(lines[first - 1 : last])))
        found |= words
        for word in words if not one.scope.is_module else ():
            inner = one.scope.variables.get(word)
            code = inner.cls if isinstance(inner, Instance) else inner
            if isinstance(code, ClassValue) and code.scope.is_module:
                continue  # its methods close over nothing
            if isinstance(code, (FunctionValue, ClassValue)) and id(code.node) not in seen:
                seen.add(id(code.node))
                queue.append(code)
    return found


@lru_cache(maxsize=4)
def _closed_over(region: Region) -> frozenset[Storage]:
    """Memory that functions which live on hold through the variables of calls that are over, under whatever name."""
    closed = _closed_scopes(region)
    found: set[Storage] = set()
    for fact in region.life:
        if isinstance(fact, Leave) and (names := closed.get(fact.scope)):
            for name, value in fact.variables.items():
                if name in names:
                    found |= held_by(value)
    return frozenset(found)


def _functions(value: Value | None, depth: int) -> Iterator[FunctionValue]:
    if value is None or depth < 0:
        return
    for option in options(value):
        if isinstance(option, FunctionValue):
            yield option
        elif isinstance(option, BoundMethod):
            yield option.function
        elif isinstance(option, Partial):
            yield from _functions(option.function, depth - 1)
        elif isinstance(option, Sequence):
            for item in option.items:
                yield from _functions(item, depth - 1)
        elif isinstance(option, Mapping):
            for item in option.items.values():
                yield from _functions(item, depth - 1)
        elif isinstance(option, Instance):
            for item in (*option.args, *option.kwargs.values(), *list(option.attrs.values())):
                if isinstance(item, (FunctionValue, Partial)):
                    yield from _functions(item, depth - 1)


def _in_objects(region: Region) -> set[Storage]:
    """Memory in records whose fields are set without a trace: dataclasses, external objects and their arguments."""
    found: set[Storage] = set()
    seen: set[int] = set()
    for fact in region.life:
        values: list[Value | None] = []
        if isinstance(fact, (Return, Keep)):
            values = [fact.value]
        elif isinstance(fact, Bind):
            values = [fact.value] if fact.how not in EMPTYING else []
        for value in values:
            for option in options(value) if value is not None else ():
                if isinstance(option, Instance) and option.id not in seen:
                    seen.add(option.id)
                    for item in (*option.args, *option.kwargs.values(), *list(option.attrs.values())):
                        if option.external or getattr(option.cls, "dataclass", False):
                            found |= {t.storage for t in tensors(item, 2)}
    return found


def _offloaded(region: Region) -> Iterator[Problem]:
    """`module.cpu()` while a graph reads the module's GPU memory."""
    lent = places.borrowed(region)
    for fact in region.after:
        if not isinstance(fact, Op) or fact.region is not None or not fact.name.startswith("torch.nn.Module."):
            continue
        last = fact.name.rpartition(".")[2]
        if last != "cpu" and not (
            last in ("to", "to_empty") and any(_cpu(v) for v in (*fact.args, *fact.kwargs.values()))
        ):
            continue
        if fact.receiver is None or not any(t.storage in lent for t in tensors(fact.receiver, 8)):
            continue
        if places.lives_on(region, fact) and not places.graph_dropped(region, fact):
            message = (
                f"`{fact.text}` frees the GPU memory of weights that the graph goes on reading: drop the graph first, "
                "capture again afterwards"
            )
            yield _problem(region, fact, fact.at, message, None)


def _resized(region: Region) -> Iterator[Problem]:
    """`if need > buffer.numel(): buffer.resize_(need)`: the tensor gets other memory, the old block is freed."""
    lent = places.borrowed(region)
    asked: list[Branch] = []
    for fact in region.after:
        if isinstance(fact, Branch) and fact.taken and (" > " in fact.text or " < " in fact.text):
            asked.append(fact)
        if (
            not isinstance(fact, Op)
            or fact.region is not None
            or fact.name not in ("Tensor.resize_", "Tensor.resize_as_")
        ):
            continue
        grows = any(queries.covers(b, fact) for b in asked)
        if grows and queries.storages(fact.receiver, 0) & lent and places.lives_on(region, fact):
            message = (
                f"`{fact.text}` gives the tensor other memory while a graph still uses the old block, which is freed: "
                "reserve the final size before the capture"
            )
            yield _problem(region, fact, fact.at, message, None)


def _emptied(region: Region) -> Iterator[Problem]:
    """`weight.untyped_storage().resize_(0)`: the memory is given back, and the tensor stays."""
    lent = places.borrowed(region)
    for fact in region.after:
        if not isinstance(fact, Op) or fact.region is not None or fact.name != f"{MEMORY}.resize_":
            continue
        size = fact.argument(0, "size")
        of = fact.receiver.attrs.get("$tensor") if isinstance(fact.receiver, Instance) else None
        if not isinstance(size, Const) or size.value != 0 or not queries.storages(of, 0) & lent:
            continue
        replay = places.next_replay(region, fact)
        filled = replay is not None and any(
            isinstance(f, Op) and f.name == fact.name and fact.order < f.order < replay.order and f.at != fact.at
            for f in region.after
        )
        if replay is not None and not filled and places.lives_on(region, fact):
            message = (
                f"`{fact.text}` gives back memory that the graph goes on reading: drop the graph first, capture again "
                "afterwards"
            )
            yield _problem(region, fact, fact.at, message, None)


def _cpu(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, str) and value.value in ("cpu", "meta")
    return device_of(value) == "cpu"


def _problem(region: Region, fact: Fact, at: Location, message: str, storage: Storage | None) -> Problem:
    notes = [Note(region.at, "captured here")]
    if storage is not None:
        used = region.inputs.get(storage) or region.writes.get(storage)
        if used is not None and used.at != at:
            notes.append(Note(used.at, "used here by captured work"))
    replay = places.next_replay(region, fact)
    if replay is not None:
        notes.append(Note(replay.at, "replayed here"))
    return Problem(at, message, tuple(notes), function=fact.function)
