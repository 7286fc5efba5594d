"""Greedy decoding of Qwen3 under torch.compile(mode="reduce-overhead"): CUDA graphs without a capture by hand.

Two batch sizes run through one compiled function: each is compiled and recorded once, and both live in the same graph
tree. `cudagraph_mark_step_begin` says that a step begins and the last one's outputs may be overwritten, so what is kept
of them is cloned first. The StaticCache is written in place, which cudagraphs allow only for static addresses: its
tensors are marked as such when they are made, outside the compiled function.
"""

from __future__ import annotations

import time
from functools import partial

import torch
from common import (
    against_eager,
    build_model,
    finish,
    milliseconds,
    parse,
    parser,
    prompt_ids,
    set_length,
    static_cache,
    tolerance,
)
from transformers import Qwen3ForCausalLM, StaticCache


class CompiledDecoder:
    def __init__(self, model: Qwen3ForCausalLM, max_length: int, mode: str) -> None:
        self.model = model
        self.slots = torch.arange(max_length, device=model.device)
        self.compiled = torch.compile(self.decode, mode=mode, fullgraph=True, dynamic=False)

    def decode(self, cache: StaticCache, ids: torch.Tensor) -> torch.Tensor:
        """Logits for the next token of each row: rows x vocabulary. All rows are equally long."""
        slot = cache.layers[0].cumulative_length
        visible = (self.slots <= slot).expand(ids.shape[0], 1, 1, -1)
        out = self.model(
            input_ids=ids,
            attention_mask={"full_attention": visible},
            position_ids=slot.expand(ids.shape),
            past_key_values=cache,
            use_cache=True,
        )
        return out.logits[:, -1]

    @torch.no_grad()
    def prefill(self, cache: StaticCache, prompts: torch.Tensor) -> torch.Tensor:
        set_length(cache, 0)
        return self.model(input_ids=prompts, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]

    @torch.no_grad()
    def step(self, cache: StaticCache, ids: torch.Tensor) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return self.compiled(cache, ids).clone()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--batches", type=int, nargs=2, default=[1, 8], help="the two batch sizes")
    options.add_argument("--max-length", type=int, default=512)
    options.add_argument("--tokens", type=int, default=8)
    options.add_argument("--mode", default="reduce-overhead", choices=["reduce-overhead", "default"])
    options.add_argument("--bench", action="store_true", help="time one step of each batch size")
    args = parse(options)
    model = build_model(args).requires_grad_(False)
    decoder = CompiledDecoder(model, args.max_length, args.mode)
    caches = [static_cache(model, rows, args.max_length) for rows in args.batches]
    prompts = [prompt_ids(model, args, rows, 16) for rows in args.batches]

    figures: dict[str, object] = {}
    worst = 0.0
    for turn in range(2):  # in the second turn both shapes are recorded, and take turns in one tree
        for rows, ids, cache in zip(args.batches, prompts, caches, strict=True):
            start = time.perf_counter()
            prefill, step = partial(decoder.prefill, cache), partial(decoder.step, cache)
            worst = max(worst, against_eager(model, prefill, step, ids, args.tokens))
            torch.cuda.synchronize()
            if turn == 0:
                figures[f"batch {rows} compile_s"] = round(time.perf_counter() - start, 1)
    skips = torch._dynamo.utils.counters["inductor"].get("cudagraph_skips", 0)
    figures["worst deviation from eager"] = worst
    figures["cudagraph skips"] = skips
    if args.bench:
        for rows, cache in zip(args.batches, caches, strict=True):
            token = torch.zeros(rows, 1, dtype=torch.int64, device=args.device)

            def at_half(step, token=token, cache=cache):
                set_length(cache, args.max_length // 2)
                return step(cache, token)

            eager = milliseconds(torch.no_grad()(lambda: at_half(decoder.decode)), 10)
            compiled = milliseconds(lambda: at_half(decoder.step), 10)
            figures[f"batch {rows}"] = {"eager_ms": round(eager, 2), "compiled_ms": round(compiled, 2)}
    print(figures)
    if worst > tolerance(args):
        finish(args, "wrong-result", f"logits {worst:.2g} off eager", figures)
    elif skips:
        finish(args, "slow", f"cudagraphs skipped {skips} times", figures)
    else:
        finish(args, "ok", f"two shapes in one tree, logits within {worst:.2g} of eager", figures)


if __name__ == "__main__":
    main()
