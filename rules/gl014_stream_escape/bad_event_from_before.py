# fault: the captured code waits for an event that was recorded before the capture began
# outcome: capture-error
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
        torch.cuda.current_stream().wait_event(self.ready)  # expect: stream-escape
        return self.x.sqrt()

    def capture(self):
        self.load(4.0)
        for _ in range(3):
            self.compute()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.root = self.compute()


if __name__ == "__main__":
    pipeline = Pipeline(8)
    try:
        pipeline.capture()
        pipeline.graph.replay()
        print("OUTCOME: ok", pipeline.root[0].item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
