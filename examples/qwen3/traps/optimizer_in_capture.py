# fault: the whole training step is captured with AdamW(fused=True); fused is not capturable, and torch refuses
# outcome: capture-error
"""A whole training step in one graph, its optimizer built as in eager training."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import build_model, cause, finish, parse, parser, prompt_ids, warmed_up
from transformers import Qwen3ForCausalLM


class Trainer:
    def __init__(self, model: Qwen3ForCausalLM, batch: torch.Tensor) -> None:
        self.model = model
        self.ids = batch.clone()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def train(self) -> torch.Tensor:
        out = self.model(input_ids=self.ids, labels=self.ids, attention_mask={"full_attention": None}, use_cache=False)
        out.loss.backward()
        self.optimizer.step()  # expect: optimizer-in-capture
        return out.loss.detach()

    def train_afresh(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.train()

    def capture(self) -> None:
        warmed_up(self.train_afresh)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.train()

    def step(self, batch: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(batch)
        self.graph.replay()
        return self.loss.clone()


def main() -> None:
    args = parse(parser(__doc__))
    model = build_model(args).train()
    batch = prompt_ids(model, args, 1, 64)
    trainer = Trainer(model, batch)
    try:
        trainer.capture()
    except RuntimeError as error:
        finish(args, "capture-error", cause(error))
        return
    losses = [float(trainer.step(batch)) for _ in range(4)]
    finish(args, "ok" if losses[-1] < losses[0] else "wrong-result", f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
