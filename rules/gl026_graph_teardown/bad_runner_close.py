# fault: close() takes the group down first and lets go of the graph afterwards
# outcome: static-only
# run with: torchrun --nproc-per-node 2 FILE
# outcome on two GPUs: hang
import os

import torch
import torch.distributed as dist
from torch import nn


class TensorParallelLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.shard = nn.Linear(width, width, bias=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        partial = self.shard(rows)
        dist.all_reduce(partial)
        return partial


class DecodeRunner:
    def __init__(self, width: int) -> None:
        self.layer = TensorParallelLayer(width).cuda().requires_grad_(False)
        self.rows = torch.zeros(2, width, device="cuda")
        self.layer(self.rows)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.layer(self.rows)

    def run(self, rows: torch.Tensor) -> torch.Tensor:
        self.rows.copy_(rows)
        self.graph.replay()
        return self.out.clone()

    def close(self) -> None:
        dist.destroy_process_group()  # expect: graph-teardown
        del self.graph


def main() -> bool:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    runner = DecodeRunner(8)
    out = runner.run(torch.ones(2, 8, device="cuda"))
    runner.close()
    return bool(out.isfinite().all())


if __name__ == "__main__":
    if torch.cuda.device_count() < 2 or "LOCAL_RANK" not in os.environ:
        print("OUTCOME: static-only needs two GPUs and torchrun")
    else:
        print("OUTCOME:", "ok" if main() else "wrong-result")
