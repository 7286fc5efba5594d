"""A copy into a static input that does not fit: refused, repeated over it, cut to its dtype, or short of it."""

from __future__ import annotations

from graphlint import queries
from graphlint.fact import Bind, Iterate, Write
from graphlint.region import Region
from graphlint.value import Const, Instance, Tensor, Unknown, options, tensors

INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "long", "int", "short")
FLOATS = ("float32", "float64", "float16", "bfloat16", "float", "half", "double")


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
