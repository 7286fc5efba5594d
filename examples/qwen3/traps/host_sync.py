# fault: the next token's position is read on the host: get_seq_length() of a StaticCache is a tensor
# outcome: capture-error
"""Decoding with the position computed from the cache's length. Eagerly it is right, and costs one sync a token."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import (
    against_eager,
    build_model,
    cause,
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


class Decoder:
    def __init__(self, model: Qwen3ForCausalLM, rows: int, length: int) -> None:
        self.model = model
        self.cache = static_cache(model, rows, length)
        self.ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)

    def positions(self) -> torch.Tensor:
        seen = int(self.cache.get_seq_length())  # expect: host-sync
        return torch.full_like(self.ids, seen)

    def decode(self) -> torch.Tensor:
        out = self.model(input_ids=self.ids, position_ids=self.positions(), past_key_values=self.cache, use_cache=True)
        return out.logits[:, -1]

    @torch.no_grad()
    def capture(self) -> None:
        warmed_up(self.decode)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = self.decode()

    @torch.no_grad()
    def prefill(self, prompts: torch.Tensor) -> torch.Tensor:
        set_length(self.cache, 0)
        return self.model(input_ids=prompts, past_key_values=self.cache, use_cache=True).logits[:, -1]

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(ids)
        self.graph.replay()
        return self.logits.clone()


def main() -> None:
    args = parse(parser(__doc__))
    model = build_model(args)
    decoder = Decoder(model, rows=4, length=64)
    try:
        decoder.capture()
    except RuntimeError as error:
        finish(args, "capture-error", cause(error))
        return
    off = against_eager(model, decoder.prefill, decoder.step, prompt_ids(model, args, 4, 8), tokens=4)
    finish(args, "ok" if off <= tolerance(args) else "stale-result", f"logits {off:.2g} off eager")


if __name__ == "__main__":
    main()
