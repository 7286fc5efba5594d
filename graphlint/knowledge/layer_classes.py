"""Which layers of torch.nn are kinds of which others.

Source: the classes of `torch.nn` in torch 2.11 to 2.14; all others derive from `torch.nn.Module` alone, as far as a
program can name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MODULE = "torch.nn.Module"
_LAYER = re.compile(r"torch\.nn\.[A-Z]\w*$")
_NEUTRAL = ("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol")
_PARENTS = {
    "GRU": "RNNBase", "LSTM": "RNNBase", "RNN": "RNNBase", "GRUCell": "RNNCellBase", "LSTMCell": "RNNCellBase",
    "RNNCell": "RNNCellBase", "LazyLinear": "Linear", "NLLLoss2d": "NLLLoss", "ReLU6": "Hardtanh",
    "UpsamplingBilinear2d": "Upsample", "UpsamplingNearest2d": "Upsample",
    **{f"Lazy{kind}{n}d": f"{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"ZeroPad{n}d": f"ConstantPad{n}d" for n in (1, 2, 3)},
}  # fmt: skip


def is_layer(bases: Iterable[str], kind: str) -> bool | None:
    """Whether an object whose class is, or derives from, these classes of packages is a `kind`; None if that cannot be
    told."""
    answers = {_derives(base, kind) for base in bases}
    return True if True in answers else None if None in answers or not answers else False


def _derives(name: str, kind: str) -> bool | None:
    if name == kind:
        return True
    if name in _NEUTRAL:
        return False
    if not (_LAYER.match(name) and _LAYER.match(kind)):
        return None
    return kind == MODULE or f"torch.nn.{_PARENTS.get(name.rpartition('.')[2], '')}" == kind
