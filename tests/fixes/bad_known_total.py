# fault: the repeats add up to a number that the host knows, but is not told
# outcome: capture-error
import torch


class Stretch:
    def __init__(self, syllables: int, total_frames: int) -> None:
        self.sounds = torch.randn(syllables, 3, device="cuda")
        self.lengths = torch.full((syllables,), total_frames // syllables, dtype=torch.long, device="cuda")
        self.total_frames = total_frames

    def frames(self) -> torch.Tensor:
        return self.sounds.repeat_interleave(self.lengths, dim=0)


if __name__ == "__main__":
    torch.manual_seed(0)
    stretch = Stretch(3, 12)
    stretch.frames()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            frames = stretch.frames()
        stretch.lengths.copy_(torch.tensor([2, 9, 1], device="cuda"))
        graph.replay()
        same = torch.equal(frames, torch.repeat_interleave(stretch.sounds, stretch.lengths, dim=0))
        print("OUTCOME:", "ok" if same else "wrong-result")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
