"""RMSNorm as one Triton kernel each way, for use inside a captured graph.

Triton compiles a kernel at its first launch for a shape, which no capture allows: like everything else it needs one
warm-up call. Without Triton, or without a GPU under it, the same function is computed by torch.

    y = x / sqrt(mean(x^2) + eps) * w            rows of width n, the statistics in float32
    dx = r * (dy * w - x * r^2 * mean(dy * w * x)),  dw = sum over rows of dy * x * r,  r = 1 / sqrt(mean(x^2) + eps)
"""

from __future__ import annotations

import types

import torch
from transformers import Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton is not None:

    @triton.jit
    def _forward_kernel(x, w, y, rstd, n, eps, block: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, block)
        inside = at < n
        value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / n + eps)
        tl.store(rstd + row, scale)
        weight = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + row * n + at, (value * scale * weight).to(y.dtype.element_ty), mask=inside)

    @triton.jit
    def _backward_kernel(dy, x, w, rstd, dx, dw, n, rows, rows_each, block: tl.constexpr):
        program = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, block)
        inside = at < n
        weight = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
        total = tl.zeros((block,), dtype=tl.float32)
        for row in range(program * rows_each, tl.minimum((program + 1) * rows_each, rows)):
            value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
            grad = tl.load(dy + row * n + at, mask=inside, other=0.0).to(tl.float32)
            scale = tl.load(rstd + row)
            through = grad * weight
            shared = tl.sum(through * value, axis=0) / n * scale * scale
            tl.store(dx + row * n + at, (scale * (through - value * shared)).to(dx.dtype.element_ty), mask=inside)
            total += grad * value * scale
        tl.store(dw + program * n + at, total, mask=inside)


# One row of partial weight gradients per program: enough programs to fill the GPU, few enough to sum cheaply.
PROGRAMS = 264


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
        flat = x.contiguous().view(-1, x.shape[-1])
        rows, n = flat.shape
        y = torch.empty_like(flat)
        rstd = torch.empty(rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n)
        warps = max(1, min(8, block // 512))
        _forward_kernel[(rows,)](flat, w, y, rstd, n, eps, block=block, num_warps=warps)
        ctx.save_for_backward(flat, w, rstd)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, dy: torch.Tensor):
        flat, w, rstd = ctx.saved_tensors
        rows, n = flat.shape
        dy_flat = dy.contiguous().view(rows, n)
        dx = torch.empty_like(flat)
        programs = min(rows, PROGRAMS)
        rows_each = triton.cdiv(rows, programs)
        partial = torch.zeros(programs, n, dtype=torch.float32, device=dy.device)
        block = triton.next_power_of_2(n)
        warps = max(1, min(8, block // 512))
        _backward_kernel[(programs,)](
            dy_flat, flat, w, rstd, dx, partial, n, rows, rows_each, block=block, num_warps=warps
        )
        return dx.view(dy.shape), partial.sum(0).to(w.dtype), None


def reference_rmsnorm(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    """What the kernel computes, by torch operations; the width of `x` is its last dimension."""
    value = x.float()
    value = value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + eps)
    return (value * w.float()).to(x.dtype)


def rmsnorm(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last dimension: the Triton kernel where it can run, else torch."""
    if triton is None or torch.version.cuda is None or not x.is_cuda:
        return reference_rmsnorm(x, w, eps)
    return _RMSNorm.apply(x, w, eps)


def _forward(self: Qwen3RMSNorm, hidden_states: torch.Tensor) -> torch.Tensor:
    return rmsnorm(hidden_states, self.weight, self.variance_epsilon)


def use_triton_rmsnorm(model: Qwen3ForCausalLM) -> None:
    """Let every RMSNorm of the model, 4 a layer and the last one, run the kernel above."""
    for module in model.modules():
        if isinstance(module, Qwen3RMSNorm):
            module.forward = types.MethodType(_forward, module)


def use_torch_rmsnorm(model: Qwen3ForCausalLM) -> None:
    """Back to the norm that transformers has."""
    for module in model.modules():
        if isinstance(module, Qwen3RMSNorm):
            module.__dict__.pop("forward", None)
