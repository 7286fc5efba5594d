"""What all Qwen3 scripts share: the published configuration, a model, the command line, and honest outcomes.

Glossary:
    outcome   what a CUDA graph did with the script: `ok`, or `capture-error`, `wrong-result`, `stale-result`, ... as an
              observer without graphs would judge it. Each script prints exactly one line `OUTCOME: ...`.
    deviation relative distance |a - b| / |b| between what a replay gave and what eager code gives for the same inputs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM, StaticCache

# The values of Qwen/Qwen3-8B's published config.json.
QWEN3_8B: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 40960,
    "max_window_layers": 36,
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "sliding_window": None,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}

# The same architecture in the small: every ratio that the code depends on (grouped heads, head_dim) is kept.
TINY: dict[str, Any] = {
    **QWEN3_8B,
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "max_window_layers": 2,
    "bos_token_id": 508,
    "eos_token_id": 509,
}

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that every script has."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--size", choices=["tiny", "8b"], default="tiny", help="the published Qwen3-8B, or a tiny twin"
    )
    options.add_argument("--device", default="cuda", help="a CUDA device, real or emulated")
    options.add_argument("--dtype", choices=sorted(DTYPES), help="default: bfloat16 for 8b, float32 for tiny")
    options.add_argument("--weights", metavar="DIR", type=Path, help="a checkpoint folder; default: random weights")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--report", metavar="FILE", type=Path, help="write outcome and figures as JSON")
    return options


def parse(options: argparse.ArgumentParser, arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse, and leave with one clear line where there is nothing that could capture a graph."""
    args = options.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("no CUDA device here: run it as `graphlint trace --backend emulate FILE`")
    args.dtype = DTYPES[args.dtype or ("bfloat16" if args.size == "8b" else "float32")]
    return args


def qwen3_config(size: str) -> Qwen3Config:
    """Configuration of the published model (`8b`) or of its tiny twin."""
    return Qwen3Config(**(QWEN3_8B if size == "8b" else TINY), attn_implementation="sdpa")


def build_model(args: argparse.Namespace) -> Qwen3ForCausalLM:
    """Qwen3 on the device, in evaluation mode: random weights, or those of `--weights`."""
    if args.weights is not None:
        loaded = Qwen3ForCausalLM.from_pretrained(args.weights, dtype=args.dtype, attn_implementation="sdpa")
        return loaded.to(args.device).eval()
    before = torch.get_default_dtype()
    torch.set_default_dtype(args.dtype)
    try:
        # On the device from the start: 16 GB of bf16 weights drawn on the host would take minutes.
        with torch.device(args.device):
            model = Qwen3ForCausalLM(qwen3_config(args.size))
    finally:
        torch.set_default_dtype(before)
    draw_weights(model, args)
    return model.eval()


@torch.no_grad()
def draw_weights(model: Qwen3ForCausalLM, args: argparse.Namespace) -> None:
    """Put the initial weights back, in place: the same seed gives the same weights (or `--weights` are read again)."""
    if args.weights is not None:
        fresh = Qwen3ForCausalLM.from_pretrained(args.weights, dtype=args.dtype)
        model.load_state_dict(fresh.state_dict())
        return
    torch.manual_seed(args.seed)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.fill_(1.0)
        else:
            parameter.normal_(0.0, model.config.initializer_range)


def static_cache(model: Qwen3ForCausalLM, rows: int, length: int) -> StaticCache:
    """A StaticCache, rows x heads x length x head_dim, whose tensors exist now: no capture has to make them."""
    config = model.config
    cache = StaticCache(config=config, max_cache_len=length)
    cache.early_initialization(
        batch_size=rows,
        num_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        dtype=model.dtype,
        device=model.device,
    )
    return cache


def set_length(cache: StaticCache, length: int) -> None:
    """The next token goes to slot `length`. In place: a graph reads these counters."""
    for layer in cache.layers:
        layer.cumulative_length.fill_(length)


def prompt_ids(model: Qwen3ForCausalLM, args: argparse.Namespace, rows: int, length: int) -> torch.Tensor:
    """Random prompts, `rows` x `length` int64, the special tokens left out."""
    torch.manual_seed(args.seed + 1)
    return torch.randint(0, model.config.eos_token_id - 8, (rows, length), device=args.device)


def warmed_up(step: Callable[[], Any], times: int = 2) -> None:
    """Run `step` on a side stream, joined on both ends, as a capture wants it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(times):
            step()
    torch.cuda.current_stream().wait_stream(stream)


def deviation(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative distance of two tensors of one shape: 0 for equal ones, about 1.4 for unrelated, inf if any is NaN."""
    got, wanted = got.float(), wanted.float()
    off = float(((got - wanted).norm() / wanted.norm().clamp_min(1e-12)).item())
    # max() would drop a NaN silently, and with it the worst fault of all.
    return float("inf") if math.isnan(off) else off


@torch.no_grad()
def against_eager(
    model: Qwen3ForCausalLM,
    prefill: Callable[[torch.Tensor], torch.Tensor],
    step: Callable[[torch.Tensor], torch.Tensor],
    prompts: torch.Tensor,
    tokens: int,
) -> float:
    """Decode `tokens` tokens greedily for prompts (rows x length) and compare with one plain, cacheless forward.

    `prefill` and `step` (on rows x 1 ids) give logits, rows x vocabulary. Returns the deviation of all logits.
    """
    logits = [prefill(prompts)]
    sequence = prompts
    for _ in range(tokens - 1):
        ids = logits[-1].argmax(-1, keepdim=True)
        sequence = torch.cat([sequence, ids], dim=1)
        logits.append(step(ids))
    wanted = model(input_ids=sequence, use_cache=False, logits_to_keep=tokens).logits
    return deviation(torch.stack(logits, dim=1), wanted)


def tolerance(args: argparse.Namespace) -> float:
    """What rounding alone explains. cuBLAS picks other kernels for other batch sizes; 36 layers of bf16 add that up."""
    return 0.1 if args.dtype == torch.bfloat16 else 1e-3


def milliseconds(step: Callable[[], Any], times: int) -> float:
    """Median wall time of one call, the device synchronised before and after."""
    step()
    taken = []
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken.append(1000 * (time.perf_counter() - start))
    return sorted(taken)[len(taken) // 2]


def cause(error: BaseException) -> str:
    """First line of what really failed: `capture_end` raises the second error, its context is the first."""
    while error.__context__ is not None and "previous error during capture" in str(error):
        error = error.__context__
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def has_values(args: argparse.Namespace) -> bool:
    """Whether tensors hold what was computed: emulation of a large model does without."""
    return torch.full((), 3.0, device=args.device).item() == 3.0


def finish(args: argparse.Namespace, outcome: str, detail: str, figures: dict[str, Any] | None = None) -> None:
    """Print the outcome; with `--report`, write it with the figures and the machine that gave them."""
    if not has_values(args):
        outcome, detail = "unknown", "tensors have no values here"
    print(f"OUTCOME: {outcome}  {detail}")
    write_report(args, outcome, detail, figures)


def write_report(args: argparse.Namespace, outcome: str, detail: str, figures: dict[str, Any] | None = None) -> None:
    """What `--report` asks for, if it does."""
    if args.report is None:
        return
    report = {
        "outcome": outcome,
        "detail": detail,
        "figures": figures or {},
        "size": args.size,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(),
    }
    args.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
