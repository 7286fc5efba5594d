"""Arguments of serving engines that decide about CUDA graphs.

Sources: vLLM's `EngineArgs` and `CompilationConfig` (0.8 to 0.19: what was renamed or removed, and which pairs are
refused), and its design document "CUDA Graphs".
"""

from __future__ import annotations

#: Classes that take them, by canonical name.
ENGINES = frozenset({
    "vllm.LLM", "vllm.entrypoints.llm.LLM", "vllm.EngineArgs", "vllm.AsyncEngineArgs",
    "vllm.engine.arg_utils.EngineArgs", "vllm.engine.arg_utils.AsyncEngineArgs",
    "vllm.config.CompilationConfig", "vllm.config.compilation.CompilationConfig",
})  # fmt: skip

#: Arguments that are gone, with what to write instead.
_BY_BATCH = '`compilation_config={"max_cudagraph_capture_size": ...}`, a number of tokens'
RENAMED_ARGUMENTS = {
    "max_seq_len_to_capture": _BY_BATCH,
    "max_context_len_to_capture": _BY_BATCH,
    "cuda_graph_sizes": '`compilation_config={"cudagraph_capture_sizes": [...]}`',
}
RENAMED_SETTINGS = {
    "full_cuda_graph": '`"cudagraph_mode": "FULL"`',
    "use_cudagraph": '`"cudagraph_mode": "NONE"` or another mode',
    "capture_sizes": '`"cudagraph_capture_sizes"`',
    "max_capture_size": '`"max_cudagraph_capture_size"`',
}
#: Settings that ask for graphs.
GRAPH_SETTINGS = ("cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size", "full_cuda_graph")
