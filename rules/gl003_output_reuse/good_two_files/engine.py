import torch


class Engine:
    """One graph. `run` returns the static output: use it, or copy it, before the next call."""

    def __init__(self, size):
        self.window = torch.linspace(0.0, 1.0, size, device="cuda")
        self.signal = torch.zeros(size, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.power(self.signal)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.spectrum = self.power(self.signal)

    def power(self, signal):
        return (signal * self.window).square().cumsum(0)

    def run(self, signal):
        self.signal.copy_(signal)
        self.graph.replay()
        return self.spectrum
