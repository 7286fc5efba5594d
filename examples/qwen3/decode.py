"""Greedy decoding of Qwen3 by captured graphs: one graph per batch-size bucket, in one pool.

Prompts of different lengths end at the same cache slot, so all rows write the same slot and one counter serves them
all. A batch of n rows runs on the smallest bucket that holds it; the rows above n are padding.

    slot   position in the key-value cache; all rows are at the same one
    first  slot of a row's first real token; what lies before it is padding and hidden from attention

Prefill stays eager: its shape changes with every prompt and its kernels are long. The result is checked against one
plain forward over each finished sequence, with neither cache, padding nor graph.
"""

from __future__ import annotations

import argparse
import time

import torch
from common import (
    build_model,
    deviation,
    finish,
    milliseconds,
    parse,
    parser,
    prompt_ids,
    set_length,
    static_cache,
    tolerance,
    warmed_up,
)
from rmsnorm import use_triton_rmsnorm
from transformers import DynamicCache, Qwen3ForCausalLM, StaticCache


def rows_of(cache: StaticCache, model: Qwen3ForCausalLM, rows: int) -> StaticCache:
    """The first `rows` rows of `cache` as a cache of its own: the same memory, the same counters."""
    part = StaticCache(config=model.config, max_cache_len=cache.layers[0].max_cache_len)
    for layer, whole in zip(part.layers, cache.layers, strict=True):
        layer.keys, layer.values = whole.keys[:rows], whole.values[:rows]
        layer.cumulative_length = whole.cumulative_length
        layer.dtype, layer.device, layer.is_initialized = whole.dtype, whole.device, True
    return part


class DecodeRunner:
    """Decodes up to `max(buckets)` rows, one token for all rows per `step`."""

    def __init__(self, model: Qwen3ForCausalLM, buckets: list[int], max_length: int) -> None:
        self.model = model
        self.buckets = sorted(buckets)
        rows = self.buckets[-1]
        self.cache = static_cache(model, rows, max_length)
        self.caches = {bucket: rows_of(self.cache, model, bucket) for bucket in self.buckets}
        self.slots = torch.arange(max_length, device=model.device)
        self.ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)
        self.first = torch.zeros(rows, dtype=torch.int64, device=model.device)
        self.length = 0
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.logits: dict[int, torch.Tensor] = {}

    def decode(self, bucket: int) -> torch.Tensor:
        """One token for each row of the bucket: logits, bucket x vocabulary. This is what a graph holds."""
        cache, first = self.caches[bucket], self.first[:bucket, None]
        slot = cache.layers[0].cumulative_length
        visible = (self.slots <= slot) & (self.slots >= first)
        out = self.model(
            input_ids=self.ids[:bucket],
            attention_mask={"full_attention": visible[:, None, None, :]},
            position_ids=slot - first,
            past_key_values=cache,
            use_cache=True,
        )
        return out.logits[:, -1]

    @torch.no_grad()
    def capture(self) -> None:
        """Large to small: each graph then finds room in what the larger one has left in the pool."""
        for bucket in reversed(self.buckets):
            warmed_up(lambda bucket=bucket: self.decode(bucket))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.logits[bucket] = self.decode(bucket)
            self.graphs[bucket] = graph
        # Warm-up and capture moved the counters and wrote the first slots; a prefill writes those again.
        self.set_length(0)

    def set_length(self, length: int) -> None:
        self.length = length
        set_length(self.cache, length)

    def bucket_for(self, rows: int) -> int:
        return next(bucket for bucket in self.buckets if bucket >= rows)

    @torch.no_grad()
    def prefill(self, prompts: list[torch.Tensor]) -> torch.Tensor:
        """Fill the cache with prompts (1-D each), eagerly; logits of their last tokens, rows x vocabulary.

        Each prompt runs by itself, without padding, and its keys and values go where its row has them.
        """
        longest = max(len(prompt) for prompt in prompts)
        logits = []
        for row, prompt in enumerate(prompts):
            own = DynamicCache(config=self.model.config)
            out = self.model(input_ids=prompt[None], past_key_values=own, use_cache=True, logits_to_keep=1)
            first = longest - len(prompt)
            for layer, filled in zip(self.cache.layers, own.layers, strict=True):
                layer.keys[row, :, first:longest].copy_(filled.keys[0])
                layer.values[row, :, first:longest].copy_(filled.values[0])
            self.first[row].fill_(first)
            logits.append(out.logits[0, -1])
        self.set_length(longest)
        return torch.stack(logits)

    def load(self, ids: torch.Tensor, rows: int, bucket: int) -> None:
        """Put the next tokens (rows x 1) in place; padding rows see nothing but the token that they write."""
        self.ids[:rows].copy_(ids)
        self.ids[rows:bucket].zero_()
        self.first[rows:bucket].fill_(self.length)

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        """Decode one token for each row of `ids` (rows x 1): logits, rows x vocabulary, the caller's own copy."""
        rows = ids.shape[0]
        bucket = self.bucket_for(rows)
        self.load(ids, rows, bucket)
        self.graphs[bucket].replay()
        self.length += 1
        return self.logits[bucket][:rows].clone()

    @torch.no_grad()
    def step_eager(self, ids: torch.Tensor) -> torch.Tensor:
        """The same without a graph, for timing."""
        rows = ids.shape[0]
        bucket = self.bucket_for(rows)
        self.load(ids, rows, bucket)
        self.length += 1
        return self.decode(bucket)[:rows]


def generate(
    runner: DecodeRunner, prompts: list[torch.Tensor], budgets: list[int]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Greedy decoding of `budgets[i]` tokens for prompt i, budgets falling, so finished rows leave from the end.

    Returns per request its tokens (budget) and the logits that chose them (budget x vocabulary).
    """
    logits = runner.prefill(prompts)
    tokens: list[list[torch.Tensor]] = [[] for _ in prompts]
    chosen_by: list[list[torch.Tensor]] = [[] for _ in prompts]
    for done in range(1, max(budgets) + 1):
        ids = logits.argmax(-1, keepdim=True)
        for row in range(len(logits)):
            tokens[row].append(ids[row])
            chosen_by[row].append(logits[row])
        active = sum(budget > done for budget in budgets)
        if active:
            logits = runner.step(ids[:active])
    return [torch.cat(row) for row in tokens], [torch.stack(row) for row in chosen_by]


@torch.no_grad()
def reference(model: Qwen3ForCausalLM, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Logits for each of `tokens` after `prompt`, from one plain forward: tokens x vocabulary."""
    whole = torch.cat([prompt, tokens[:-1]])[None]
    return model(input_ids=whole, use_cache=False, logits_to_keep=len(tokens)).logits[0]


def timings(runner: DecodeRunner, args: argparse.Namespace) -> dict[str, object]:
    """Eager and replay time of one step of each bucket, in ms."""
    figures: dict[str, object] = {}
    for bucket in runner.buckets:
        ids = torch.zeros(bucket, 1, dtype=torch.int64, device=args.device)

        def at_half(step, ids=ids):
            runner.set_length(len(runner.slots) // 2)
            return step(ids)

        eager = milliseconds(lambda: at_half(runner.step_eager), 10)
        replay = milliseconds(lambda: at_half(runner.step), 10)
        figures[f"batch {bucket}"] = {"eager_ms": round(eager, 2), "replay_ms": round(replay, 2)}
    return figures


def decode_all(model: Qwen3ForCausalLM, args: argparse.Namespace) -> tuple[float, dict[str, object]]:
    """Capture all buckets and decode two batches: how far the logits are off eager, and figures."""
    runner = DecodeRunner(model, args.buckets, args.max_length)
    start = time.perf_counter()
    runner.capture()
    torch.cuda.synchronize()
    figures: dict[str, object] = {"capture_s": round(time.perf_counter() - start, 2)}

    rows = max(args.buckets) * 3 // 4 or 1
    ids = prompt_ids(model, args, rows, 24)
    prompts = [ids[row, : 24 - 3 * (row % 5)] for row in range(rows)]
    budgets = [max(1, args.tokens - row) for row in range(rows)]
    worst = 0.0
    for _ in range(2):  # the second batch finds the first one's leavings in the cache
        tokens, logits = generate(runner, prompts, budgets)
        for prompt, chosen, got in zip(prompts, tokens, logits, strict=True):
            worst = max(worst, deviation(got, reference(model, prompt, chosen)))
        prompts.reverse()
    figures["off"] = worst
    if args.bench:
        figures.update(timings(runner, args))
    return worst, figures


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--buckets", type=int, nargs="+", default=[1, 2, 4, 8])
    options.add_argument("--max-length", type=int, default=512)
    options.add_argument("--tokens", type=int, default=12, help="tokens to decode for the longest request")
    options.add_argument("--rmsnorm", nargs="+", choices=["torch", "triton"], default=["torch"])
    options.add_argument("--bench", action="store_true", help="time one step of each bucket, eager and replayed")
    args = parse(options)
    model = build_model(args)
    figures: dict[str, object] = {}
    worst = 0.0
    for norm in args.rmsnorm:
        if norm == "triton":
            use_triton_rmsnorm(model)
        off, figures[f"rmsnorm by {norm}"] = decode_all(model, args)
        print(f"rmsnorm by {norm}: {figures[f'rmsnorm by {norm}']}")
        worst = max(worst, off)
    outcome = "ok" if worst <= tolerance(args) else "wrong-result"
    finish(args, outcome, f"logits within {worst:.2g} of eager", figures)


if __name__ == "__main__":
    main()
