# fault: the captured step decodes with a DynamicCache, which grows by torch.cat: the growth happens once, at capture
# outcome: wrong-result
"""Decoding with the default cache. Capture and replay raise no error; from the second token on the answer is wrong.

Each replay joins the prompt's keys with one new key, again and again in the same place and at the same position. And
the cache let go of the prompt's keys when the capture bound the joined ones, so their memory may hold anything by then.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import against_eager, build_model, finish, parse, parser, prompt_ids, tolerance, warmed_up
from transformers import DynamicCache, Qwen3ForCausalLM


class Decoder:
    def __init__(self, model: Qwen3ForCausalLM, rows: int) -> None:
        self.model = model
        self.ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)

    def decode(self, cache: DynamicCache) -> torch.Tensor:
        out = self.model(input_ids=self.ids, past_key_values=cache, use_cache=True)  # expect: side-effect
        return out.logits[:, -1]

    @torch.no_grad()
    def prefill(self, prompts: torch.Tensor) -> torch.Tensor:
        """Fill a new cache and capture a step on it."""
        self.cache = DynamicCache(config=self.model.config)
        logits = self.model(input_ids=prompts, past_key_values=self.cache, use_cache=True).logits[:, -1]
        warmed_up(lambda: self.decode(DynamicCache(config=self.model.config)))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = self.decode(self.cache)
        return logits

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(ids)
        self.graph.replay()
        return self.logits.clone()


def main() -> None:
    args = parse(parser(__doc__))
    model = build_model(args)
    decoder = Decoder(model, rows=4)
    off = against_eager(model, decoder.prefill, decoder.step, prompt_ids(model, args, 4, 4), tokens=8)
    length = decoder.cache.get_seq_length()
    finish(args, "ok" if off <= tolerance(args) else "wrong-result", f"logits {off:.2g} off eager, cache of {length}")


if __name__ == "__main__":
    main()
