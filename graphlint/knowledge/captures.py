"""Text without which a file cannot capture a graph: the first, cheap look at every file of a project.

Sources: the capture interfaces of PyTorch (`torch.cuda`, `torch.accelerator`, `torch.xpu`, out-of-tree backends),
Inductor's options, TransformerEngine, tensordict, DeepSpeed.
"""

from __future__ import annotations

CAPTURE_MARKERS: tuple[bytes, ...] = (
    b".graph(",  # torch.cuda.graph and any device module under another name
    b"cuda.graph",
    b"CUDAGraph",
    b"cudagraph",  # backend="cudagraphs", triton.cudagraphs, cudagraph_trees
    b"import graph",  # from torch.cuda import graph
    b"cuda import",
    b"capture_begin",
    b"make_graphed_callables",
    b"reduce-overhead",
    b"max-autotune",
    b"accelerator.Graph",
    b"capture_to_graph",
    b"CudaGraphModule",
    b"XPUGraph",
    b"NPUGraph",
    b"MUSAGraph",
    b"MLUGraph",
    b"accelerator import",
)
