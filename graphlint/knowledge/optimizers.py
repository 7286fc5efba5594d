"""What each optimizer of torch.optim allows under capture.

Source: torch/optim of 2.11 to 2.14, and measured on an NVIDIA H200, torch 2.11, 2026-11-29: `step()` of each class in a
capture after a warm-up step, with and without `capturable=True` and `fused=True`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphlint.value import Const, Instance, Mapping, Sequence, Tensor, Value, options

Outcome = Literal["refused", "works", "frozen", "fails"]


@dataclass(frozen=True, slots=True)
class Optimizer:
    """capturable, fused: whether the constructor has the argument.

    plain: what a captured `step()` does without `capturable=True`: "refused" (RuntimeError that names `capturable`),
        "works", "frozen" (a count kept on the CPU stops) or "fails" (a host read, or an error of its own).
    amp: `GradScaler.step` needs no host read when it is fused.
    """

    capturable: bool
    fused: bool
    plain: Outcome
    amp: bool = False
    why: str = ""


OPTIMIZERS: dict[str, Optimizer] = {
    "torch.optim.Adam": Optimizer(True, True, "refused", amp=True),
    "torch.optim.AdamW": Optimizer(True, True, "refused", amp=True),
    "torch.optim.Adadelta": Optimizer(True, False, "refused"),
    "torch.optim.Adamax": Optimizer(True, False, "refused"),
    "torch.optim.ASGD": Optimizer(True, False, "refused"),
    "torch.optim.NAdam": Optimizer(True, False, "refused"),
    "torch.optim.RAdam": Optimizer(True, False, "refused"),
    "torch.optim.RMSprop": Optimizer(True, False, "refused"),
    "torch.optim.Rprop": Optimizer(True, False, "refused"),
    "torch.optim.SGD": Optimizer(False, True, "works", amp=True),
    "torch.optim.Adagrad": Optimizer(False, True, "frozen", amp=True, why="its step count lives on the CPU"),
    "torch.optim.Muon": Optimizer(False, False, "works"),
    "torch.optim.Adafactor": Optimizer(False, False, "fails", why="it has no `capturable` and raises KeyError"),
    "torch.optim.LBFGS": Optimizer(False, False, "fails", why="it reads the loss and the gradient norms on the host"),
    "torch.optim.SparseAdam": Optimizer(False, False, "fails", why="it coalesces sparse gradients, which waits"),
}

#: Positions of the learning rate among the constructor's arguments.
LR_POSITION = 1


def is_true(value: Value | None) -> bool | None:
    """True, False (or absent), or None if it is an expression that is not known."""
    if value is None:
        return False
    return bool(value.value) if isinstance(value, Const) else None


def option(optimizer: Instance, name: str) -> bool | None:
    """A boolean option of a built optimizer: its own argument, else None if param groups may set it."""
    given = is_true(optimizer.kwargs.get(name))
    if given is False and name not in optimizer.kwargs and "*" in optimizer.kwargs:
        return None
    return given


def learning_rate(optimizer: Instance) -> Value | None:
    """The learning rate that the optimizer was built with."""
    if "lr" in optimizer.kwargs:
        return optimizer.kwargs["lr"]
    return optimizer.args[LR_POSITION] if len(optimizer.args) > LR_POSITION else None


def given_groups(optimizer: Instance) -> list[Mapping]:
    """The dictionaries that the optimizer was built with, one for each group; none where it got parameters."""
    params = optimizer.args[0] if optimizer.args else optimizer.kwargs.get("params")
    if not isinstance(params, Sequence):
        return []
    every = [*params.items, *([params.rest] if params.rest is not None else [])]
    return [group for group in every if isinstance(group, Mapping)]


def groups(optimizer: Instance) -> list[Mapping]:
    """The parameter groups, as far as they are known: what somebody read as `param_groups`, or what was given."""
    known = optimizer.attrs.get("param_groups")
    if isinstance(known, Sequence):
        return [group for group in known.items if isinstance(group, Mapping)]
    return given_groups(optimizer)


def tensor_rate(optimizer: Instance) -> bool:
    """Whether the learning rate, or that of a group, is a tensor."""
    rates = [learning_rate(optimizer), *(group.items.get("lr") for group in groups(optimizer))]
    return any(isinstance(o, Tensor) for rate in rates if rate is not None for o in options(rate))


def decays(kwargs: dict[str, Value], args: tuple[Value, ...]) -> bool | None:
    """Whether an Adagrad's rate depends on its step count: `lr_decay` is not 0; None if it is not known."""
    value = kwargs.get("lr_decay", args[2] if len(args) > 2 else None)
    if value is None:
        return False
    return value.value != 0 if isinstance(value, Const) else None
