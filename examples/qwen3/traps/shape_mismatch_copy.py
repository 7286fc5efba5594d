# fault: the last batch is smaller than the graph's; rows that it does not fill keep the batch before, and count
# outcome: wrong-result
"""Perplexity by a captured forward. The sequences do not divide evenly into batches."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import build_model, finish, parse, parser, prompt_ids, warmed_up
from transformers import Qwen3ForCausalLM


class Evaluator:
    def __init__(self, model: Qwen3ForCausalLM, rows: int, length: int) -> None:
        self.model = model
        self.ids = torch.zeros(rows, length, dtype=torch.int64, device=model.device)

    def total_loss(self, ids: torch.Tensor) -> torch.Tensor:
        """Summed loss of all tokens but the first of each row."""
        logits = self.model(input_ids=ids, attention_mask={"full_attention": None}, use_cache=False).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="sum")

    @torch.no_grad()
    def capture(self) -> None:
        warmed_up(lambda: self.total_loss(self.ids))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.total_loss(self.ids)

    def add(self, batch: torch.Tensor) -> torch.Tensor:
        self.ids[: len(batch)].copy_(batch)  # expect: shape-mismatch-copy
        self.graph.replay()
        return self.loss.clone()


@torch.no_grad()
def main() -> None:
    args = parse(parser(__doc__))
    model = build_model(args)
    rows, length = 4, 64
    evaluator = Evaluator(model, rows, length)
    evaluator.capture()
    sequences = prompt_ids(model, args, 2 * rows - 1, length)
    counted = sequences[:, 1:].numel()
    mean = float(sum(evaluator.add(batch) for batch in sequences.split(rows))) / counted
    wanted = float(evaluator.total_loss(sequences)) / counted
    close = abs(mean - wanted) <= 0.01 * wanted
    finish(args, "ok" if close else "wrong-result", f"mean loss {mean:.3f}, eager {wanted:.3f}")


if __name__ == "__main__":
    main()
