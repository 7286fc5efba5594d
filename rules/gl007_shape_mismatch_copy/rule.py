"""Copies that do not fill a static input: refused, repeated, cut, or with a stale rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphlint import queries
from graphlint.fact import Bind, Fact, Index, Iterate, Op, Operator, Replay, Unfollowed, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Host, Instance, Sequence, Storage, Tensor, Unknown, Value, options, origins, tensors

INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "long", "int", "short")
FLOATS = ("float32", "float64", "float16", "bfloat16", "float", "half", "double")
#: Buffers that tell captured code which rows count.
MASKS = ("mask", "valid", "len", "slot", "pos", "keep", "count", "num", "active", "live", "pad", "used", "size")
REDUCTIONS = frozenset({
    "mean", "sum", "max", "min", "amax", "amin", "std", "var", "norm", "softmax", "log_softmax", "cumsum", "cumprod",
    "sort", "argsort", "topk", "logsumexp", "any", "all", "argmax", "argmin", "prod", "median", "flip", "roll",
})  # fmt: skip
MIXING = frozenset({"bincount", "histc", "unique", "t", "mse_loss", "cross_entropy", "flatten"})
RESETS = ("zero_", "fill_")


@dataclass(frozen=True)
class Piece:
    """The part of a buffer that is written: `dim` is cut at `low` and `high` (None for an open end)."""

    dim: int
    low: Value | None
    high: Value | None
    others_full: bool


@rule("GL007", "shape-mismatch-copy", "error", "what is copied into a static input does not fill it")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    seen: set[tuple[object, int]] = set()
    for fact in region.after:
        if (
            isinstance(fact, Write)
            and fact.region is None
            and isinstance(fact.target, Tensor)
            and fact.target.storage in region.inputs
        ):
            message = refused(fact) or repeated(region, fact) or last_batch(region, fact) or cut(fact)
            if message and (fact.at, 0) not in seen:
                seen.add((fact.at, 0))
                yield _problem(region, fact, message)
    for fact in stale_tails(region):
        if (fact.at, 1) not in seen:
            seen.add((fact.at, 1))
            text = fact.text.removesuffix("()").removesuffix(".copy_").removesuffix(".fill_")
            yield _problem(
                region,
                fact,
                f"only `{text}` is written: the rest still holds an earlier batch, and the graph reads it; "
                "reset the rest too",
            )


def _problem(region: Region, fact: Write, message: str) -> Problem:
    assert isinstance(fact.target, Tensor)
    read = region.inputs[fact.target.storage]
    notes = (*region.way(read), Note(read.at, "read by the graph here"))
    return Problem(fact.at, message, notes[:5], function=fact.function)


# ------------------------------------------------------------------------------------------------- whole copies


def _copied(fact: Write) -> Tensor | None:
    """The tensor that fills the whole static input, or a slice of it, one for one."""
    if fact.how == "copy_" and isinstance(fact.source, Tensor):
        return fact.source
    return None


def refused(fact: Write) -> str:
    source, target = _copied(fact), fact.target
    if source is None or not isinstance(target, Tensor) or source.shape is None or target.shape is None:
        return ""
    wide = len(source.shape) > len(target.shape)
    pairs = zip(reversed(source.shape), reversed(target.shape), strict=False)
    if wide and source.shape[: len(source.shape) - len(target.shape)] != (1,) * (len(source.shape) - len(target.shape)):
        return "" if any(not isinstance(d, int) for d in source.shape) else _refusal(source, target)
    if any(isinstance(s, int) and isinstance(t, int) and s not in (1, t) for s, t in pairs):
        return _refusal(source, target)
    return ""


def _refusal(source: Tensor, target: Tensor) -> str:
    return (
        f"a tensor of shape {_shape(source)} does not fit into the static input of shape {_shape(target)}: "
        "`copy_` raises"
    )


def _shape(tensor: Tensor) -> str:
    return "(" + ", ".join("?" if d is None else str(d) for d in tensor.shape or ()) + ")"


def repeated(region: Region, fact: Write) -> str:
    source, target = _copied(fact), fact.target
    if source is None or not isinstance(target, Tensor) or target.view:
        return ""
    if source.shape is not None and target.shape is not None and source.shape:
        padded = (1,) * (len(target.shape) - len(source.shape)) + source.shape
        short = any(s == 1 and isinstance(t, int) and t > 1 for s, t in zip(padded, target.shape, strict=False))
        if short and not on_purpose(region, fact, source):
            return (
                f"a tensor of shape {_shape(source)} is repeated over the static input of shape {_shape(target)} "
                "without a word"
            )
    return ""


def on_purpose(region: Region, fact: Write, source: Tensor) -> bool:
    """True if a row is spread on purpose: made in the same function, and no full batch comes this way."""
    others = {
        o.source.shape
        for o in region.after
        if isinstance(o, Write) and o.at == fact.at and isinstance(o.source, Tensor)
    }
    if len(others) > 1:
        return False
    place = source.place
    return place is None or any(isinstance(f, Bind) and f.place == place and f.chain == fact.chain for f in region.life)


def last_batch(region: Region, fact: Write) -> str:
    """A batch of a loader copied whole, where the last one may be smaller."""
    if (
        fact.how != "copy_"
        or not isinstance(fact.target, Tensor)
        or fact.target.view
        or not isinstance(fact.source, Unknown)
    ):
        return ""
    loader = _loader(region, fact) if fact.source.hint.startswith("batch") else None
    if loader is None or _full_batches(loader):
        return ""
    return (
        "the last batch of this loader may be smaller: one row is repeated silently, more are refused; pass "
        "`drop_last=True` or pad"
    )


def _loader(region: Region, fact: Write) -> Instance | None:
    """The DataLoader whose batch is copied."""
    depth = len(fact.loops)
    for past in reversed([f for f in region.life if isinstance(f, Iterate) and f.order < fact.order]):
        if len(past.loops) < depth and fact.loops[: len(past.loops)] == past.loops and queries.inside(fact, past):
            for option in options(past.value):
                if isinstance(option, Instance) and option.external.endswith(".DataLoader"):
                    return option
    return None


def _full_batches(loader: Instance) -> bool:
    flag = loader.kwargs.get("drop_last")
    if flag is not None:
        return not isinstance(flag, Const) or bool(flag.value)
    size = loader.kwargs.get("batch_size", loader.args[1] if len(loader.args) > 1 else Const(1))
    if "batch_sampler" in loader.kwargs or not isinstance(size, Const) or not isinstance(size.value, int):
        return True
    data = loader.args[0] if loader.args else loader.kwargs.get("dataset")
    rows = [t.shape[0] for t in tensors(data, 2) if t.shape] if data is not None else []
    if isinstance(data, Instance):
        rows += [t.shape[0] for a in data.args for t in tensors(a, 1) if t.shape]
    known = [r for r in rows if isinstance(r, int)]
    return not known or size.value < 2 or known[0] % size.value == 0


def cut(fact: Write) -> str:
    source, target = _copied(fact), fact.target
    if source is None and fact.how == "setitem" and isinstance(fact.source, Tensor):
        source = fact.source
    if source is None or not isinstance(target, Tensor):
        return ""
    if (source.dtype or "").removeprefix("torch.") in FLOATS and (target.dtype or "").removeprefix(
        "torch."
    ) in INTEGERS:
        return (
            f"a {source.dtype} tensor is copied into a static input of {target.dtype}: the fractions are cut off "
            "silently"
        )
    return ""


# ------------------------------------------------------------------------------------------------- partial writes


def stale_tails(region: Region) -> Iterator[Write]:
    """Head writes whose rest is neither reset nor masked before the replay."""
    interval: list[Write] = []
    views = [f for f in region.life if isinstance(f, Index) or (isinstance(f, Op) and f.name == "Tensor.narrow")]
    for fact in region.after:
        if isinstance(fact, Replay) and region in fact.replayed:
            yield from _stale(region, interval, views, fact)
            interval = []
        elif isinstance(fact, Write) and fact.region is None and isinstance(fact.target, Tensor):
            interval.append(fact)


def _stale(region: Region, interval: list[Write], views: list[Index | Op], replay: Replay) -> Iterator[Write]:
    pieces = [(w, piece(w, views)) for w in interval]
    for write, part in pieces:
        assert isinstance(write.target, Tensor)
        storage = write.target.storage
        if part is None or part.low is not None or part.high is None or storage not in region.inputs:
            continue
        if isinstance(part.high, Const) and not origins(part.high):
            continue  # a number written out: these rows are meant
        if write.how == "zero_":
            continue  # clears what was used before
        if not read_in_sight(region, write):
            continue
        whole = _base(write, views)
        if _fills(part, whole) or reset(storage, part, pieces) or read_only_there(region, write, part, whole):
            continue
        if masked(region, write, pieces) or rows_apart(region, storage, part, replay):
            continue
        yield write


def read_in_sight(region: Region, write: Write) -> bool:
    """False if captured work only hands the buffer to calls that were not followed, whose masks are unknown, or reads
    other parts of the memory that it is a part of."""
    assert isinstance(write.target, Tensor)
    storage, view = write.target.storage, write.target.view if write.how == "setitem" else None
    return any(
        tensor.storage is storage and (view is None or tensor.view in (None, view))
        for fact in region.captured
        if not isinstance(fact, Unfollowed) and not (isinstance(fact, Op) and fact.name == "torch.compile.call")
        for value in queries.operands(fact)
        for tensor in tensors(value, 2)
    )


def _base(write: Write, views: list[Index | Op]) -> Tensor:
    """The tensor that a written view is a slice of."""
    assert isinstance(write.target, Tensor)
    if write.how == "setitem":
        return write.target
    view = _view_of(write, views)
    base = view.receiver if isinstance(view, Op) else view.base if view is not None else None
    return base if isinstance(base, Tensor) else write.target


def _view_of(write: Write, views: list[Index | Op]) -> Index | Op | None:
    target = write.target
    assert isinstance(target, Tensor)
    for view in reversed([v for v in views if v.order < write.order]):
        if (
            isinstance(view.result, Tensor)
            and view.result.storage is target.storage
            and view.result.view == target.view
        ):
            return view
    return None


def piece(write: Write, views: list[Index | Op]) -> Piece | None:
    """Which part of its buffer a write covers; None if it cannot be told, dim -1 for the whole."""
    assert isinstance(write.target, Tensor)
    if write.how == "setitem":
        index = write.index
    elif write.target.view is None:
        return Piece(-1, None, None, True)
    else:
        view = _view_of(write, views)
        if isinstance(view, Op):
            return narrowed(view)
        index = view.index if view is not None else None
    if write.how not in ("copy_", "setitem", "zero_", "fill_", "out=", "normal_", "uniform_", "+=") or index is None:
        return None
    parts = index.items if isinstance(index, Sequence) and index.kind == "tuple" else [index]
    found: Piece | None = None
    full = True
    for dim, part in enumerate(parts):
        if isinstance(part, Sequence) and part.kind == "slice":
            low, high = (None if isinstance(p, Const) and p.value is None else p for p in part.items[:2])
            if low is None and high is None:
                continue
            if isinstance(low, Const) and low.value == 0:
                low = None
            if found is not None:
                return None
            found = Piece(dim, low, high, True)
        elif isinstance(part, Const) and part.value is Ellipsis:
            continue
        else:
            full = False
    if found is None:
        return Piece(-1, None, None, full) if full else None
    return Piece(found.dim, found.low, found.high, full)


def narrowed(view: Op) -> Piece | None:
    """The piece that `x.narrow(dim, start, length)` is, if it starts at the front."""
    dim, start, length = (view.argument(i, n) for i, n in enumerate(("dim", "start", "length")))
    if not (isinstance(dim, Const) and isinstance(dim.value, int) and isinstance(start, Const) and start.value == 0):
        return None
    return Piece(dim.value, None, length, True)


def same(left: Value | None, right: Value | None) -> bool:
    if isinstance(left, Const) and isinstance(right, Const):
        return bool(left.value == right.value)
    if isinstance(left, Host) and isinstance(right, Host) and left.symbol and left.symbol == right.symbol:
        return True
    return left is not None and right is not None and bool(origins(left) & origins(right))


def _fills(part: Piece, whole: Tensor) -> bool:
    """True if the head is known to be all of the buffer."""
    if whole.shape is None or part.dim >= len(whole.shape):
        return False
    size = whole.shape[part.dim]
    if isinstance(part.high, Const) and isinstance(part.high.value, int) and isinstance(size, int):
        return part.high.value >= size or part.high.value < 0
    return isinstance(part.high, Host) and part.high.symbol is not None and part.high.symbol == size


def reset(storage: Storage, part: Piece, pieces: list[tuple[Write, Piece | None]]) -> bool:
    for write, other in pieces:
        if not isinstance(write.target, Tensor) or write.target.storage is not storage or other is None:
            continue
        if other.dim == -1 and other.others_full:
            return True
        if (
            other.dim == part.dim
            and other.low is not None
            and other.high is None
            and other.others_full
            and same(other.low, part.high)
        ):
            return True
    return False


def read_only_there(region: Region, write: Write, part: Piece, whole: Tensor) -> bool:
    """True if captured code reads no more of the buffer than the head that is written."""
    assert isinstance(write.target, Tensor)
    storage = write.target.storage
    written = (
        write.target.shape[part.dim]
        if write.how != "setitem" and write.target.shape and len(write.target.shape) > part.dim
        else None
    )
    if written is None and isinstance(part.high, Const):
        written = part.high.value  # type: ignore[assignment]
    reads = [
        f for f in region.captured if isinstance(f, Index) and isinstance(f.base, Tensor) and f.base.storage is storage
    ]
    others = [
        t
        for f in region.captured
        if not isinstance(f, Index)
        for v in queries.operands(f)
        for t in tensors(v, 1)
        if t.storage is storage and not t.view
    ]
    if others or not reads:
        return False
    for read in reads:
        if read.base is not None and isinstance(read.base, Tensor) and read.base.view:
            continue
        head = read.index.items if isinstance(read.index, Sequence) and read.index.kind == "tuple" else [read.index]
        if part.dim >= len(head):
            return False
        cut_at = head[part.dim]
        if not (isinstance(cut_at, Sequence) and cut_at.kind == "slice"):
            return False
        low, high = cut_at.items[:2]
        if not (isinstance(low, Const) and low.value in (None, 0)):
            return False
        if isinstance(high, Const) and isinstance(high.value, int) and isinstance(written, int):
            if high.value > written:
                return False
        elif not same(high, part.high) and isinstance(high, Const):
            # A graph for a size that is known, a batch whose size is not.
            return _chosen_by_size(region, part)
    return True


def _chosen_by_size(region: Region, part: Piece) -> bool:
    """True if the graph that runs was looked up by the size that is written."""
    return any(isinstance(f, Replay) and region in f.replayed and len(f.replayed) > 1 for f in region.after)


def masked(region: Region, write: Write, pieces: list[tuple[Write, Piece | None]]) -> bool:
    """True if a mask, length or slot buffer of the same batch is reset, and the graph reads it."""
    assert isinstance(write.target, Tensor)
    for other, part in pieces:
        target = other.target
        if (
            not isinstance(target, Tensor)
            or target.storage is write.target.storage
            or target.storage not in region.inputs
        ):
            continue
        name = (other.text.rpartition(".")[0] if other.how != "setitem" else other.text).lower()
        mask_like = any(word in name for word in MASKS) or (target.dtype or "").endswith("bool")
        if part is None or not (mask_like or gates(region, target.storage, write.target.storage)):
            continue
        tail = part.dim == -1 or (part.low is not None and part.high is None) or reset(target.storage, part, pieces)
        if tail and part.others_full and (part.dim != -1 or other.how in ("copy_", *RESETS)):
            return True
    return False


def gates(region: Region, mask: Storage, data: Storage) -> bool:
    """True if captured work multiplies or fills the data by the mask."""
    first, second = {mask}, {data}
    for fact in region.captured:
        used = {s for v in queries.operands(fact) for s in queries.storages(v, 1)}
        multiplies = isinstance(fact, Operator) and fact.op in ("*", "&")
        last = fact.name.rpartition(".")[2].rstrip("_") if isinstance(fact, Op) else ""
        if (multiplies or last == "mul") and used & first and used & second:
            return True
        if isinstance(fact, Op) and last in ("masked_fill", "where"):
            condition = queries.storages(fact.args[0] if fact.args else None, 1)
            if condition & first and (used - condition) & second:
                return True
        if mixes(fact, second):
            return False  # too late: stale rows are in the others by now
        made = queries.storages(queries.result(fact), 2)
        for group in (first, second):
            if used & group:
                group |= made
    return False


def rows_apart(region: Region, storage: Storage, part: Piece, replay: Replay) -> bool:
    """True if captured work keeps the rows apart, and no more than the head of the results is used."""
    if part.dim != 0:
        return False
    derived = {storage}
    for fact in region.captured:
        if mixes(fact, derived):
            return False
        if any(derived & queries.storages(v, 1) for v in queries.operands(fact)):
            derived |= queries.storages(queries.result(fact), 2)
    outs = derived - {storage}
    for fact in region.after:
        if fact.region is not None or fact.order < replay.order:
            continue
        if isinstance(fact, Replay):
            break
        for value in queries.operands(fact):
            for tensor in tensors(value, 1):
                if tensor.storage in outs and not isinstance(fact, Index) and not tensor.view and _uses(fact):
                    return False
    return True


def _uses(fact: Fact) -> bool:
    return not (isinstance(fact, Op) and fact.name.rpartition(".")[2] in ("size", "dim", "numel"))


def mixes(fact: Fact, derived: set[Storage]) -> bool:
    """True if rows of derived tensors meet at `fact`."""
    if isinstance(fact, Write) and fact.index is not None and derived & queries.storages(fact.index, 2):
        return True
    if isinstance(fact, Operator) and fact.op == "@" and len(fact.operands) > 1:
        return bool(derived & queries.storages(fact.operands[1], 1))
    if not isinstance(fact, Op) or not any(derived & queries.storages(v, 1) for v in queries.operands(fact)):
        return False
    last = fact.name.removesuffix(".forward").rpartition(".")[2]
    if last in MIXING or last.startswith(("scatter", "index_add", "index_copy", "index_put")):
        return True
    if last.startswith("BatchNorm"):
        training = fact.receiver.attrs.get("training") if isinstance(fact.receiver, Instance) else None
        return not (isinstance(training, Const) and not training.value)
    if last.rstrip("_") not in REDUCTIONS:
        return False
    if last in ("max", "min") and fact.receiver is not None and fact.args and tensors(fact.args[0], 0):
        return False
    position = 0 if fact.receiver is not None else 1
    dim = fact.argument(position, "dim")
    dims = dim.items if isinstance(dim, Sequence) else [dim]
    source = fact.receiver if fact.receiver is not None else fact.args[0] if fact.args else None
    rank = len(source.shape) if isinstance(source, Tensor) and source.shape is not None else None
    for one in dims:
        if one is None or not isinstance(one, Const):
            return one is None
        if (
            one.value is None
            or one.value == 0
            or (isinstance(one.value, int) and rank is not None and one.value + rank == 0)
        ):
            return True
    return False
