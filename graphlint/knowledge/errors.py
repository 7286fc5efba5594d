"""Error texts that a broken capture or replay gives, and the rules that find their causes in the source.

A user pastes whatever the terminal showed: a whole traceback, wrapped lines, a `CUDA error:` prefix, other numbers.
So a text is compared as words: lower case, only letters and digits, numbers dropped, in order and unbroken.

Sources: the strings of torch 2.11 to 2.14, its documentation, and the CUDA runtime's error codes 900 to 908.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorText:
    """`text` is the part of the message that does not vary; `codes` other spellings; `advice` one line."""

    text: str
    rules: tuple[str, ...]
    advice: str
    codes: tuple[str, ...] = ()
    second: bool = False
    """True for an error that only follows another: listed last, whatever its place."""


ERRORS: tuple[ErrorText, ...] = (
    ErrorText(
        "operation not permitted when stream is capturing",
        ("host-sync", "tensor-control-flow", "dynamic-shape-op", "host-copy", "stream-escape", "capture-misuse"),
        "Something in the capture made the host wait for the GPU, or asked for work that cannot be recorded. The line "
        "is the innermost one of yours in the first traceback, not in the one that `capture_end` raises.",
        ("cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    ),
    ErrorText(
        "operation failed due to a previous error during capture",
        ("host-sync", "tensor-control-flow", "dynamic-shape-op", "host-copy", "capture-misuse", "capture-thread"),
        "This is the second error: the capture was already broken. The cause is the exception above (`__context__`); "
        "if there is none, another thread did something unsafe during the capture.",
        ("cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
        second=True,
    ),
    ErrorText(
        "capturing stream has unjoined work",
        ("stream-escape",),
        "A side stream was forked from the capture and never joined: the capturing stream must wait for it before the "
        "capture ends.",
        ("cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
    ),
    ErrorText(
        "dependency created on uncaptured work in another stream",
        ("stream-escape",),
        "Captured work waits for work or an event from before the capture, or a side stream was not forked from the "
        "capturing stream first.",
        ("cudaErrorStreamCaptureIsolation", "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
    ),
    ErrorText(
        "operation would make the legacy stream depend on a capturing blocking stream",
        ("missing-warmup", "stream-escape"),
        "The default stream got tied to the capture, mostly by a warm-up backward, or DistributedDataParallel, on the "
        "default stream whose autograd graph is still alive. Warm up on a side stream and drop the loss.",
        ("cudaErrorStreamCaptureImplicit", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    ),
    ErrorText(
        "operation not permitted on an event last recorded in a capturing stream",
        ("stream-escape", "host-sync"),
        "An event recorded inside the capture was queried, waited for or timed by the host.",
        ("cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT"),
    ),
    ErrorText(
        "attempt to terminate a thread-local capture sequence from another thread",
        ("capture-misuse",),
        "A capture must end in the thread that began it.",
        ("cudaErrorStreamCaptureWrongThread", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
    ),
    ErrorText(
        "the capture was not initiated in this stream",
        ("capture-misuse",),
        "A capture must end on the stream where it began.",
        ("cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"),
    ),
    ErrorText(
        "operation would result in a merge of separate capture sequences",
        ("capture-misuse", "stream-escape"),
        "Two captures touched each other: one stream waits for another that is captured into a different graph.",
        ("cudaErrorStreamCaptureMerge", "CUDA_ERROR_STREAM_CAPTURE_MERGE"),
    ),
    ErrorText(
        "Capture must end on the same stream it began on",
        ("capture-misuse",),
        "`capture_end` ran on another stream than `capture_begin`.",
    ),
    ErrorText(
        "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned",
        ("host-copy",),
        "Make the tensor on the GPU before the capture, or copy it into a static input between replays.",
    ),
    ErrorText(
        "has a stale reference to the default stream",
        ("missing-warmup",),
        "A warm-up backward ran on the default stream and its autograd graph is alive. Warm up on a side stream and "
        "drop the loss before the capture (torch 2.13 and later say so).",
    ),
    ErrorText(
        "autograd tried to synchronize streams across the capture boundary",
        ("missing-warmup", "stream-escape"),
        "The forward of a captured backward ran outside the capture, or a warm-up on another stream is still alive.",
    ),
    ErrorText(
        "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming gradient",
        ("missing-warmup",),
        "An early sign, in eager code too: the parameters were first used on another stream than the one that will be "
        "captured.",
    ),
    ErrorText(
        "Attempting CUDA graph capture of step() for an instance of",
        ("optimizer-in-capture",),
        "Build the optimizer with `capturable=True`; `fused=True` alone is refused.",
    ),
    ErrorText(
        "capturable is False",
        ("optimizer-in-capture",),
        "Build the optimizer with `capturable=True`; `fused=True` alone is refused.",
    ),
    ErrorText(
        "If capturable=True, params and state_steps must be on supported devices",
        ("optimizer-in-capture",),
        "The optimizer's state was made or loaded on the CPU, mostly because `capturable` was set after a first step.",
    ),
    ErrorText(
        "lr as a Tensor is not supported for capturable=False and foreach=True",
        ("optimizer-in-capture", "stale-scalar"),
        "A tensor learning rate needs `capturable=True` (or `fused=True` for SGD).",
    ),
    ErrorText(
        "KeyError: 'capturable'",
        ("optimizer-in-capture",),
        "This optimizer (Adafactor) has no `capturable`: it cannot be captured, step outside.",
    ),
    ErrorText(
        "can be called during stream capture only if new seed is the same as the original seed",
        ("rng-misuse",),
        "Seed outside the capture; between replays `torch.cuda.manual_seed` works.",
    ),
    ErrorText(
        "during CUDA graph capture. If you need this call to be captured, please file an issue",
        ("rng-misuse",),
        "Seeds, offsets and generator states are host numbers: read or set them outside the capture.",
    ),
    ErrorText(
        "Cannot call CUDAGeneratorImpl::",
        ("rng-misuse",),
        "Seeds, offsets and generator states are host numbers: read or set them outside the capture.",
    ),
    ErrorText(
        "Cannot construct a new CUDAGeneratorImpl",
        ("rng-misuse",),
        "Make the generator before the capture and register it with `graph.register_generator_state(generator)`.",
    ),
    ErrorText(
        "Please ensure to utilize the CUDAGeneratorImpl::set_state_index method during capturing",
        ("rng-misuse",),
        "Use `graphsafe_set_state`, or set the state outside the capture.",
    ),
    ErrorText(
        "Attempt to increase offset for a CUDA generator not in capture mode",
        ("rng-misuse",),
        "Register the generator before the capture: `graph.register_generator_state(generator)`.",
    ),
    ErrorText(
        "RNG within data-dependent conditional nodes is not supported yet",
        ("rng-misuse",),
        "Draw before `torch.cond` or `torch.while_loop`, or leave dropout out of its branches.",
    ),
    ErrorText(
        "torch.compile cannot JIT compile during CUDA graph capture",
        ("missing-warmup",),
        "Call the compiled function once, with the same shapes, before the capture.",
    ),
    ErrorText(
        "is prohibited. Possible causes of this error",
        ("missing-warmup",),
        "No warm-up ran before the capture at this shape, or the shapes of the convolutions vary.",
    ),
    ErrorText(
        "No warmup iterations occurred before capture",
        ("missing-warmup",),
        "Run the captured code before the capture, at the same shapes.",
    ),
    ErrorText(
        "CTCLoss cannot be graph captured with CPU length tensors",
        ("host-copy",),
        "Keep `input_lengths` and `target_lengths` on the GPU.",
    ),
    ErrorText(
        "Capturing NCCL collectives is only allowed with NCCL",
        ("capture-misuse",),
        "This NCCL is too old (before 2.9.6) to be captured.",
    ),
    ErrorText(
        "make_graphed_callables does not support the autocast caching",
        ("autocast-cache",),
        "Open the autocast block with `cache_enabled=False`.",
    ),
    ErrorText(
        "Modules must not have hooks registered at the time they are passed",
        ("capture-misuse",),
        "Register hooks after `make_graphed_callables`.",
    ),
    ErrorText(
        "sample_args for each callable must contain only Tensors",
        ("capture-misuse",),
        "Pass tensors only; bind everything else with `functools.partial` or a wrapper.",
    ),
    ErrorText(
        "All buffers must have requires_grad=False",
        ("capture-misuse",),
        "A module given to `make_graphed_callables` has a buffer that requires a gradient.",
        ("passed to make_graphed_callables, only parameters may be trainable",),
    ),
    ErrorText(
        "torch.utils.checkpoint is incompatible with .grad() or passing an inputs parameter to .backward()",
        ("capture-misuse",),
        "Use `use_reentrant=False` for checkpoints inside graphed callables.",
    ),
    ErrorText(
        "This CUDAGraph instance already owns a captured graph",
        ("capture-misuse",),
        "Call `graph.reset()` first, or make a new `CUDAGraph`.",
    ),
    ErrorText(
        "CUDA graphs must be captured on a non-default stream",
        ("capture-misuse", "stream-escape"),
        "`capture_begin` needs `with torch.cuda.stream(side)`; `torch.cuda.graph` does it by itself.",
    ),
    ErrorText(
        "capture_end() called before capture_begin()",
        ("capture-misuse",),
        "The capture was not begun on this path.",
    ),
    ErrorText("Invalid capture", ("capture-misuse",), "The capture broke earlier and was ended all the same."),
    ErrorText(
        "Called CUDAGraph::replay without a preceding successful capture",
        ("capture-misuse",),
        "The capture failed or did not run on this path; a swallowed exception hides why.",
    ),
    ErrorText(
        "Called CUDAGraph::pool() without a preceding successful capture",
        ("capture-misuse",),
        "A graph's pool exists only after its capture; `torch.cuda.graph_pool_handle()` makes one before.",
    ),
    ErrorText(
        "No cudaGraph_t is available",
        ("capture-misuse",),
        "The graph was not captured, or was not made with `keep_graph=True`.",
    ),
    ErrorText(
        "The CUDA Graph is empty",
        ("capture-misuse", "stream-escape"),
        "Nothing was recorded: the work ran on another stream or another device than the capture.",
    ),
    ErrorText(
        "must match the size of tensor b",
        ("shape-mismatch-copy",),
        "If it comes from `static.copy_(x)`: this batch has another shape than the one that was captured.",
    ),
    ErrorText(
        "CUDA graph replay detected",
        ("dangling-input", "stale-input"),
        "Tensors that the graph reads were freed after the capture; keep a reference for as long as the graph lives.",
    ),
    ErrorText(
        "an illegal memory access was encountered",
        ("dangling-input", "stale-input", "host-copy", "memory-pool"),
        "On a replay: the graph reads memory that was freed or handed to someone else.",
        ("cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ),
    ErrorText(
        "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run",
        ("compile-cudagraphs", "output-reuse"),
        "Clone the output outside the compiled function, or call `torch.compiler.cudagraph_mark_step_begin()` before "
        "each step if the old output is not needed.",
    ),
    ErrorText(
        "accessing gradient tensor output of CUDAGraphs",
        ("compile-cudagraphs", "grad-lifetime"),
        "Gradients made by a compiled backward are overwritten by the next one: clone, or step before it.",
    ),
    ErrorText(
        "skipping cudagraphs due to",
        ("compile-cudagraphs",),
        "torch.compile ran without a graph: mutated inputs, CPU inputs or several devices; the log names which.",
    ),
    ErrorText(
        "disabling cudagraphs due to",
        ("compile-cudagraphs",),
        "An operator in the compiled function cannot be captured.",
    ),
    ErrorText(
        "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size",
        ("compile-cudagraphs", "memory-pool"),
        "Every new size records a graph and keeps its memory: pad to a few sizes, or mark the dimension dynamic.",
    ),
    ErrorText(
        "destroy_process_group",
        ("graph-teardown",),
        "A hang here, or at exit, with NCCL 2.26 and later: drop the graphs that captured collectives first.",
    ),
)


#: CUDA's numbers for them, for what is pasted as `CUDA error 906`.
NUMBERS = {
    900: "cudaErrorStreamCaptureUnsupported",
    901: "cudaErrorStreamCaptureInvalidated",
    902: "cudaErrorStreamCaptureMerge",
    903: "cudaErrorStreamCaptureUnmatched",
    904: "cudaErrorStreamCaptureUnjoined",
    905: "cudaErrorStreamCaptureIsolation",
    906: "cudaErrorStreamCaptureImplicit",
    907: "cudaErrorCapturedEvent",
    908: "cudaErrorStreamCaptureWrongThread",
}
#: So many words of a text that is cut off must be there.
_ENOUGH = 4


def words(text: str) -> str:
    """`text` as it is compared: words in lower case, numbers dropped, one space apart, one around."""
    return " " + " ".join(re.findall(r"[a-z]+", text.lower())) + " "


def look_up(text: str) -> list[ErrorText]:
    """What is known of an error text, the first error of a traceback first; empty if nothing is.

    A text that stands there whole counts; if none does, one that a terminal broke within a word, one that is cut off
    at its end or its beginning, and CUDA's name or number alone.
    """
    pasted = words(text)
    for place_of in (_whole, _broken, _cut, _named):
        found: list[tuple[bool, int, int, ErrorText]] = []
        for error in ERRORS:
            if hits := [
                place for part in (error.text, *error.codes) if (place := place_of(words(part), pasted, text)) >= 0
            ]:
                found.append((error.second, min(hits), -len(error.text), error))
        if found:
            best: dict[tuple[tuple[str, ...], str], ErrorText] = {}
            for *_, error in sorted(found, key=lambda row: row[:3]):
                best.setdefault((error.rules, error.advice), error)
            return list(best.values())
    return []


def _whole(known: str, pasted: str, text: str) -> int:
    return pasted.find(known)


def _broken(known: str, pasted: str, text: str) -> int:
    """Without spaces, since a line may end in the middle of a word."""
    squeezed = known.replace(" ", "")
    return pasted.replace(" ", "").find(squeezed) if len(squeezed) >= 16 else -1


def _cut(known: str, pasted: str, text: str) -> int:
    """The end of what was pasted begins the known text, or its beginning ends it; at least some words, unbroken."""
    ours, theirs = known.split(), pasted.split()
    for count in range(min(len(ours), len(theirs)), _ENOUGH - 1, -1):
        if theirs[-count:] == ours[:count]:
            return len(pasted) - len(" ".join(theirs[-count:]))
        if theirs[:count] == ours[-count:]:
            return 0
    return known.find(pasted) if len(theirs) >= _ENOUGH and pasted in known else -1


def _named(known: str, pasted: str, text: str) -> int:
    """`StreamCaptureWrongThread`, `CUDA error 906`: CUDA's own name of it, cut short, or its number."""
    word = known.strip()
    short = pasted.split()
    if len(short) <= 3 and any(
        len(part) >= 8 and word.endswith(part) for part in short if word.startswith("cudaerror")
    ):
        return 0
    for match in re.finditer(r"(?i)\b(?:error|code|status|result)\D{0,12}(90[0-8])\b", text):
        if words(NUMBERS[int(match[1])]).strip() == word:
            return match.start()
    return -1
