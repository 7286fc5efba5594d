# fault: a server captures its graph at start-up, before anything ran: cuBLAS sets itself up in the capture
# outcome: capture-error
"""Capture at start-up. Cache and inputs exist; only nothing has run yet."""

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
)
from transformers import Qwen3ForCausalLM


class Server:
    def __init__(self, model: Qwen3ForCausalLM, rows: int, length: int) -> None:
        self.model = model
        self.cache = static_cache(model, rows, length)
        self.ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)

    def decode(self) -> torch.Tensor:
        return self.model(input_ids=self.ids, past_key_values=self.cache, use_cache=True).logits[:, -1]

    @torch.no_grad()
    def start(self) -> None:
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # expect: missing-warmup
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
    server = Server(model, rows=4, length=64)
    try:
        server.start()
    except RuntimeError as error:
        finish(args, "capture-error", cause(error))
        return
    off = against_eager(model, server.prefill, server.step, prompt_ids(model, args, 4, 8), tokens=4)
    finish(args, "ok" if off <= tolerance(args) else "wrong-result", f"logits {off:.2g} off eager")


if __name__ == "__main__":
    main()
