"""Text without which a file cannot capture a graph: the first, cheap look at every file of a project.

Sources: the capture interfaces of PyTorch (`torch.cuda`, `torch.accelerator`, `torch.xpu`, out-of-tree backends),
Inductor's options, TransformerEngine, tensordict, DeepSpeed.
"""

from __future__ import annotations

#: Every marker of GRAPH_MARKERS counts only in files that hold this, which spares most files the rest.
GRAPH_STEM = b"raph"
GRAPH_MARKERS: tuple[bytes, ...] = (
    b".graph(",  # torch.cuda.graph and any device module under another name
    b"cuda.graph",
    b"CUDAGraph",
    b"cudagraph",  # backend="cudagraphs", triton.cudagraphs, cudagraph_trees
    b"import graph",  # from torch.cuda import graph
    b"cuda import",
    b"accelerator import",
    b"accelerator.Graph",
    b"make_graphed_callables",
    b"capture_to_graph",
    b"cuda_graph_sizes",  # engine arguments, as the next one
    b"full_cuda_graph",
    b"CudaGraphModule",
    b"XPUGraph",
    b"NPUGraph",
    b"MUSAGraph",
    b"MLUGraph",
)
CAPTURE_MARKERS: tuple[bytes, ...] = (b"capture_begin", b"reduce-overhead", b"max-autotune", b"_len_to_capture")
