# fault: a number is assigned to a single element, which copies a zero-dimensional CPU tensor to the GPU
# outcome: capture-error
import torch


class Scoreboard:
    def __init__(self, players, rounds):
        self.best = torch.zeros(players, device="cuda")
        self.table = torch.zeros(players, rounds, device="cuda")
        self.winner = torch.zeros(1, dtype=torch.long, device="cuda")

    def update(self, points):
        self.table[:, 0] = points
        self.table[0, 1] = -1.0  # expect: host-copy
        self.best[0] = 0.5  # expect: host-copy
        self.best[self.winner] = 9.0  # expect: host-copy
        return self.best + self.table.sum(1)


if __name__ == "__main__":
    board, points = Scoreboard(4, 3), torch.ones(4, device="cuda")
    for _ in range(3):
        board.update(points)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = board.update(points)
        graph.replay()
        print("OUTCOME: ok", result.tolist())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
