# fault: a cascade of classifiers stops as soon as one is confident, and the loop asks the GPU
# outcome: capture-error
import torch
from torch import nn


class Cascade(nn.Module):
    def __init__(self, width, classes, depth):
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.heads = nn.ModuleList(nn.Linear(width, classes) for _ in range(depth))

    def forward(self, x):
        answer = x.new_zeros(x.shape[0], self.heads[0].out_features)
        open_rows = torch.ones(x.shape[0], 1, dtype=torch.bool, device=x.device)
        for stage, head in zip(self.stages, self.heads):  # fine: a fixed number of layers
            x = torch.tanh(stage(x))
            probs = head(x).softmax(-1)
            answer = torch.where(open_rows, probs, answer)
            open_rows = open_rows & (probs.amax(-1, keepdim=True) < 0.5)
            if not open_rows.any():  # expect: tensor-control-flow
                break
        return answer


def main():
    model = Cascade(8, 4, 3).cuda().requires_grad_(False)
    x = torch.randn(4, 8, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = model(x)
    x.normal_()
    graph.replay()
    return torch.allclose(answer, model(x), atol=1e-5), f"{answer.sum().item():.3f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
