"""`graphlint explain`: from what a terminal shows to the rule that finds its cause, and a page for each rule."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphlint.commands.explain import explain
from graphlint.knowledge.errors import ERRORS, look_up
from graphlint.registry import load_rules, page

RULES = load_rules()
#: The first rule, and the message as PyTorch and CUDA print it.
PRINTED = [
    ("host-sync", "RuntimeError: CUDA error: operation not permitted when stream is capturing"),
    ("host-sync", "torch.AcceleratorError: CUDA error: operation failed due to a previous error during capture"),
    ("stream-escape", "RuntimeError: CUDA error: capturing stream has unjoined work"),
    ("stream-escape", "RuntimeError: CUDA error: dependency created on uncaptured work in another stream"),
    ("missing-warmup", "RuntimeError: CUDA error: operation would make the legacy stream depend on a capturing "
     "blocking stream"),
    ("stream-escape", "RuntimeError: CUDA error: operation not permitted on an event last recorded in a capturing "
     "stream"),
    ("capture-misuse", "RuntimeError: CUDA error: attempt to terminate a thread-local capture sequence from another "
     "thread"),
    ("capture-misuse", "RuntimeError: Capture must end on the same stream it began on."),
    ("host-copy", "RuntimeError: Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU "
     "tensor is pinned. Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."),
    ("missing-warmup", "RuntimeError: During CUDA graph capture, autograd node 'torch::autograd::AccumulateGrad' has "
     "a stale reference to the default stream (stream 0) from warmup."),
    ("missing-warmup", "RuntimeError: During CUDA graph capture, autograd tried to synchronize streams across the "
     "capture boundary (leaf stream 7, parent stream 0)."),
    ("missing-warmup", "UserWarning: The AccumulateGrad node's stream does not match the stream of the node that "
     "produced the incoming gradient. This may incur unnecessary synchronization."),
    ("optimizer-in-capture", "RuntimeError: Attempting CUDA graph capture of step() for an instance of AdamW but "
     "param_groups' capturable is False."),
    ("optimizer-in-capture", "AssertionError: If capturable=True, params and state_steps must be on supported "
     "devices: ['cuda', 'xpu', 'hpu']."),
    ("optimizer-in-capture", "ValueError: lr as a Tensor is not supported for capturable=False and foreach=True"),
    ("rng-misuse", "RuntimeError: CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new "
     "seed is the same as the original seed."),
    ("rng-misuse", "RuntimeError: Cannot call CUDAGeneratorImpl::set_current_seed during CUDA graph capture"),
    ("rng-misuse", "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture. If you need "
     "this call to be captured, please file an issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"),
    ("rng-misuse", "RuntimeError: Cannot call CUDAGeneratorImpl::get_offset during CUDA graph capture."),
    ("rng-misuse", "RuntimeError: Cannot construct a new CUDAGeneratorImpl during CUDA graph capture."),
    ("rng-misuse", "RuntimeError: Please ensure to utilize the CUDAGeneratorImpl::set_state_index method during "
     "capturing."),
    ("rng-misuse", "RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode."),
    ("rng-misuse", "RuntimeError: RNG within data-dependent conditional nodes is not supported yet."),
    ("missing-warmup", "RuntimeError: torch.compile cannot JIT compile during CUDA graph capture. Execute warmup "
     "iterations outside of CUDA graph capture to compile first."),
    ("missing-warmup", "RuntimeError: Capturing cudnnConvolutionForward is prohibited. Possible causes of this error:\n"
     "1. No warmup iterations occurred before capture.\n2. The convolutions you're trying to capture use dynamic "
     "shapes, in which case capturing them is generally prohibited."),
    ("host-copy", "RuntimeError: CTCLoss cannot be graph captured with CPU length tensors. Move CPU length tensors to "
     "GPU memory to enable graph capture."),
    ("capture-misuse", "RuntimeError: Capturing NCCL collectives is only allowed with NCCL >= 2.9.6"),
    ("autocast-cache", "RuntimeError: make_graphed_callables does not support the autocast caching. Please set "
     "`cache_enabled=False`."),
    ("capture-misuse", "AssertionError: Modules must not have hooks registered at the time they are passed. However, "
     "registering hooks on modules after passing them through make_graphed_callables is allowed."),
    ("capture-misuse", "AssertionError: In the beta API, sample_args for each callable must contain only Tensors. "
     "Other types are not allowed."),
    ("capture-misuse", "AssertionError: In any :class:`~torch.nn.Module` passed to make_graphed_callables, only "
     "parameters may be trainable. All buffers must have ``requires_grad=False``."),
    ("capture-misuse", "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
     "passing an `inputs` parameter to .backward()."),
    ("capture-misuse", "RuntimeError: This CUDAGraph instance already owns a captured graph. To capture a new graph, "
     "create a new instance."),
    ("capture-misuse", "RuntimeError: CUDA graphs must be captured on a non-default stream. (However, after capture, "
     "it's ok to replay them on the default stream.)"),
    ("capture-misuse", "RuntimeError: capture_end() called before capture_begin()."),
    ("capture-misuse", "RuntimeError: Invalid capture."),
    ("capture-misuse", "RuntimeError: Called CUDAGraph::replay without a preceding successful capture."),
    ("capture-misuse", "RuntimeError: Called CUDAGraph::pool() without a preceding successful capture."),
    ("capture-misuse", "RuntimeError: No cudaGraph_t is available, because it was not kept."),
    ("shape-mismatch-copy", "RuntimeError: The size of tensor a (4096) must match the size of tensor b (2048) at "
     "non-singleton dimension 1"),
    ("dangling-input", "RuntimeError: CUDA graph replay detected 3 dead tensor(s)."),
    ("dangling-input", "RuntimeError: CUDA error: an illegal memory access was encountered"),
    ("compile-cudagraphs", "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a "
     "subsequent run. Stack trace: File \"net.py\", line 12, in forward"),
    ("compile-cudagraphs", "RuntimeError: Error: accessing gradient tensor output of CUDAGraphs that has been "
     "overwritten by a subsequent backward run."),
    ("compile-cudagraphs", "[0/0] [__perf_hints] skipping cudagraphs due to mutated inputs (2 instances). Found from:"),
    ("compile-cudagraphs", "skipping cudagraphs due to cpu device (arg0_1). Found from:"),
    ("compile-cudagraphs", "skipping cudagraphs due to multiple devices: device(type='cuda', index=0), cpu"),
    ("compile-cudagraphs", "disabling cudagraphs due to incompatible op aten._local_scalar_dense.default"),
    ("compile-cudagraphs", "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. "
     "Recording too many CUDAGraphs may lead to extra overhead. We have observed 9 distinct sizes."),
    ("graph-teardown", "  File \"distributed_c10d.py\", line 2000, in destroy_process_group\n    backend._shutdown()"),
]  # fmt: skip

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/me/serve.py", line 412, in capture
    self.out = self.model(self.ids, self.positions)
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1773, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
{message}
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


def first_rule(text: str) -> str:
    found = look_up(text)
    return found[0].rules[0] if found else "nothing"


@pytest.mark.parametrize(("rule", "message"), PRINTED)
def test_an_error_text_leads_to_its_rule_however_it_is_pasted(rule: str, message: str) -> None:
    assert first_rule(message) == rule
    assert first_rule(TRACEBACK.format(message=message)) == rule
    assert first_rule(message.upper()) == rule
    assert first_rule(re.sub(r"\d+", "13", message)) == rule
    assert first_rule("\n".join(textwrap.wrap(message, 30, break_on_hyphens=False))) == rule
    assert first_rule("\n".join(f"    | {line}" for line in textwrap.wrap(message, 50))) == rule
    assert first_rule(f"\x1b[31m{message}\x1b[0m") == rule


@pytest.mark.parametrize(("rule", "message"), [(r, m) for r, m in PRINTED if len(m.split()) > 8])
def test_a_text_that_is_cut_or_broken_is_still_known(rule: str, message: str) -> None:
    words = message.split()
    assert first_rule(" ".join(words[: len(words) * 3 // 4 + 1])) == rule
    rows = [message[at : at + 40] for at in range(0, len(message), 40)]  # as a terminal breaks: within words
    assert first_rule("\n".join(rows)) == rule


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.text[:40])
def test_every_text_names_rules_that_exist(error: object) -> None:
    known = next(e for e in ERRORS if e is error)
    assert known.rules and all(RULES.find(name) is not None for name in known.rules)
    for spelled in (known.text, *known.codes):
        assert any(set(known.rules) >= set(found.rules) for found in look_up(spelled)), spelled


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("cudaErrorStreamCaptureWrongThread", "capture-misuse"),
        ("StreamCaptureWrongThread", "capture-misuse"),
        ("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "stream-escape"),
        ("CUDA error 906", "missing-warmup"),
        ("CUDA driver error: 904", "stream-escape"),
        ("cudaErrorStreamCaptureIsolation (error 905)", "stream-escape"),
    ],
)
def test_names_and_numbers_of_cuda_are_known(text: str, rule: str) -> None:
    assert first_rule(text) == rule


def test_the_cause_comes_before_the_error_that_follows_it() -> None:
    text = (
        "RuntimeError: CUDA error: operation failed due to a previous error during capture\n"
        "RuntimeError: Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is "
        "pinned."
    )
    assert [found.rules[0] for found in look_up(text)] == ["host-copy", "host-sync"]


@pytest.mark.parametrize("text", ["", "ok", "it is slow", "ValueError: too many values to unpack (expected 2)", "E501",
                                  "CUDA out of memory. Tried to allocate 2.00 GiB", "exit code 137"])  # fmt: skip
def test_what_has_nothing_to_do_with_captures_finds_nothing(text: str) -> None:
    assert look_up(text) == []


def test_the_command_shows_the_advice_and_the_rules() -> None:
    shown = CliRunner().invoke(explain, ["-"], input=TRACEBACK.format(message=PRINTED[0][1]), standalone_mode=False)
    assert "GL001[host-sync]" in shown.output and "graphlint explain host-sync" in shown.output


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.name)
def test_every_rule_has_a_page_that_says_what_was_measured(rule: object) -> None:
    found = next(r for r in RULES.rules if r is rule)
    text = page(found)
    assert re.search(r"(?m)^On an NVIDIA H200 with torch 2\.11", text), "a measured line is missing"
    assert len(text.splitlines()) <= 80, "nobody reads more at night"


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.name)
def test_a_page_says_what_the_fix_does(rule: object) -> None:
    found = next(r for r in RULES.rules if r is rule)
    assert ("`--fix" in page(found)) == (found.folder / "fix.py").exists()


BLOCKS = [
    pytest.param(code, id=f"{path.parent.name}-{number}")
    for path in sorted((Path(__file__).parent.parent / "rules").glob("gl*/README.md"))
    for number, code in enumerate(re.findall(r"(?ms)^```python\n(.*?)^```", path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_code_on_the_pages_is_python(code: str) -> None:
    compile("def page():\n" + textwrap.indent(code, "    "), "page", "exec")
