# fault: the warm-up writes dummy rows into the history buffer and advances its cursor, and nothing resets them
# outcome: wrong-result
import torch


class Recorder:
    def __init__(self, slots: int, width: int) -> None:
        self.history = torch.zeros(slots, width, device="cuda")
        self.cursor = torch.zeros(1, dtype=torch.long, device="cuda")
        self.row = torch.zeros(1, width, device="cuda")

    def write(self) -> torch.Tensor:
        self.history.index_copy_(0, self.cursor, self.row)
        self.cursor.add_(1)
        return self.history.sum(0)

    def reset(self) -> None:
        self.history.zero_()
        self.cursor.zero_()

    def capture(self) -> None:
        self.row.fill_(9.0)  # a dummy row
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.write()  # expect: warmup-side-effect
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.total = self.write()

    def push(self, value: float) -> float:
        self.row.fill_(value)
        self.graph.replay()
        return self.total[0].item()


if __name__ == "__main__":
    recorder = Recorder(8, 2)
    recorder.capture()
    recorder.push(1.0)
    total = recorder.push(2.0)
    print("OUTCOME:", "ok" if total == 3.0 else "wrong-result", f"total {total}, should be 3.0")
