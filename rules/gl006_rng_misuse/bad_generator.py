# fault: a private generator that the graph was not told of
# outcome: capture-error
import torch


class Sampler:
    def __init__(self, logits, seed):
        self.logits = logits
        self.generator = torch.Generator(device="cuda")
        self.generator.manual_seed(seed)
        self.graph = torch.cuda.CUDAGraph()

    def draw(self):
        noise = torch.rand(self.logits.shape, device="cuda", generator=self.generator)  # expect: rng-misuse
        return (self.logits - (-noise.log()).log()).argmax(-1)

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.draw()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.picked = self.draw()


def main():
    sampler = Sampler(torch.zeros(64, 50, device="cuda"), seed=3)
    sampler.build()
    sampler.graph.replay()
    first = sampler.picked.clone()
    sampler.graph.replay()
    return not torch.equal(first, sampler.picked), f"{first.unique().numel()} of 50 picked"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "stale-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
