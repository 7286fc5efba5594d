# fault: the step asks a CUDA tensor whether any row has ended, so the branch needs its value on the host
# outcome: capture-error
"""Decoding that keeps finished rows at the end-of-text token, "only when there are any"."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import build_model, cause, finish, parse, parser, prompt_ids, set_length, static_cache, warmed_up
from transformers import Qwen3ForCausalLM


class Decoder:
    def __init__(self, model: Qwen3ForCausalLM, rows: int, length: int) -> None:
        self.model = model
        self.eos = model.config.eos_token_id
        self.cache = static_cache(model, rows, length)
        self.ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)
        self.ended = torch.zeros(rows, 1, dtype=torch.bool, device=model.device)

    def hold_ended(self, token: torch.Tensor) -> torch.Tensor:
        self.ended |= token == self.eos
        if self.ended.any():  # expect: tensor-control-flow
            token = token.masked_fill(self.ended, self.eos)
        return token

    def decode(self) -> torch.Tensor:
        out = self.model(input_ids=self.ids, past_key_values=self.cache, use_cache=True)
        return self.hold_ended(out.logits[:, -1].argmax(-1, keepdim=True))

    @torch.no_grad()
    def capture(self) -> None:
        warmed_up(self.decode)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.next = self.decode()

    @torch.no_grad()
    def prefill(self, prompts: torch.Tensor) -> torch.Tensor:
        set_length(self.cache, 0)
        self.ended.zero_()
        out = self.model(input_ids=prompts, past_key_values=self.cache, use_cache=True)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(ids)
        self.graph.replay()
        return self.next.clone()


def main() -> None:
    args = parse(parser(__doc__))
    model = build_model(args)
    decoder = Decoder(model, rows=4, length=64)
    try:
        decoder.capture()
    except RuntimeError as error:
        finish(args, "capture-error", cause(error))
        return
    ids = decoder.prefill(prompt_ids(model, args, 4, 8))
    decoder.ended[0].fill_(True)
    token = decoder.step(ids)
    held = int(token[0]) == decoder.eos
    finish(args, "ok" if held else "wrong-result", f"a finished row goes on with token {int(token[0])}")


if __name__ == "__main__":
    main()
