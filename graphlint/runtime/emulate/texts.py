"""What a GPU says when it refuses, word for word as torch 2.11 and later print it."""

from __future__ import annotations

import torch

NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"
INVALIDATED = "CUDA error: operation failed due to a previous error during capture"
UNJOINED = "CUDA error: capturing stream has unjoined work"
ISOLATION = "CUDA error: dependency created on uncaptured work in another stream"
IMPLICIT = "CUDA error: operation would make the legacy stream depend on a capturing blocking stream"
CAPTURED_EVENT = "CUDA error: operation not permitted on an event last recorded in a capturing stream"
ILLEGAL_ACCESS = "CUDA error: an illegal memory access was encountered"
CUBLAS = "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
CUDNN = "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
HOST_COPY = (
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
    "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."
)
RNG_OFFSET = "Attempt to increase offset for a CUDA generator not in capture mode."
RNG_SEED = (
    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the "
    "original seed."
)
RNG_CALL = (
    "Cannot call CUDAGeneratorImpl::{} during CUDA graph capture. If you need this call to be captured, please file an "
    "issue. If this call seems to be performed correctly, please file an issue."
)
OWNS_GRAPH = "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
DEFAULT_STREAM = (
    "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the "
    "default stream.)"
)
NOT_CAPTURED = "Called CUDAGraph::replay without a preceding successful capture."
NO_POOL = "Called CUDAGraph::pool() without a preceding successful capture."
NO_BEGIN = "capture_end() called before capture_begin()."
RETIRED_POOL = (
    'it->second->use_count > 0 INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp", please report a '
    "bug to PyTorch. "
)
EMPTY_GRAPH = (
    "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream."
)
STALE_NODE = (
    "During CUDA graph capture, autograd node '{}' has a stale reference to the default stream (stream 0) from warmup. "
    "Run the warmup on a side stream and delete its autograd graph before the capture."
)
OTHER_DEVICE = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
OVERWRITTEN = (
    "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack trace: {}. To "
    "prevent overwriting, clone the tensor outside of torch.compile() or call "
    "torch.compiler.cudagraph_mark_step_begin() before each model invocation."
)
OVERWRITTEN_GRADIENT = (
    "Error: accessing gradient tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack trace: "
    "{}. To prevent overwriting, allocate stable .grad buffers outside of CUDAGraphs, or set .grad to None before each "
    "backward."
)
_CODES = {
    NOT_PERMITTED: "cudaErrorStreamCaptureUnsupported",
    INVALIDATED: "cudaErrorStreamCaptureInvalidated",
    UNJOINED: "cudaErrorStreamCaptureUnjoined",
    ISOLATION: "cudaErrorStreamCaptureIsolation",
    IMPLICIT: "cudaErrorStreamCaptureImplicit",
    CAPTURED_EVENT: "cudaErrorCapturedEvent",
    ILLEGAL_ACCESS: "cudaErrorIllegalAddress",
}


def cuda_error(text: str) -> RuntimeError:
    """The exception that torch raises for a CUDA error, with the lines it adds below the first."""
    tail = ""
    if text in _CODES:
        tail = (
            f"\nSearch for `{_CODES[text]}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html "
            "for more information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the "
            "stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        )
    kind: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)
    return kind(text + tail)
