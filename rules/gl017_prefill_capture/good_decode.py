# right: decoding has one token per sequence and a fixed batch, so it is captured; the prompt pass stays eager
# outcome: ok
import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.cell = nn.Linear(dim, dim, bias=False)
        self.register_buffer("state", torch.zeros(2, dim))

    def forward(self, token):
        self.state.copy_(torch.tanh(self.cell(token) + self.state))
        return self.state * 2.0


class Generator:
    def __init__(self, model, dim):
        self.model = model
        self.token = torch.zeros(2, dim, device="cuda")
        for _ in range(3):
            model(self.token)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # fine: a decode step
            self.out = model(self.token)

    def prefill(self, prompt):
        self.model.state.zero_()
        for token in prompt.unbind(1):
            out = self.model(token)  # fine: the prompt runs eagerly, at its own length
        return out

    def decode(self, token):
        self.token.copy_(token)
        self.graph.replay()
        return self.out.clone()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    generator = Generator(Recurrent(4).cuda(), 4)
    prompt = torch.randn(2, 5, 4, device="cuda")
    got = generator.decode(generator.prefill(prompt))
    want = generator.model(generator.prefill(prompt))
    print(f"OUTCOME: {'ok' if torch.allclose(got, want, atol=1e-5) else 'wrong-result'} {got.sum().item():.4f}")


main()
