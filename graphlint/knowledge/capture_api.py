"""The calls that capture, warm up, replay or guard a graph, by canonical name.

Sources: PyTorch's CUDA semantics notes ("CUDA Graphs"), torch 2.11 to 2.14; the docs of
TransformerEngine, tensordict and DeepSpeed.
"""

from __future__ import annotations

DEVICE_MODULES = ("torch.cuda", "torch.xpu", "torch.npu", "torch.musa", "torch.mlu", "torch.accelerator")

#: Context managers that capture between `__enter__` and `__exit__`; the first argument is the graph.
CAPTURE_MANAGERS = frozenset(f"{m}.graph" for m in DEVICE_MODULES)
#: Graph objects that are context managers themselves.
GRAPH_MANAGERS = frozenset({"torch.accelerator.Graph", "torch.xpu.XPUGraph"})
GRAPH_CLASSES = frozenset({"torch.cuda.CUDAGraph", "torch.accelerator.Graph", "torch.xpu.XPUGraph", 
                           "torch.musa.MUSAGraph",
                           "torch.mlu.MLUGraph"})  # fmt: skip
#: Functions that capture the callables they are given. They warm up themselves.
GRAPHED_CALLABLES = frozenset({
    "torch.cuda.make_graphed_callables", "transformer_engine.pytorch.make_graphed_callables",
    "transformer_engine.pytorch.graph.make_graphed_callables", "torch.xpu.make_graphed_callables",
})  # fmt: skip
#: Wrappers whose instances capture on a later call: (copies inputs, clones outputs).
CAPTURE_WRAPPERS = {
    "tensordict.nn.CudaGraphModule": (True, True),
    "tensordict.nn.cudagraphs.CudaGraphModule": (True, True),
    "tensordict.CudaGraphModule": (True, True),
}
#: DeepSpeed's accelerator object has the interface of torch.cuda, and three calls of its own for graphs.
ACCELERATOR_GETTERS = ("get_accelerator",)
ACCELERATOR_CALLS = {
    "torch.cuda.capture_to_graph": "torch.cuda.graph", "torch.cuda.create_graph": "torch.cuda.CUDAGraph",
    "torch.cuda.replay_graph": "torch.cuda.CUDAGraph.replay",
}  # fmt: skip
GUARDS = frozenset({
    "torch.cuda.is_current_stream_capturing", "torch.xpu.is_current_stream_capturing",
    "torch.npu.is_current_stream_capturing", "torch.accelerator.is_current_stream_capturing",
})  # fmt: skip
COMPILE_GUARDS = frozenset({"torch.compiler.is_compiling", "torch.compiler.is_dynamo_compiling",
                            "torch._dynamo.is_compiling", "torch.compiler.is_exporting",
                            "torch._utils.is_compiling"})  # fmt: skip

#: torch.compile arguments that put the compiled code into cudagraphs.
CUDAGRAPH_MODES = frozenset({"reduce-overhead", "max-autotune"})
PLAIN_MODES = frozenset({"default", "max-autotune-no-cudagraphs"})

#: Decorators of kernel languages: what is under them is not Python that a capture runs.
_KERNELS = ("triton.", "numba.", "cute.", "cutlass.", "warp.", "wp.", "tilelang.", "pallas.", "taichi.", "gluon.")
_UNCAPTURED = frozenset({"torch.compiler.disable"})


def is_kernel_decorator(name: str) -> bool:
    return name.startswith(_KERNELS) or ".experimental.gluon" in name


def is_uncapturing_decorator(name: str) -> bool:
    """Decorators that take code out of a compiled region."""
    return name in _UNCAPTURED
