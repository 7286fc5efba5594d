# fault: GradScaler.step reads on the host whether a gradient overflowed, unless the optimizer is fused
# outcome: capture-error
import torch
from torch import nn


class MixedTrainer:
    def __init__(self):
        self.net = nn.Linear(8, 4).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=128.0)
        self.x, self.y = torch.randn(16, 8, device="cuda"), torch.randn(16, 4, device="cuda")

    def iteration(self):
        with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
            loss = nn.functional.mse_loss(self.net(self.x).float(), self.y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)  # expect: optimizer-in-capture
        self.scaler.update()
        return loss

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.optimizer.zero_grad(set_to_none=True)
                self.iteration()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.iteration()


def main():
    trainer = MixedTrainer()
    trainer.capture()
    trainer.graph.replay()
    first = trainer.loss.item()
    for _ in range(20):
        trainer.graph.replay()
    return trainer.loss.item() < first, f"{first:.4f} -> {trainer.loss.item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
