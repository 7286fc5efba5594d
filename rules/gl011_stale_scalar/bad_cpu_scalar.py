# fault: a zero-dimensional CPU tensor is passed to the kernel by value, so changing it later has no effect on the graph
# outcome: stale-result
import torch


class Limiter:
    def __init__(self, samples):
        self.samples = torch.zeros(samples, device="cuda")
        self.threshold = torch.tensor(1.0)
        for _ in range(3):
            self.samples * self.threshold
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scaled = self.samples * self.threshold  # expect: stale-scalar

    def limit(self, samples, threshold):
        self.samples.copy_(samples)
        self.threshold.fill_(threshold)
        self.graph.replay()
        return self.scaled.clone()


if __name__ == "__main__":
    limiter = Limiter(4)
    got = limiter.limit(torch.ones(4, device="cuda"), 0.25)[0].item()
    print(f"OUTCOME: {'ok' if got == 0.25 else 'stale-result'} {got} (want 0.25)")
