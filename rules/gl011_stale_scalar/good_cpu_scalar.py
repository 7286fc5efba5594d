# right: the changing factor is a CUDA tensor; a CPU scalar that never changes may stay one
# outcome: ok
import torch


class Limiter:
    def __init__(self, samples):
        self.samples = torch.zeros(samples, device="cuda")
        self.threshold = torch.ones((), device="cuda")
        self.unit = torch.tensor(1.0)
        for _ in range(3):
            self.samples * self.threshold * self.unit
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scaled = self.samples * self.threshold * self.unit  # fine: `unit` is never written

    def limit(self, samples, threshold):
        self.samples.copy_(samples)
        self.threshold.fill_(threshold)
        self.graph.replay()
        return self.scaled.clone()


if __name__ == "__main__":
    limiter = Limiter(4)
    got = limiter.limit(torch.ones(4, device="cuda"), 0.25)[0].item()
    print(f"OUTCOME: {'ok' if got == 0.25 else 'stale-result'} {got} (want 0.25)")
