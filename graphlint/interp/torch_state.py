"""What torch itself keeps while a program runs: the default device, the current stream, gradients, switches."""

from __future__ import annotations

from typing import Any

from graphlint.fact import Bind, Context
from graphlint.histories import recording
from graphlint.interp.journal import Journal
from graphlint.interp.tape import Tape
from graphlint.queries import STREAM_BLOCKS, stream_of
from graphlint.source import Span
from graphlint.value import Const, Device, Dim, External, Instance, Place, Storage, Tensor, Value


class TorchState(Tape, Journal):
    """Tensors are made here, on the device and in the pool that are current."""

    def __init__(self, budget: int, with_capture: int, default_device: Device) -> None:
        Tape.__init__(self, budget, with_capture)
        Journal.__init__(self)
        self.epoch = 0
        self.default_device: Device = default_device
        self.default_stream = Instance(cls=External("torch.cuda.Stream"))
        self.set_stream: Value | None = None
        self.inductor_cudagraphs = False
        self.tensor_attrs: dict[int, dict[str, Value]] = {}
        self.to_differentiate: dict[int, Value] = {}
        """Contexts of custom Functions that were applied and that no backward went through yet."""
        self.gradient_hooks: dict[int, Value] = {}
        self.global_hooks: dict[int, Value] = {}
        """Handles of hooks on tensors, which a backward runs."""

    def tensor(
        self,
        span: Span | None = None,
        *,
        device: Device = "?",
        shape: tuple[Dim, ...] | None = None,
        dtype: str | None = None,
        kind: str = "fresh",
        **more: Any,
    ) -> Tensor:
        """A tensor in new memory, made here and now: by the graph's pool inside a capture."""
        self.epoch += 1
        made = self.location(span) if span is not None else None
        born = self.region if kind not in ("parameter", "unknown") else None
        pinned = bool(more.pop("pinned", False))
        storage = Storage(kind=kind, born=born, made=made, epoch=self.epoch, pinned=pinned)
        return Tensor(storage=storage, device=device, shape=shape, dtype=dtype, **more)

    def set_external(self, target: External, name: str, value: Value, span: Span) -> None:
        """`torch._inductor.config.triton.cudagraphs = True` and other switches."""
        full = f"{target.name}.{name}"
        if full in ("torch._inductor.config.triton.cudagraphs",) and isinstance(value, Const):
            self.inductor_cudagraphs = bool(value.value)
        place = Place(0, full, "global")
        self.emit(Bind, span, place=place, value=value, old=None, owner=target, text=full)

    def current_stream(self) -> Value:
        """The stream of the innermost stream block, the capture's own inside one, else the default stream."""
        if self.region is not None and self.region.kind in ("graph", "accelerator-graph"):
            begin = self.region.begin
            for context in reversed(self.contexts):
                if context.order < begin:
                    break
                if (found := _made_current(context)) is not None:
                    return found
            if self.region.stream is not None and not isinstance(self.region.stream, Const):
                return self.region.stream
            if self.region.own_stream is None:
                self.region.own_stream = Instance(cls=External("torch.cuda.Stream"))
            return self.region.own_stream
        for context in reversed(self.contexts):
            if (found := _made_current(context)) is not None:
                return found
        return self.set_stream if self.set_stream is not None else self.default_stream

    def grad_enabled(self) -> bool:
        """False inside the innermost block that turns autograd off."""
        return recording(self.contexts)

    def grad_of(self, parameter: Tensor) -> Tensor:
        attrs = self.tensor_attrs.setdefault(parameter.storage.id, {})
        grad = attrs.get("$grad")
        if not isinstance(grad, Tensor):
            grad = self.tensor(device=parameter.device, shape=parameter.shape, dtype=parameter.dtype, kind="grad")
            attrs["$grad"] = grad
        return grad

    def clear_grads(self, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            self.tensor_attrs.get(parameter.storage.id, {}).pop("$grad", None)

    def fill_grads(self) -> None:
        """A backward gives parameters a gradient again that had been set to None."""
        for attrs in self.tensor_attrs.values():
            held = attrs.get("grad")
            if isinstance(held, Const) and held.value is None:
                self.remove(attrs, "grad")


def _made_current(block: Context) -> Value | None:
    return stream_of(block) if block.name in STREAM_BLOCKS else None
