"""Arguments that must be Python numbers: a CUDA tensor given there is read on the host, one `.item()` each.

Source: measured on an NVIDIA H200, torch 2.11, 2026-11-29 (`torch.full(size, t)`, `arange(t)`, `alpha=t`, `beta=t`,
`dropout(p=t)`, `view(t, -1)`, `repeat(t)`, `expand(t)`, `narrow(x, 0, t, n)` failed; `clamp(max=t)`, `x ** t`,
`lerp(x, y, t)`, `fill_(t)` and `where(m, t, x)` take tensors and were fine).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphlint.knowledge.words import words
from graphlint.value import Sequence as SequenceValue
from graphlint.value import Tensor, Value, options

#: Keyword arguments that are numbers in every function that has them.
NUMBER_KEYWORDS = frozenset(
    words("""
        alpha beta p eps momentum dropout_p scale negative_slope label_smoothing delta fill_value steps num_classes
        output_size size_average lambd start end step k dim diagonal shifts max_norm min_val max_val ord correction
        minlength bins num_samples
    """)
)
#: Of those, the ones that some functions take as tensors.
_TENSOR_KEYWORDS = {
    "scale": frozenset({"normal", "fake_quantize_per_tensor_affine", "quantize_per_tensor"}),
    "end": frozenset({"lerp"}),
    "p": frozenset({"bernoulli", "bernoulli_"}),
    "start": frozenset(),
    "momentum": frozenset(),
}
#: Functions whose operands from the given position on are sizes or numbers (operand 0 is the tensor of a method).
NUMBERS_FROM: dict[str, int] = {
    **dict.fromkeys(
        words("""
        arange linspace logspace eye randperm zeros ones empty rand randn range
    """),
        0,
    ),
    **dict.fromkeys(
        words("""
        view reshape expand repeat tile new_zeros new_ones new_empty narrow permute topk chunk split unfold roll
        unsqueeze transpose select pad uniform_ normal_ exponential_ random_ geometric_ kthvalue tril triu dropout
        dropout1d dropout2d dropout3d alpha_dropout leaky_relu elu softplus hardtanh unflatten cumsum resize_
        as_strided
    """),
        1,
    ),
    "full": 0,
    "full_like": 1,
    "new_full": 1,
    "randint": 0,
}
#: These are factories only under `torch.`, and only there do their first operands count.
_FACTORY_NAMES = frozenset(k for k, v in NUMBERS_FROM.items() if v == 0) | {"full", "full_like"}
#: What the numbers are, for the message.
SPELLED = {"view": "a size", "reshape": "a size", "expand": "a size", "repeat": "a size", "tile": "a size"}


def read(name: str, operands: Sequence[Value], kwargs: Mapping[str, Value]) -> tuple[str, bool] | None:
    """(what is read, whether it is certainly a CUDA tensor) if a tensor is given where a Python number belongs."""
    module, _, last = name.rpartition(".")
    if not (name.startswith(("torch.", "Tensor."))):
        return None
    doubtful: tuple[str, bool] | None = None
    for keyword, value in kwargs.items():
        if (
            keyword in NUMBER_KEYWORDS
            and last not in _TENSOR_KEYWORDS.get(keyword, ())
            and not module.endswith("optim")
        ):
            state = _device(value)
            if state:
                return f"reads the CUDA tensor given as `{keyword}=` on the host", True
            if state is None:
                doubtful = f"reads the tensor given as `{keyword}=` on the host", False
    if last == "value" or last.startswith(("addcmul", "addcdiv")):
        state = _device(kwargs.get("value"))
        if state:
            return "reads the CUDA tensor given as `value=` on the host", True
    start = NUMBERS_FROM.get(last)
    if start is None or (last in _FACTORY_NAMES and module != "torch"):
        return doubtful
    for operand in operands[start:]:
        parts = operand.items if isinstance(operand, SequenceValue) else [operand]
        for part in parts:
            if _device(part):
                what = SPELLED.get(last, "a number")
                return f"takes {what}, so a CUDA tensor given there is read on the host", True
    return doubtful


def _device(value: Value | None) -> bool | None:
    """True for a CUDA tensor, None for a tensor of unknown device, False otherwise."""
    if value is None:
        return False
    found = [o for o in options(value) if isinstance(o, Tensor)]
    if any(t.device == "cuda" for t in found):
        return True
    return None if found and all(t.device == "?" and t.sure for t in found) else False
