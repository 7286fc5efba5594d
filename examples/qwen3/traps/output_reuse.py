# fault: each step's logits are kept as they are; all of them are the graph's one output, which every replay overwrites
# outcome: wrong-result
"""Decoding that keeps the logits of all steps, to score the answer afterwards."""

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


class Decoder:
    def __init__(self, model: Qwen3ForCausalLM, rows: int, length: int) -> None:
        self.model = model
        self.cache = static_cache(model, rows, length)
        self.ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)

    def decode(self) -> torch.Tensor:
        return self.model(input_ids=self.ids, past_key_values=self.cache, use_cache=True).logits[:, -1]

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
        return self.logits


def scored_answer(decoder: Decoder, prompts: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences, rows x length, and the logits that chose their last tokens, rows x tokens x vocabulary."""
    logits = decoder.prefill(prompts)
    sequence, scores = prompts, [logits]
    for _ in range(tokens - 1):
        ids = logits.argmax(-1, keepdim=True)
        sequence = torch.cat([sequence, ids], dim=1)
        logits = decoder.step(ids)
        scores.append(logits)  # expect: output-reuse
    return sequence, torch.stack(scores, dim=1)


@torch.no_grad()
def main() -> None:
    args = parse(parser(__doc__))
    model = build_model(args)
    decoder = Decoder(model, rows=4, length=64)
    decoder.capture()
    sequence, scores = scored_answer(decoder, prompt_ids(model, args, 4, 8), tokens=4)
    wanted = model(input_ids=sequence, use_cache=False, logits_to_keep=4).logits
    off = deviation(scores, wanted)
    finish(args, "ok" if off <= tolerance(args) else "wrong-result", f"kept logits {off:.2g} off eager")


if __name__ == "__main__":
    main()
