"""Static inputs of which only the head is written: the rest holds an earlier batch, and the graph reads it.

A tail does no harm if it is reset, if a mask that is written as well tells the graph to skip it, if the graph reads no
more than the head, or if its rows meet no others and their results are not used.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Branch, Fact, Index, Op, Operator, Replay, Unfollowed, Write
from graphlint.region import Region
from graphlint.value import Const, Host, Instance, Sequence, Storage, Tensor, Value, origins, tensors

from .pieces import Piece, fills, may_fill, piece, same, whole_of

#: Buffers that tell captured code which rows count.
MASKS = ("mask", "valid", "len", "slot", "pos", "keep", "count", "num", "active", "live", "pad", "used", "size")
REDUCTIONS = frozenset({
    "mean", "sum", "max", "min", "amax", "amin", "std", "var", "norm", "softmax", "log_softmax", "cumsum", "cumprod",
    "sort", "argsort", "topk", "logsumexp", "any", "all", "argmax", "argmin", "prod", "median", "flip", "roll",
})  # fmt: skip
MIXING = frozenset({"bincount", "histc", "unique", "t", "mse_loss", "cross_entropy", "flatten"})
RESETS = ("zero_", "fill_")


def stale_tails(region: Region) -> Iterator[Write]:
    """Head writes whose rest is neither reset nor masked before the replay."""
    interval: list[Write] = []
    asked: list[Branch] = []
    views = [f for f in region.life if isinstance(f, Index) or (isinstance(f, Op) and f.name == "Tensor.narrow")]
    for fact in region.after:
        if isinstance(fact, Replay) and region in fact.replayed:
            yield from _stale(region, interval, asked, views, fact)
            interval, asked = [], []
        elif isinstance(fact, Branch) and fact.region is None:
            asked.append(fact)
        elif isinstance(fact, Write) and fact.region is None and isinstance(fact.target, Tensor):
            interval.append(fact)


def _stale(
    region: Region, interval: list[Write], asked: list[Branch], views: list[Index | Op], replay: Replay
) -> Iterator[Write]:
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
        if any(_head_of(later, other, storage, part) for later, other in pieces if later.order > write.order):
            continue  # the head is written once more before this replay: the other was for another graph
        if not read_in_sight(region, write):
            continue
        whole = whole_of(write, views)
        if fills(part, whole) or reset(storage, part, pieces) or read_only_there(region, write, part, whole):
            continue
        if may_fill(write, part, whole, asked):
            continue
        if masked(region, write, pieces) or rows_apart(region, storage, part, replay):
            continue
        yield write


def _head_of(write: Write, part: Piece | None, storage: Storage, earlier: Piece) -> bool:
    """True for a write to the head of the same memory."""
    same_memory = isinstance(write.target, Tensor) and write.target.storage is storage
    return same_memory and part is not None and part.dim == earlier.dim and part.low is None and write.how != "zero_"


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


def reset(storage: Storage, part: Piece, pieces: list[tuple[Write, Piece | None]]) -> bool:
    for write, other in pieces:
        if not isinstance(write.target, Tensor) or write.target.storage is not storage or other is None:
            continue
        if other.dim == -1 and other.others_full:
            return True
        if (
            other.dim == part.dim
            and other.low is not None
            and (other.high is None or not _a_few_more(other.low, other.high))
            and other.others_full
            and not _apart(other.low, part.high)
        ):
            return True
    return False


def _apart(low: Value, high: Value | None) -> bool:
    """True if what is reset certainly does not begin where what was written ends: sizes go by many names."""
    return isinstance(low, Const) and isinstance(high, Const) and not same(low, high)


def _a_few_more(low: Value, high: Value) -> bool:
    """True for `x[n : n + 1]`. Any other end is the size that the batch is filled up to."""
    if isinstance(low, Const) and isinstance(high, Const):
        return isinstance(low.value, int) and high.value == low.value + 1 and origins(low) <= origins(high)
    start = low.symbol if isinstance(low, Host) else None
    return start is not None and isinstance(high, Host) and (high.symbol or "").startswith(f"({start}+")


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
    if part.dim != 0 and not _picked_first(region, storage, part.dim):
        return False
    derived = {storage}
    for fact in region.captured:
        if mixes(fact, derived):
            return False
        if isinstance(fact, Write) and fact.target is not None:
            target = queries.storages(fact.target, 0)
            if storage in target or not derived & queries.storages(fact.source, 1):
                continue
            derived |= target
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


def _picked_first(region: Region, storage: Storage, dims: int) -> bool:
    """True if captured work takes one entry of each of the first `dims` dims: what it has are rows from there on."""
    reads = [
        f.index
        for f in region.captured
        if isinstance(f, Index) and storage in queries.storages(f.base, 0) and _whole(f.base)
    ]
    for index in reads:
        first = index.items[:dims] if isinstance(index, Sequence) and index.kind == "tuple" else [index]
        if len(first) < dims or not all(
            isinstance(i, Host) or isinstance(getattr(i, "value", None), int) for i in first
        ):
            return False
    return bool(reads)


def _whole(base: Value) -> bool:
    return isinstance(base, Tensor) and base.view is None


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
