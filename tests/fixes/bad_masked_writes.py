# fault: elements chosen by a mask are read and written, which counts the mask on the host
# outcome: capture-error
import torch


class Repair:
    def __init__(self, rows: int, width: int) -> None:
        self.field = torch.randn(rows, width, device="cuda")
        self.backup = torch.randn(rows, width, device="cuda")
        self.seen = torch.zeros(rows, device="cuda")
        self.level = torch.full((), 0.5, device="cuda")

    def step(self) -> list[torch.Tensor]:
        wild = self.field > 1.0
        live = self.backup[:, 0] > 0.0
        field = self.field.clone()
        field[wild] = self.backup[wild]  # by elements
        field[live] += self.backup[live]  # by rows
        self.seen[live] = self.level
        kept = torch.masked_select(self.field, wild).sum()
        return [field, self.seen.clone(), self.field[wild].sum(), self.field[live].sum(), self.field[wild].mean(), kept]


if __name__ == "__main__":
    torch.manual_seed(0)
    repair = Repair(6, 4)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            want = repair.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = repair.step()
        graph.replay()
        same = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(out, want, strict=True))
        print("OUTCOME:", "ok" if same else "wrong-result")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
