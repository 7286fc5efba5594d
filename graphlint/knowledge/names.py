"""Canonical dotted names: one spelling for each thing that torch and its neighbours offer under several.

Source: the module layout of torch 2.11 to 2.14 (`torch.cuda.__init__`, `torch.nn.modules`, `torch.optim`, `torch.amp`).
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

_EXACT = {
    "torch.amp.autocast": "torch.autocast",
    "torch.amp.autocast_mode.autocast": "torch.autocast",
    "torch.cuda.amp.autocast": "torch.autocast",
    "torch.cuda.amp.autocast_mode.autocast": "torch.autocast",
    "torch.cuda.amp.GradScaler": "torch.amp.GradScaler",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.grad_mode.no_grad": "torch.no_grad",
    "torch.autograd.grad_mode.inference_mode": "torch.inference_mode",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.nn.parameter.Parameter": "torch.nn.Parameter",
    "torch.nn.parameter.Buffer": "torch.nn.Buffer",
    "torch._tensor.Tensor": "torch.Tensor",
    "torch.random.manual_seed": "torch.manual_seed",
    "torch.random.seed": "torch.seed",
    "torch.random.get_rng_state": "torch.get_rng_state",
    "torch.random.set_rng_state": "torch.set_rng_state",
    "torch.npu.NPUGraph": "torch.cuda.CUDAGraph",
    "torch_npu.npu.NPUGraph": "torch.cuda.CUDAGraph",
    "torch.xpu.XPUGraph": "torch.xpu.XPUGraph",
    "torch._dynamo.is_compiling": "torch.compiler.is_compiling",
    "torch._dynamo.external_utils.is_compiling": "torch.compiler.is_compiling",
    "torch._dynamo.disable": "torch.compiler.disable",
    "torch.autograd.graph.set_override_stale_capture_stream": "torch.autograd.graph.set_override_stale_capture_stream",
}
_PATTERNS = (
    (re.compile(r"^torch\.(cuda|xpu|npu|musa|mlu)\.graphs\.(\w+)$"), r"torch.\1.\2"),
    (re.compile(r"^torch_npu\.npu\.(\w+)$"), r"torch.npu.\1"),
    (re.compile(r"^torch\.cuda\.(?:streams|random|memory)\.(\w+)$"), r"torch.cuda.\1"),
    (re.compile(r"^torch\.nn\.modules\.(?:\w+\.)?([A-Z]\w*)$"), r"torch.nn.\1"),
    (re.compile(r"^torch\.optim\.\w+\.([A-Z]\w*)$"), r"torch.optim.\1"),
    (re.compile(r"^torch\.functional\.(\w+)$"), r"torch.\1"),
    (re.compile(r"^torch\.distributions\.\w+\.([A-Z]\w*)$"), r"torch.distributions.\1"),
    (re.compile(r"^torch\.nn\.utils\.clip_grad\.(\w+)$"), r"torch.nn.utils.\1"),
    (re.compile(r"^torch\.(?:special|linalg)\.(\w+)$"), r"\g<0>"),
)


#: Calls that never come back: they raise, or end the process.
NEVER_RETURN = frozenset({
    "sys.exit", "os._exit", "os.abort", "builtins.exit", "builtins.quit", "pytest.skip", "pytest.fail", "pytest.exit",
})  # fmt: skip

#: What torch says of the platforms that it was not built for: CUDA graphs are captured with a build for CUDA.
#: Source: `torch/version.py` of the CUDA wheels.
ABSENT = frozenset({"torch.version.hip", "torch.version.xpu"})

#: Numbers that packages give a name to. Source: the documentation of `math`, numpy's and torch's constants.
CONSTANTS: dict[str, float | None] = {
    **dict.fromkeys(ABSENT),
    "math.tau": math.tau,
    **{f"{package}.pi": math.pi for package in ("math", "numpy", "torch")},
    **{f"{package}.e": math.e for package in ("math", "numpy", "torch")},
    **{f"{package}.inf": math.inf for package in ("math", "numpy", "torch")},
    **{f"{package}.nan": math.nan for package in ("math", "numpy", "torch")},
}


@lru_cache(maxsize=20_000)
def canonical(name: str) -> str:
    """The one spelling of `name`: `torch.cuda.graphs.graph` -> `torch.cuda.graph`."""
    if name in _EXACT:
        return _EXACT[name]
    for pattern, replacement in _PATTERNS:
        if pattern.match(name):
            name = pattern.sub(replacement, name)
            return _EXACT.get(name, name)
    return name
