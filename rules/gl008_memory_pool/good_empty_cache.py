# right: it is given back before the capture
# outcome: ok
import torch

SIZE = 128 << 20


class Pipeline:
    def __init__(self):
        self.x = torch.zeros(256, device="cuda")
        self.scratch = torch.empty(SIZE, dtype=torch.uint8, device="cuda")

    def stage(self):
        block = torch.ones(SIZE, dtype=torch.uint8, device="cuda")
        return self.x * 3.0 + block[:256]

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.x * 3.0
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.scratch = None
        torch.cuda.empty_cache()  # fine: before the capture
        with torch.cuda.graph(graph):
            y = self.stage()
        return graph, y


def main():
    torch.cuda.empty_cache()
    pipeline = Pipeline()
    graph, y = pipeline.capture()
    graph.replay()
    reserved = torch.cuda.memory_reserved() >> 20
    return reserved < 200 and y[0].item() == 1.0, f"{reserved} MiB reserved"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "memory", note)
