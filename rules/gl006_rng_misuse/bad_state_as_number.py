# fault: a hash noise takes its seed from the generator as a number, which the capture freezes
# outcome: stale-result
import torch


class HashNoise:
    def __init__(self, size):
        self.generator = torch.Generator()
        self.index = torch.arange(size, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def noise(self):
        seed = self.generator.initial_seed() % 9973  # expect: rng-misuse
        return ((self.index + 1) * 7919 + seed * 104729) % 1009

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.noise()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.out = self.noise()

    def sample(self, seed):
        self.generator.manual_seed(seed)
        self.graph.replay()
        return self.out.clone()


def main():
    noise = HashNoise(16)
    noise.build()
    return not torch.equal(noise.sample(11), noise.sample(12)), "two seeds"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "stale-result", note)
