# right: the wait for the loader stands before the capture and before each replay, outside the graph
# outcome: ok
import torch


class Pipeline:
    def __init__(self, n):
        self.loader = torch.cuda.Stream()
        self.ready = torch.cuda.Event()
        self.x = torch.zeros(n, device="cuda")

    def load(self, value):
        self.loader.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.loader):
            self.x.fill_(value)
            self.ready.record()

    def compute(self):
        inner = torch.cuda.Event()
        inner.record()
        torch.cuda.current_stream().wait_event(inner)  # fine: recorded in the same capture
        return self.x.sqrt()

    def capture(self):
        self.load(4.0)
        torch.cuda.current_stream().wait_event(self.ready)
        for _ in range(3):
            self.compute()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.root = self.compute()

    def run(self, value):
        self.load(value)
        torch.cuda.current_stream().wait_event(self.ready)  # fine: eager
        self.graph.replay()  # fine: ordered after the loader
        return self.root.clone()


if __name__ == "__main__":
    pipeline = Pipeline(8)
    pipeline.capture()
    value = pipeline.run(9.0)[0].item()
    print(f"OUTCOME: {'ok' if value == 3.0 else 'stale-result'} {value} (want 3.0)")
