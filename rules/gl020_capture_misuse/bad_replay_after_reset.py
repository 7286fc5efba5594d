# fault: the graph is reset to save memory, and replayed afterwards
# outcome: capture-error
import torch


class Heater:
    def __init__(self) -> None:
        self.plate = torch.ones(9, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.capture()

    def diffuse(self) -> torch.Tensor:
        return self.plate * 0.5 + self.plate.mean() * 0.5

    def capture(self) -> None:
        self.diffuse()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.next = self.diffuse()

    def sleep(self) -> None:
        self.graph.reset()

    def step(self) -> None:
        self.graph.replay()  # expect: capture-misuse
        self.plate.copy_(self.next)


if __name__ == "__main__":
    heater = Heater()
    try:
        heater.step()
        heater.sleep()
        heater.plate.fill_(7.0)
        heater.step()
        got = heater.plate.sum().item()
        print("OUTCOME:", "ok" if abs(got - 63.0) < 1e-3 else "wrong-result", got)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
