# right: the warm-up runs on a real batch of the training data
# outcome: ok
import torch
from torch import nn


class Trainer:
    def __init__(self, loader: list[torch.Tensor]) -> None:
        self.net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).cuda().train()
        self.loader = loader
        self.batch = loader[0].clone()
        self.graph = torch.cuda.CUDAGraph()

    def forward_backward(self) -> torch.Tensor:
        loss = self.net(self.batch).square().mean()
        loss.backward()
        return loss.detach()

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.net.zero_grad(set_to_none=True)
                self.forward_backward()  # fine: these are steps on training data
        torch.cuda.current_stream().wait_stream(side)
        self.net.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self.forward_backward()

    def run(self) -> float:
        for batch in self.loader:
            self.batch.copy_(batch)
            self.graph.replay()
        return self.net[1].running_var.min().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = [torch.randn(16, 4, device="cuda") * 8 for _ in range(2)]
    trainer = Trainer(loader)
    wants = []
    for warm_up in (0, 3):  # a warm-up on real data counts as steps of the training
        plain = nn.Sequential(*(nn.Linear(4, 4), nn.BatchNorm1d(4))).cuda().train()
        plain[0].load_state_dict(trainer.net[0].state_dict())
        for batch in [loader[0]] * warm_up + loader:
            plain(batch)
        wants.append(plain[1].running_var.min().item())
    trainer.capture()
    got = trainer.run()
    close = any(abs(got - want) < 0.02 * want for want in wants)
    print("OUTCOME:", "ok" if close else "wrong-result", f"variance {got:.2f}, should be one of {wants}")
