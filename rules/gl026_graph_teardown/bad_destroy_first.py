# fault: the process group is destroyed while a graph that holds its all_reduce is alive; NCCL waits for the graph for ever
# outcome: static-only
# run with: torchrun --nproc-per-node 2 FILE
# outcome on two GPUs: hang
import os

import torch
import torch.distributed as dist


def main() -> bool:
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    grads = torch.full((4,), float(rank), device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            dist.all_reduce(grads)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(grads)  # fine: captured after a warm-up
    grads.fill_(1.0)
    graph.replay()
    total, world = grads.sum().item(), 4 * dist.get_world_size()
    dist.destroy_process_group()  # expect: graph-teardown
    return total == float(world)


if __name__ == "__main__":
    if torch.cuda.device_count() < 2 or "LOCAL_RANK" not in os.environ:
        print("OUTCOME: static-only needs two GPUs and torchrun")
    else:
        print("OUTCOME:", "ok" if main() else "wrong-result")
