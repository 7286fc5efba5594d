"""A copy into a static input that does not fit: refused, repeated over it, cut to its dtype, or short of it."""

from __future__ import annotations

from graphlint import batches, queries
from graphlint.fact import Bind, Op, Write
from graphlint.region import Region
from graphlint.value import Tensor

INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "long", "int", "short")
FLOATS = ("float32", "float64", "float16", "bfloat16", "float", "half", "double")


def _copied(fact: Write) -> Tensor | None:
    """The tensor that fills the whole static input, or a slice of it, one for one. Of several inputs and several
    tensors nobody knows which go together."""
    if not fact.chosen and fact.how == "copy_" and isinstance(fact.source, Tensor):
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
        # Nobody gives a graphed callable a row to get a batch out.
        if short and (region.kind == "graphed-callables" or not on_purpose(region, fact, source)):
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
    if fact.how != "copy_" or not isinstance(fact.target, Tensor) or fact.target.view or fact.source is None:
        return ""
    if not batches.smaller_last(region, fact, fact.source):
        return ""
    return (
        "the last batch of this loader may be smaller: one row is repeated silently, more are refused; pass "
        "`drop_last=True` or pad"
    )


def _of_python_numbers(region: Region, source: Tensor) -> bool:
    """True for `torch.Tensor([...])`, which makes floats of whatever numbers it gets: lengths and indices mostly."""
    return any(
        isinstance(f, Op)
        and f.name in ("torch.Tensor", "torch.FloatTensor")
        and source.storage in queries.storages(f.result, 0)
        for f in region.life
    )


def cut(region: Region, fact: Write) -> str:
    source, target = _copied(fact), fact.target
    if source is None and not fact.chosen and fact.how == "setitem" and isinstance(fact.source, Tensor):
        source = fact.source
    if source is None or not isinstance(target, Tensor):
        return ""
    if (
        (source.dtype or "").removeprefix("torch.") in FLOATS
        and (target.dtype or "").removeprefix("torch.") in INTEGERS
        and not _of_python_numbers(region, source)
    ):
        return (
            f"a {source.dtype} tensor is copied into a static input of {target.dtype}: the fractions are cut off "
            "silently"
        )
    return ""
