# fault: the first call of the network is the captured one, so cuBLAS is set up inside the capture
# outcome: capture-error
import torch
from torch import nn


class Speller(nn.Module):
    def __init__(self, letters, width):
        super().__init__()
        self.table = nn.Embedding(letters, width)
        self.mix = nn.Linear(width, letters)

    def forward(self, ids):
        return self.mix(self.table(ids).mean(1))


class Server:
    def __init__(self, model, rows, length):
        self.model = model
        self.ids = torch.zeros(rows, length, dtype=torch.int64, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    @torch.no_grad()
    def start(self):
        with torch.cuda.graph(self.graph):  # expect: missing-warmup
            self.scores = self.model(self.ids)

    def __call__(self, ids):
        self.ids.copy_(ids)
        self.graph.replay()
        return self.scores.clone()


def main():
    server = Server(Speller(26, 8).cuda().requires_grad_(False), 2, 5)
    server.start()
    ids = torch.randint(0, 26, (2, 5), device="cuda")
    gap = (server(ids) - server.model(ids)).abs().max().item()
    return gap < 1e-5, f"off by {gap:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
