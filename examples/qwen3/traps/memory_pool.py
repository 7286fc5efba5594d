# fault: graphs of two batch sizes share a pool, and the small one's logits are read after the large one was replayed
# outcome: wrong-result
"""Two groups of requests decoded side by side, on the bucket that fits each. The outputs are read when both are done.

The small graph was captured second, into memory that the large one uses for its intermediate results. So the shared
pool is right only for outputs that are read or cloned before a graph captured earlier runs again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import (
    build_model,
    deviation,
    finish,
    parse,
    parser,
    prompt_ids,
    set_length,
    static_cache,
    tolerance,
    warmed_up,
)
from transformers import Qwen3ForCausalLM


class Buckets:
    def __init__(self, model: Qwen3ForCausalLM, sizes: list[int], length: int) -> None:
        self.model = model
        self.sizes = sorted(sizes, reverse=True)
        self.caches = {size: static_cache(model, size, length) for size in self.sizes}
        self.ids = {size: torch.zeros(size, 1, dtype=torch.int64, device=model.device) for size in self.sizes}
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.logits: dict[int, torch.Tensor] = {}

    def decode(self, size: int) -> torch.Tensor:
        out = self.model(input_ids=self.ids[size], past_key_values=self.caches[size], use_cache=True)
        return out.logits[:, -1]

    @torch.no_grad()
    def capture(self) -> None:
        for size in self.sizes:
            warmed_up(lambda size=size: self.decode(size))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):  # expect: memory-pool
                self.logits[size] = self.decode(size)
            self.graphs[size] = graph

    @torch.no_grad()
    def prefill(self, prompts: torch.Tensor) -> torch.Tensor:
        cache = self.caches[len(prompts)]
        set_length(cache, 0)
        return self.model(input_ids=prompts, past_key_values=cache, use_cache=True).logits[:, -1]

    def step_all(self, ids: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """A step of every batch, small to large: the graphs were captured large to small."""
        for size in reversed(self.sizes):
            self.ids[size].copy_(ids[size])
            self.graphs[size].replay()
        return {size: self.logits[size].clone() for size in self.sizes}


@torch.no_grad()
def main() -> None:
    args = parse(parser(__doc__))
    model = build_model(args)
    buckets = Buckets(model, [4, 8], length=256)
    buckets.capture()
    groups = {size: prompt_ids(model, args, size, 8) for size in (4, 8)}
    first = {size: buckets.prefill(group).argmax(-1, keepdim=True) for size, group in groups.items()}
    got = buckets.step_all(first)
    off = {}
    for size, group in groups.items():
        sequence = torch.cat([group, first[size]], dim=1)
        wanted = model(input_ids=sequence, use_cache=False, logits_to_keep=1).logits[:, -1]
        off[size] = deviation(got[size], wanted)
    outcome = "ok" if max(off.values()) <= tolerance(args) else "wrong-result"
    finish(args, outcome, f"logits of the small batch {off[4]:.2g} off eager, of the large one {off[8]:.2g}")


if __name__ == "__main__":
    main()
