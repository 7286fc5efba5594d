# right: the graph holds no collective, so the order in which it and the group go does not matter
# outcome: static-only
# run with: torchrun --nproc-per-node 2 FILE
# outcome on two GPUs: ok
import os

import torch
import torch.distributed as dist


def main() -> float:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    share = torch.ones(4, device="cuda")
    share * 0.5
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        half = share * 0.5
    graph.replay()
    dist.all_reduce(half)
    total = half.sum().item()
    dist.destroy_process_group()  # fine: the collective ran outside the graph
    return total


if __name__ == "__main__":
    if torch.cuda.device_count() < 2 or "LOCAL_RANK" not in os.environ:
        print("OUTCOME: static-only needs two GPUs and torchrun")
    else:
        print("OUTCOME:", "ok" if main() == 2.0 * int(os.environ["WORLD_SIZE"]) else "wrong-result")
