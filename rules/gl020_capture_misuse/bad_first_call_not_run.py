# fault: the call that captures does not replay; a capture only records, so the first update is lost
# outcome: wrong-result
from collections.abc import Callable

import torch


def graphed(update: Callable[[], None]) -> Callable[[], None]:
    """Captures `update` on the first call and replays it on every later one."""
    graph: torch.cuda.CUDAGraph | None = None

    def call() -> None:
        nonlocal graph
        if graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # expect: capture-misuse
                update()
        else:
            graph.replay()

    return call


balance = torch.full((4,), 100.0, device="cuda")
rate = torch.full((4,), 1.1, device="cuda")


def accrue() -> None:
    balance.mul_(rate)


if __name__ == "__main__":
    accrue()  # warm-up
    balance.fill_(100.0)
    step = graphed(accrue)
    for _ in range(3):
        step()
    got, want = balance[0].item(), 100.0 * 1.1**3
    print("OUTCOME:", "ok" if abs(got - want) < 0.01 else "wrong-result", f"{got:.2f}, should be {want:.2f}")
