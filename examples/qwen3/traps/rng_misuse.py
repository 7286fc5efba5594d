# fault: sampling inside the graph draws from a private generator that the graph was not told of
# outcome: capture-error
"""Sampling with a generator per server, for answers that can be repeated. Torch 2.14 registers it by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import build_model, cause, finish, parse, parser, prompt_ids, set_length, static_cache, warmed_up
from transformers import Qwen3ForCausalLM


class Sampler:
    """Draws from softmax(logits / temperature): the argmax of p / exponential noise, which needs no sync."""

    def __init__(self, device: torch.device, seed: int, temperature: float) -> None:
        self.generator = torch.Generator(device).manual_seed(seed)
        self.temperature = temperature

    def draw(self, logits: torch.Tensor) -> torch.Tensor:
        chances = torch.softmax(logits.float() / self.temperature, dim=-1)
        noise = torch.empty_like(chances).exponential_(generator=self.generator)  # expect: rng-misuse
        return (chances / noise).argmax(-1, keepdim=True)


class Decoder:
    def __init__(self, model: Qwen3ForCausalLM, rows: int, length: int) -> None:
        self.model = model
        self.sampler = Sampler(model.device, seed=7, temperature=0.8)
        self.cache = static_cache(model, rows, length)
        self.ids = torch.zeros(rows, 1, dtype=torch.int64, device=model.device)

    def decode(self) -> torch.Tensor:
        out = self.model(input_ids=self.ids, past_key_values=self.cache, use_cache=True)
        return self.sampler.draw(out.logits[:, -1])

    @torch.no_grad()
    def capture(self) -> None:
        warmed_up(self.decode)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.next = self.decode()

    @torch.no_grad()
    def prefill(self, prompts: torch.Tensor) -> torch.Tensor:
        set_length(self.cache, 0)
        out = self.model(input_ids=prompts, past_key_values=self.cache, use_cache=True)
        return self.sampler.draw(out.logits[:, -1])

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
    prompts = prompt_ids(model, args, 4, 8)
    drawn = []
    for _ in range(4):
        decoder.prefill(prompts)
        drawn.append(decoder.step(torch.zeros_like(decoder.ids)))
    fresh = int((drawn[0] != torch.stack(drawn[1:])).sum())
    finish(args, "ok" if fresh else "stale-result", f"{fresh} of {3 * drawn[0].numel()} draws differ from the first")


if __name__ == "__main__":
    main()
