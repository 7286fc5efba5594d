# right: the buffers are saved before the warm-up and put back in place
# outcome: ok
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 1)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(signal)))


def accelerate(block: nn.Module, like: torch.Tensor) -> nn.Module:
    sample = torch.zeros_like(like)
    saved = {name: buffer.clone() for name, buffer in block.named_buffers()}
    graphed = torch.cuda.make_graphed_callables(block, (sample,))  # fine: the statistics are restored below
    for name, buffer in block.named_buffers():
        buffer.copy_(saved[name])
    return graphed


if __name__ == "__main__":
    torch.manual_seed(0)
    block = Block(3).cuda().train()
    signal = torch.randn(8, 3, 10, device="cuda") * 2 + 5
    for _ in range(4):
        block(signal)
    before = block.norm.running_var.clone()
    block = accelerate(block, signal)
    drift = (block.norm.running_var - before).abs().max().item()
    print("OUTCOME:", "ok" if drift == 0 else "wrong-result", f"running variance moved by {drift:.4f} without any data")
