"""Functions compiled with CUDA graphs, used against the rules of these graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from graphlint import places, queries
from graphlint.fact import Bind, Branch, Enter, Fact, HostRead, Index, Iterate, Keep, Op, Return, Write
from graphlint.finding import Note, Problem
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
    Value,
    options,
    origins,
    tensors,
)

CALL = "torch.compile.call"
_COPIES = ("Tensor.contiguous", "Tensor.clone")
#: Which calls may have given the output that a place holds.
_Names: TypeAlias = dict[tuple[int, str], tuple[Op, ...]]
_BACKWARD = ("Tensor.backward", "torch.autograd.backward")


@rule("GL018", "compile-cudagraphs", "error", "a function compiled with CUDA graphs is used against their rules")
def check(region: Region) -> Iterator[Problem]:
    told: set[Location] = set()
    found: list[Problem] = []
    if region.kind == "compile" and not region.maybe:
        found = [*_kept(region), *_mutated(region), *_shapes(region), *_gradients(region)]
    elif region.kind in places.MANUAL:
        found = list(_nested(region))
    for problem in found:
        if problem.at not in told:
            told.add(problem.at)
            yield problem


def _nested(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if isinstance(fact, Op) and fact.name == CALL and isinstance(fact.receiver, Instance):
            kind = fact.receiver.attrs.get("$kind")
            if isinstance(kind, Const) and kind.value == "cudagraphs":
                message = (
                    f"`{fact.text or 'this function'}` is compiled with CUDA graphs of its own, which cannot "
                    "be captured "
                    "again: compile it in the default mode for this"
                )
                yield Problem(fact.at, message, region.way(fact), function=fact.function)


def _calls(region: Region) -> list[Op]:
    return [
        f
        for f in region.life
        if isinstance(f, Op) and f.name == CALL and f.receiver is region.graph and f.region is not region
    ]


# ------------------------------------------------------------------------------------------------ outputs that are kept


def _kept(region: Region) -> Iterator[Problem]:
    """An output that is used, or still collected, after the function has run again."""
    call: Op | None = None
    names: _Names = {}
    boxes: dict[int, Op] = {}
    read: list[Branch] = []
    for fact in region.life:
        if fact.region is region:
            continue
        if isinstance(fact, Branch) and isinstance(fact.value, Host) and fact.value.source == "read":
            read.append(fact)
        for stale, place in _uses(region, fact, call, names):
            yield _output(region, stale, fact, f"`{place.name}`")
        for box in _boxes(fact):
            if box in boxes and call is not None and boxes[box] is not call:
                yield _output(region, boxes[box], fact, "the output")
                del boxes[box]
        if isinstance(fact, Op) and fact.name == CALL and fact.receiver is region.graph:
            call = fact
        elif call is not None and isinstance(fact, Bind) and fact.value is not None:
            origin = _origin(region, fact.value, names, call)
            key = (fact.place.owner, fact.place.name)
            if origin and _may_stay(region, fact, origin, read):
                names[key] = tuple(dict.fromkeys((*names.get(key, ()), *origin)))
            elif origin:
                names[key] = origin
            else:
                names.pop(key, None)
            if isinstance(fact.value, Sequence) and fact.value.id in boxes and not fact.value.items:
                del boxes[fact.value.id]
        elif call is not None and isinstance(fact, Keep) and fact.how != "setitem":
            origin = _origin(region, fact.value, names, call)
            box = getattr(fact.container, "id", 0)
            if origin and box:
                boxes.setdefault(box, origin[0])


def _may_stay(region: Region, bind: Bind, calls: tuple[Op, ...], read: list[Branch]) -> bool:
    """True for the best so far: a name keeps its output unless a number that was read beats the one kept with it."""
    if not bind.maybe or bind.old is None or not any(t.storage.born is region for t in tensors(bind.old, 1)):
        return False
    near = [b for b in read if len(b.chain) == len(bind.chain) and b.loops == bind.loops]
    # Where the arm makes the call as well, what it binds is always the output of its own call.
    arms = [b for b in near if queries.covers(b, bind) and not any(queries.covers(b, c) for c in calls)]
    return any(
        isinstance(f, Bind) and f.place in origins(arm.value) and queries.covers(arm, f)
        for arm in arms
        for f in region.life[region.position(arm.order) :]
    )


def _origin(region: Region, value: Value, names: _Names, call: Op) -> tuple[Op, ...]:
    """The calls of which `value` may be the output, if it is one."""
    outputs = [t for o in options(value) for t in _flat(o) if t.storage.born is region]
    if not outputs:
        return ()
    for tensor in outputs:
        if tensor.place is not None and (key := (tensor.place.owner, tensor.place.name)) in names:
            return names[key]
    return (call,)


def _flat(value: Value) -> list[Tensor]:
    """The tensors of an output, of a tuple, or of a record that was made of some."""
    held: Iterable[Value] = ()
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Sequence) and value.kind in ("tuple", "named"):
        held = value.items
    elif isinstance(value, Mapping):
        held = value.items.values()
    elif isinstance(value, Instance) and not value.external:
        held = value.attrs.values()
    return [o for i in held for o in options(i) if isinstance(o, Tensor)]


def _uses(region: Region, fact: Fact, call: Op | None, names: _Names) -> Iterator[tuple[Op, Place]]:
    """Outputs of an earlier call that `fact` reads."""
    if call is None or not names:
        return
    values = [fact.value] if isinstance(fact, HostRead) else queries.operands(fact)
    for value in values:
        for tensor in tensors(value, 1):
            if tensor.storage.born is region and tensor.place is not None:
                for origin in names.get((tensor.place.owner, tensor.place.name), ()):
                    if origin is not call:
                        yield origin, tensor.place


def _boxes(fact: Fact) -> Iterator[int]:
    """Containers that `fact` reads, or adds to."""
    values: list[Value] = []
    if isinstance(fact, Keep):
        values = [fact.container]
    elif isinstance(fact, (Iterate, Return)):
        values = [fact.value]
    elif isinstance(fact, Op):
        values = [*fact.args, *fact.kwargs.values()]
    for value in values:
        for option in options(value):
            if isinstance(option, Sequence):
                yield option.id


def _output(region: Region, call: Op, use: Fact, what: str) -> Problem:
    message = (
        f"{what} of a function compiled with CUDA graphs is kept while it runs again, which overwrites it: clone it "
        "outside the compiled function"
    )
    notes = (Note(region.at, "compiled here"), Note(use.at, "still used here"))
    return Problem(call.at, message, notes, function=call.function)


# -------------------------------------------------------------------------------------------------- inputs and shapes


def _mutated(region: Region) -> Iterator[Problem]:
    calls = _calls(region)
    given = {t.storage for c in calls[:4] for v in (*c.args, *c.kwargs.values()) for t in tensors(v, 2)}
    static = {
        t.storage
        for f in region.life
        if isinstance(f, Op) and f.name.endswith("mark_static_address")
        for v in f.args
        for t in tensors(v, 2)
    }
    entered = next((f for f in region.captured if isinstance(f, Enter)), None)
    for fact in region.captured:
        if not isinstance(fact, Write) or not isinstance(fact.target, Tensor):
            continue
        storage = fact.target.storage
        if storage.kind in ("parameter", "buffer") or storage.born is not None or storage in static:
            continue
        if storage in given or _parameter(region, fact, entered):
            name = fact.text.removesuffix("()").rpartition(".")[0] or fact.text
            message = (
                f"`{name}` is an argument of the compiled function and is written in place: CUDA graphs are "
                "skipped, with a "
                "log line only; return the new value, or keep it in a buffer"
            )
            notes = (Note(region.at, "compiled here"), *region.way(fact)[1:])
            yield Problem(fact.at, message, notes[:5], severity="warning", function=fact.function)


def _parameter(region: Region, fact: Write, entered: Enter | None) -> bool:
    """True if an unknown tensor that is written is a parameter of the compiled function itself."""
    target = fact.target
    if entered is None or not isinstance(target, Tensor) or target.storage.kind != "unknown" or target.place is None:
        return False
    return target.place.kind == "local" and target.place.name in entered.given and len(fact.chain) == len(entered.chain)


def _shapes(region: Region) -> Iterator[Problem]:
    """A call in a loop whose arguments have another shape each time."""
    sizes: dict[Location, dict[tuple[int, int], set[int]]] = {}
    made = _makers(region)
    for call in _calls(region):
        if not call.loops:
            continue
        for index, value in enumerate((*call.args, *call.kwargs.values())):
            for tensor in (o for o in options(value) if isinstance(o, Tensor)):
                maker = made.get(tensor.storage)
                grown = maker is not None and (_padded(maker) or (_by_loop(maker) and _inside(maker, call)))
                if (grown and tensor.view is None) or _prefix(region, call, tensor):
                    yield _reshaped(region, call)
                for dim, size in enumerate(tensor.shape or ()):
                    # Several forms that it may have are not several forms that it has.
                    if isinstance(size, int) and len(options(value)) == 1:
                        seen = sizes.setdefault(call.at, {}).setdefault((index, dim), set())
                        seen.add(size)
                        if len(seen) > 2:
                            yield _reshaped(region, call)


def _makers(region: Region) -> dict[Storage, Op]:
    found: dict[Storage, Op] = {}
    for fact in region.life:
        if isinstance(fact, Op) and isinstance(fact.result, Tensor) and fact.region is None:
            found.setdefault(fact.result.storage, fact)
    return found


def _prefix(region: Region, call: Op, tensor: Tensor) -> bool:
    """True for `ids[:, :n]`, or its copy, where `n` is the number of the loop that the call stands in."""
    source: Value | None = tensor
    for fact in reversed(region.life[: region.position(call.order)]):
        if fact.region is not None or fact.loops != call.loops or not isinstance(source, Tensor):
            continue
        if isinstance(fact, Op) and fact.name in _COPIES and fact.result is not None and _same(fact.result, source):
            source = fact.receiver
        elif isinstance(fact, Index) and source.view is not None and _same(fact.result, source):
            return any(map(_cut_by_loop, _parts(fact.index)))
    return False


def _same(result: Value, tensor: Tensor) -> bool:
    return isinstance(result, Tensor) and result.storage is tensor.storage and result.view == tensor.view


def _parts(index: Value) -> list[Value]:
    return list(index.items) if isinstance(index, Sequence) and index.kind == "tuple" else [index]


def _cut_by_loop(index: Value) -> bool:
    """True for a slice with one end that the loop moves, the other being fixed."""
    if not (isinstance(index, Sequence) and index.kind == "slice") or len(index.items) < 2:
        return False
    moved = [isinstance(i, Host) and i.source == "loop" for i in index.items[:2]]
    return sum(moved) == 1 and all(m or isinstance(i, Const) for m, i in zip(moved, index.items[:2], strict=True))


def _padded(maker: Op) -> bool:
    return maker.name.endswith("rnn.pad_sequence")


def _by_loop(maker: Op) -> bool:
    """True if the tensor's size is the loop's number: `torch.ones(n)`."""
    if maker.name.rpartition(".")[2] not in ("ones", "zeros", "empty", "full", "randn", "rand", "arange"):
        return False
    sizes = maker.args if maker.name.rpartition(".")[2] != "full" else maker.args[:1]
    flat = [i for v in sizes for i in (v.items if isinstance(v, Sequence) else [v])]
    return any(isinstance(i, Host) and i.source == "loop" for i in flat)


def _inside(maker: Op, call: Op) -> bool:
    return len(maker.loops) >= 1 and len(call.loops) >= 1


def _reshaped(region: Region, call: Op) -> Problem:
    message = (
        "the arguments have a new shape at almost every call, and each shape records another CUDA graph: pad to a few "
        "fixed sizes"
    )
    return Problem(call.at, message, (Note(region.at, "compiled here"),), severity="warning", function=call.function)


# ---------------------------------------------------------------------------------------------------------- gradients


def _gradients(region: Region) -> Iterator[Problem]:
    """Several backwards through the compiled function since `.grad` was None."""
    if any(
        isinstance(f, Op) and f.name.endswith(("register_hook", "register_post_accumulate_grad_hook"))
        for f in region.life
    ):
        return
    used = {s for s in region.inputs if s.kind == "parameter"}
    cleared = False
    called = False
    backwards = 0
    for fact in region.life:
        if fact.region is not None:
            continue
        if isinstance(fact, Op) and fact.name == CALL and fact.receiver is region.graph:
            called = True
        elif isinstance(fact, Op) and fact.name.rpartition(".")[2] == "zero_grad":
            flag = fact.argument(0, "set_to_none")
            cleared = (flag is None or (isinstance(flag, Const) and bool(flag.value))) and _concerns(
                fact.receiver, used
            )
            backwards = 0
        elif isinstance(fact, Bind) and fact.place.name == "grad":
            cleared = places.is_empty(fact.value)
            backwards = 0
        elif isinstance(fact, Op) and fact.name in _BACKWARD and called:
            called = False
            backwards += 1
            if cleared and backwards > 1:
                message = (
                    "gradients accumulate from None, so `.grad` is an output of the compiled backward, which "
                    "the next run "
                    "overwrites: give the parameters zeroed gradients first"
                )
                yield Problem(fact.at, message, (Note(region.at, "compiled here"),), function=fact.function)
                return


def _concerns(owner: Value | None, used: set[Storage]) -> bool:
    if not isinstance(owner, Instance):
        return False
    held = {t.storage for v in (owner, *owner.args[:1]) for t in tensors(v, 6) if t.storage.kind == "parameter"}
    return bool(held & used) or not held
