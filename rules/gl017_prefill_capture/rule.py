"""Sequences of any length padded into one captured shape, with nothing that keeps the padding out of the result."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Fact, Index, Op, Operator, Write
from graphlint.finding import Note, Problem
from graphlint.knowledge.engines import GRAPH_SETTINGS, RENAMED_ARGUMENTS, RENAMED_SETTINGS
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import (
    Const,
    External,
    Host,
    Instance,
    Mapping,
    Sequence,
    Storage,
    Tensor,
    Value,
    options,
    origins,
    tensors,
)

_ATTENTION = ("scaled_dot_product_attention", "multi_head_attention_forward", "MultiheadAttention.forward")
_TRANSFORMERS = ("TransformerEncoder.forward", "TransformerEncoderLayer.forward", "Transformer.forward")
_REDUCES = frozenset({
    "mean", "sum", "amax", "amin", "max", "min", "logsumexp", "std", "var", "norm", "cumsum", "prod", "argmax",
})  # fmt: skip
_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "einsum", "mm"})
_MASKS = re.compile(r"mask|valid|keep|len|pos|seg|owner|weight|pad|slot|count|cu_|used|active|live|bias", re.IGNORECASE)
_SEQUENCES = r"prompt|prefill|seq|doc|context|packed|varlen|text|token"


@rule("GL017", "prefill-capture", "warning", "work of varying sequence length under one captured shape, unmasked")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "engine":
        yield from _engine(region)
    if region.kind not in places.MANUAL:
        return
    for write, dim in _partial_writes(region):
        assert isinstance(write.target, Tensor)
        storage = write.target.storage
        if not _reset(region, storage) or _masked(region, storage) or not _about_sequences(region, write, dim):
            continue
        mixed = _mixes(region, storage, dim)
        if mixed is not None:
            message = (
                "sequences of any length are padded into one captured shape, and the padding takes part in "
                f"`{_name(mixed)}`: refresh a mask with each, or leave this work eager and capture decoding only"
            )
            notes = (Note(write.at, "filled up to a varying length here"), Note(mixed.at, "positions are mixed here"))
            yield Problem(region.at, message, notes, function=region.function)
            return


def _engine(region: Region) -> Iterator[Problem]:
    """Arguments of a serving engine that are gone, or that say opposite things."""
    given = region.options
    told = given.get("compilation_config")
    settings: dict[str, Value] = {}
    if isinstance(told, Mapping):
        settings = {str(n): v for n, v in told.items.items()}
    elif isinstance(told, Instance):
        settings = dict(told.kwargs)
    own = {n: v for n, v in given.items() if n in RENAMED_SETTINGS or n in GRAPH_SETTINGS}
    settings |= own
    for name, instead in {**RENAMED_ARGUMENTS, **RENAMED_SETTINGS}.items():
        if name in (given if name in RENAMED_ARGUMENTS else settings):
            yield _argument(region, f"`{name}` is out of date: write {instead}")
            return
    asked = [n for n in GRAPH_SETTINGS if n in settings and not _off(settings[n])]
    if asked and _true(given.get("enforce_eager")):
        yield _argument(
            region, f"`enforce_eager=True` turns CUDA graphs off, so `{asked[0]}` has no effect: drop one of them"
        )
        return
    sizes = settings.get("cudagraph_capture_sizes")
    if sizes is not None and not _off(sizes) and "cudagraph_mode" in settings and _off(settings["cudagraph_mode"]):
        yield _argument(region, "`cudagraph_mode` turns CUDA graphs off, so `cudagraph_capture_sizes` has no effect")


def _argument(region: Region, message: str) -> Problem:
    return Problem(region.at, message, function=region.function)


def _true(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is True


def _off(value: Value) -> bool:
    """True for a setting that asks for no graphs."""
    if isinstance(value, Const):
        return value.value in (None, False, 0, "NONE", "none")
    if isinstance(value, External):
        return value.name.endswith(".NONE")
    return isinstance(value, Sequence) and not value.items and value.rest is None


def _name(fact: Fact) -> str:
    if isinstance(fact, Op):
        return fact.name.removesuffix(".forward").rpartition(".")[2]
    return fact.op if isinstance(fact, Operator) else "work"


def _partial_writes(region: Region) -> Iterator[tuple[Write, int]]:
    """Eager writes into the front part of an input, with the dimension that is cut at a varying length."""
    cut: dict[tuple[Storage, str | None], int] = {}
    for fact in region.after:
        if fact.region is not None:
            continue
        if isinstance(fact, Index) and isinstance(fact.base, Tensor) and fact.base.storage in region.inputs:
            dim = _varying(fact.index)
            if dim is not None and isinstance(fact.result, Tensor):
                cut[fact.base.storage, fact.result.view] = dim
        elif isinstance(fact, Write) and isinstance(fact.target, Tensor) and fact.target.storage in region.inputs:
            target = fact.target
            if fact.how == "setitem" and fact.index is not None:
                dim = _varying(fact.index)
                if dim is not None and any(isinstance(o, Tensor) for o in options(fact.source or Const(None))):
                    yield fact, dim
            elif fact.how == "copy_" and (target.storage, target.view) in cut:
                yield fact, cut[target.storage, target.view]


def _varying(index: Value) -> int | None:
    """The dimension that is cut at the front part up to a number with a name: `[:, :n]` gives 1."""
    parts = index.items if isinstance(index, Sequence) and index.kind == "tuple" else [index]
    for dim, part in enumerate(parts):
        if isinstance(part, Sequence) and part.kind == "slice" and len(part.items) == 3:
            low, high, _ = part.items
            front = isinstance(low, Const) and low.value in (None, 0)
            if front and (
                isinstance(high, Host) or (isinstance(high, Const) and high.value is not None and origins(high))
            ):
                return dim
    return None


def _reset(region: Region, storage: Storage) -> bool:
    """True if the rest is cleared: else the stale rest is the fault, and another rule's."""
    for fact in region.after:
        if isinstance(fact, Write) and fact.region is None and storage in queries.storages(fact.target, 0):
            if fact.how in ("zero_", "fill_"):
                return True
            if fact.how == "setitem" and all(isinstance(o, (Const, Host)) for o in options(fact.source or Host())):
                return True
    return False


def _masked(region: Region, storage: Storage) -> bool:
    """True if another input that may tell the real rows is refreshed too, or the captured work masks by itself."""
    for fact in region.after:
        if isinstance(fact, Write) and fact.region is None and isinstance(fact.target, Tensor):
            other = fact.target.storage
            if other is storage or other not in region.inputs or other.kind == "parameter":
                continue
            place = fact.target.place
            named = _MASKS.search(f"{place.name if place is not None else ''} {fact.text}")
            if named or fact.target.dtype in ("bool", "int64", "int32", "uint8") or fact.how in ("fill_", "setitem"):
                return True
    for captured in region.captured:
        if isinstance(captured, Op):
            last = captured.name.rpartition(".")[2]
            if last in ("masked_fill", "masked_fill_", "where", "tril", "triu"):
                return True
            for name in (
                "attn_mask",
                "key_padding_mask",
                "src_key_padding_mask",
                "is_causal",
                "mask",
                "attention_mask",
            ):
                given = captured.kwargs.get(name)
                if given is not None and not (isinstance(given, Const) and not given.value):
                    return True
    return False


def _about_sequences(region: Region, write: Write, dim: int) -> bool:
    """A batch is cut in its first dimension, a sequence in a later one, unless names say otherwise."""
    if dim >= 1:
        return True
    names = "|".join([_SEQUENCES, *(re.escape(n) for n in region.settings.prefill_names)])
    place = write.target.place
    words = f"{write.text} {place.name if place is not None else ''} {region.function} {write.function}"
    for value in (write.source, write.target):
        if isinstance(value, Tensor) and value.place is not None:
            words += f" {value.place.name}"
    return re.search(names, words, re.IGNORECASE) is not None


def _mixes(region: Region, storage: Storage, dim: int) -> Fact | None:
    """Captured work that lets one position of `storage` see another."""
    derived: set[Storage] = {storage}
    products: set[Storage] = set()
    for fact in region.captured:
        used = [t for v in queries.operands(fact) for t in tensors(v, 1) if t.storage in derived]
        if not used:
            continue
        result = queries.storages(queries.result(fact), 2)
        if isinstance(fact, Op):
            last = fact.name.rpartition(".")[2]
            if fact.name.endswith((*_ATTENTION, *_TRANSFORMERS)):
                return fact
            if last in ("softmax", "log_softmax") and any(t.storage in products for t in used):
                return fact
            if last in _REDUCES and _over(fact, dim):
                return fact
            if last in _PRODUCTS and len(used) > 1:
                products |= result
        elif isinstance(fact, Operator) and fact.op == "@" and len(used) > 1:
            products |= result
        if any(t.storage in products for t in used):
            products |= result
        derived |= {s for s in result if s.born is region}
    return None


def _over(fact: Op, dim: int) -> bool:
    """True if a reduction runs over the cut dimension, or over all."""
    axis = fact.kwargs.get("dim") or (fact.args[0] if fact.args and fact.receiver is not None else None)
    if axis is None and fact.receiver is None and len(fact.args) > 1:
        axis = fact.args[1]
    axes = axis.items if isinstance(axis, Sequence) else [axis] if axis is not None else []
    if not axes:
        return True
    subject = fact.receiver if fact.receiver is not None else fact.args[0]
    rank = len(subject.shape) if isinstance(subject, Tensor) and subject.shape is not None else None
    for one in axes:
        if (
            isinstance(one, Const)
            and isinstance(one.value, int)
            and (one.value == dim or (rank is not None and one.value + rank == dim))
        ):
            return True
    return False
