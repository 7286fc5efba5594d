# fault: the finally block destroys the group while a module-level table still holds the graphs
# outcome: static-only
# run with: torchrun --nproc-per-node 2 main.py
# outcome on two GPUs: hang
import os

import torch
import torch.distributed as dist

import graphs


def main() -> float:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    try:
        for size in (8, 4):
            graphs.record(size)
        return graphs.run(torch.ones(4, device="cuda")).sum().item()
    finally:
        dist.destroy_process_group()  # expect: graph-teardown


if __name__ == "__main__":
    if torch.cuda.device_count() < 2 or "LOCAL_RANK" not in os.environ:
        print("OUTCOME: static-only needs two GPUs and torchrun")
    else:
        world = int(os.environ["WORLD_SIZE"])
        print("OUTCOME:", "ok" if main() == 8.0 * world else "wrong-result")
