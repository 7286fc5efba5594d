# right: the host waits for the previous replay before it writes the pinned source
# outcome: ok
import torch


class SetPoint:
    """A control value that the host writes and every replay copies to the GPU."""

    def __init__(self) -> None:
        self.host = torch.zeros(2).pin_memory()
        self.dev = torch.zeros(2, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.done = torch.cuda.Event()
        self.control()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.out = self.control()

    def control(self) -> torch.Tensor:
        torch.cuda._sleep(20_000_000)  # fine: a kernel, stands for work that is still running
        self.dev.copy_(self.host, non_blocking=True)  # fine: pinned, asynchronous and kept alive
        return self.dev + 1

    def drive(self, value: float) -> torch.Tensor:
        self.done.synchronize()  # fine: outside the capture
        self.host[0] = value  # fine: the copy of the last replay is over
        self.graph.replay()
        self.done.record()
        return self.out.clone()


if __name__ == "__main__":
    point = SetPoint()
    results = [point.drive(float(value)) for value in (1, 2, 3, 4)]
    torch.cuda.synchronize()
    got = [result[0].item() for result in results]
    print("OUTCOME:", "ok" if got == [2.0, 3.0, 4.0, 5.0] else "wrong-result", got)
