# right: the history buffer is cleared in place for the next song
# outcome: ok
import torch
from torch import nn


class EchoFilter(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.decay = nn.Parameter(torch.full((taps,), 0.5), requires_grad=False)
        self.history = torch.zeros(taps, device="cuda")

    def new_song(self):
        self.history.zero_()  # fine: in place

    def forward(self, chunk):
        self.history.mul_(self.decay).add_(chunk)
        return self.history + chunk


class Player:
    def __init__(self, effect, taps):
        self.effect = effect
        self.chunk = torch.zeros(taps, device="cuda")
        for _ in range(3):
            effect(self.chunk)
        torch.cuda.synchronize()
        effect.history = torch.zeros(taps, device="cuda")  # fine: after the warm-up, before the capture
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.sound = effect(self.chunk)

    def play(self, song):
        self.effect.new_song()
        for chunk in song:
            self.chunk.copy_(chunk)
            self.graph.replay()
        return self.sound.clone()


if __name__ == "__main__":
    player = Player(EchoFilter(4).cuda(), 4)
    song = torch.ones(3, 4, device="cuda")
    first, second = player.play(song), player.play(song)
    gap = (first - second).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-5 else 'stale-result'} the same song differs by {gap:.3f}")
