"""The same loop without the faults: graphlint has nothing to say about it."""

import torch
from sampling_fixed import greedy
from torch import nn


class Decoder:
    def __init__(self, vocabulary: int, width: int, rows: int) -> None:
        self.embed = nn.Embedding(vocabulary, width, device="cuda")
        self.cell = nn.GRUCell(width, width, device="cuda")
        self.head = nn.Linear(width, vocabulary, device="cuda")
        self.ids = torch.zeros(rows, dtype=torch.int64, device="cuda")
        self.state = torch.zeros(rows, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def forward(self) -> torch.Tensor:
        self.state.copy_(self.cell(self.embed(self.ids), self.state))
        return greedy(self.head(self.state), limit=30.0)

    @torch.no_grad()
    def capture(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.forward()
        torch.cuda.current_stream().wait_stream(stream)
        self.state.zero_()
        with torch.cuda.graph(self.graph):
            self.token = self.forward()

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(ids)
        self.graph.replay()
        return self.token


def generate(decoder: Decoder, ids: torch.Tensor, steps: int) -> torch.Tensor:
    tokens = []
    for _ in range(steps):
        ids = decoder.step(ids)
        tokens.append(ids.clone())
    return torch.stack(tokens, dim=1)


if __name__ == "__main__":
    decoder = Decoder(vocabulary=128, width=32, rows=4)
    decoder.capture()
    ids = torch.zeros(4, dtype=torch.int64, device="cuda")
    answer = generate(decoder, ids, steps=8)
    decoder.state.zero_()
    decoder.ids.zero_()
    wanted = []
    with torch.no_grad():
        for _ in range(8):
            decoder.ids.copy_(decoder.forward())
            wanted.append(decoder.ids.clone())
    same = bool((answer == torch.stack(wanted, dim=1)).all())
    print("OUTCOME: ok  8 tokens as in eager decoding" if same else "OUTCOME: wrong-result")
