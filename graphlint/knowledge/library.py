"""torch's own Python code that reads the device: layers, distributions and scalers whose calls look harmless.

Source: torch/distributions, torch/nn/modules, torch/amp of 2.11 to 2.14; each was captured on an NVIDIA H200,
torch 2.11, 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphlint.knowledge.forms import Call, is_none, is_true, on_gpu
from graphlint.knowledge.operators import Behaviour, judge
from graphlint.value import Const, Instance, Tensor, Unknown, Value, options

_DISTRIBUTIONS = "torch.distributions."
#: Methods that validate their argument.
_VALIDATED = frozenset({"log_prob", "cdf", "icdf"})
#: Distributions that draw with `torch.normal(mean, std)`, which checks std on the host up to torch 2.13.
_NORMAL_DRAWS = frozenset({"Normal", "LogNormal"})
#: Names under torch.distributions that are no distributions.
_NO_DISTRIBUTION = frozenset({"Transform", "Distribution", "ComposeTransform", "AffineTransform", "TanhTransform"})

_BATCH_NORMS = ("torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d", "torch.nn.SyncBatchNorm")

#: Modules whose forward is a function that operators.judge knows.
_FORWARDS = {
    "torch.nn.CTCLoss.forward": "torch.nn.functional.ctc_loss",
    "torch.nn.GaussianNLLLoss.forward": "torch.nn.functional.gaussian_nll_loss",
}


def judge_library(
    name: str, receiver: Value | None, args: Sequence[Value], kwargs: Mapping[str, Value], validates: bool = True
) -> Behaviour | None:
    """What a call into torch's Python code does under capture, or None.

    `validates` is False where `Distribution.set_default_validate_args(False)` was called before.
    """
    if name.startswith(_DISTRIBUTIONS):
        return _distribution(name, receiver, args, kwargs, validates)
    if name.endswith(".forward") and isinstance(receiver, Instance):
        return _module(name, receiver, args, kwargs)
    if name in ("torch.amp.GradScaler.get_scale", "torch.amp.GradScaler.state_dict"):
        return Behaviour("host-sync", "reads the scale with `.item()`", "read it after the replay")
    if name == "torch.nn.utils.rnn.pack_padded_sequence" and is_false(
        Call(name, tuple(args), kwargs).get(3, "enforce_sorted")
    ):
        return Behaviour("host-copy", "copies the sorted order to the GPU", "sort the batch before the capture")
    return None


def is_false(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is False


def _distribution(
    name: str, receiver: Value | None, args: Sequence[Value], kwargs: Mapping[str, Value], validates: bool
) -> Behaviour | None:
    rest = name.removeprefix(_DISTRIBUTIONS)
    cls, _, method = rest.partition(".")
    if cls in _NO_DISTRIBUTION or cls.islower() or cls.endswith("Transform"):
        return None
    advice = "pass `validate_args=False`"
    if not method:
        on = _gpu_parts([*args, *kwargs.values()])
        if on is False or is_none_or_false(kwargs.get("validate_args"), validates):
            return _cholesky(cls, kwargs, args) if on is not False else None
        return Behaviour("host-sync", "validates its arguments on the host", advice, sure=on is True)
    if not isinstance(receiver, Instance):
        return None
    on = _gpu_parts([*receiver.args, *receiver.kwargs.values()])
    if on is False:
        return None
    if method in _VALIDATED and not is_none_or_false(receiver.kwargs.get("validate_args"), validates):
        return Behaviour("host-sync", "validates its argument on the host", advice, sure=on is True)
    if method == "sample" and cls in _NORMAL_DRAWS:
        return Behaviour(
            "host-sync",
            "checks its scale on the host (up to torch 2.13)",
            "use `rsample()`, or `mean + std * torch.randn_like(mean)`",
            sure=on is True,
            until=(2, 14),
        )
    return None


def _cholesky(cls: str, kwargs: Mapping[str, Value], args: Sequence[Value]) -> Behaviour | None:
    if cls == "MultivariateNormal" and ({"covariance_matrix", "precision_matrix"} & set(kwargs) or len(args) > 1):
        return Behaviour("host-sync", "factors its covariance, which is checked on the host", "pass `scale_tril=`")
    return None


def is_none_or_false(value: Value | None, validates: bool) -> bool:
    """Whether validation is off: `validate_args=False`, or nothing given where the default is off."""
    if is_none(value):
        return not validates
    return is_false(value)


def _gpu_parts(values: Sequence[Value]) -> bool | None:
    """Whether a CUDA tensor is among a distribution's parameters, those of inner distributions too."""
    answer: bool | None = False
    for value in values:
        for option in options(value):
            if isinstance(option, Instance) and option.external.startswith(_DISTRIBUTIONS):
                part = _gpu_parts([*option.args, *option.kwargs.values()])
            elif isinstance(option, Tensor):
                part = on_gpu(option)
            else:
                part = None if isinstance(option, Unknown) else False
            if part is True:
                return True
            answer = None if part is None else answer
    return answer


def _module(name: str, module: Instance, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Behaviour | None:
    cls = name.removesuffix(".forward")
    if name in _FORWARDS:
        return judge(_FORWARDS[name], None, args, kwargs)
    evaluating = is_false(module.attrs.get("training"))
    if cls in _BATCH_NORMS and not evaluating:
        momentum = module.kwargs.get("momentum", module.args[2] if len(module.args) > 2 else Const(0.1))
        if is_none(momentum) and not is_false(module.kwargs.get("track_running_stats")):
            return Behaviour(
                "host-sync", "with `momentum=None` reads its batch count on the host", "give it a momentum"
            )
    call = Call(name, tuple(args), kwargs)
    if cls == "torch.nn.TransformerEncoder":
        return _detects_causal(call.get(1, "mask"), kwargs.get("is_causal", call.get(3, "is_causal")))
    if cls == "torch.nn.TransformerDecoder":
        return _detects_causal(call.get(2, "tgt_mask"), call.get(6, "tgt_is_causal"))
    if cls == "torch.nn.Transformer":
        return _detects_causal(call.get(2, "src_mask"), kwargs.get("src_is_causal")) or _detects_causal(
            call.get(3, "tgt_mask"), kwargs.get("tgt_is_causal")
        )
    if cls == "torch.nn.AdaptiveLogSoftmaxWithLoss":
        return Behaviour("host-sync", "compares its targets on the host", "compute it outside the graph")
    return None


def _detects_causal(mask: Value | None, causal: Value | None) -> Behaviour | None:
    if is_none(mask) or not is_none(causal):
        return None
    why = "compares its mask with a causal one on the host"
    return Behaviour("host-sync", why, "pass `is_causal=` yourself", sure=on_gpu(mask) is True)


def turns_validation_off(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a call switches the validation of all distributions off."""
    if not name.startswith(_DISTRIBUTIONS) or not name.endswith("set_default_validate_args"):
        return False
    return is_true(args[0] if args else kwargs.get("value")) is False
