# right: positions are kept in a fixed-size tensor, or the sum is taken without listing them
# outcome: ok
import torch


def onsets(signal, threshold):
    loud = signal > threshold
    spots = torch.arange(signal.numel(), device=signal.device)
    total = torch.where(loud, spots, 0).sum()  # fine: three arguments
    listed = torch.nonzero_static(loud, size=signal.numel(), fill_value=0)  # fine: the size is given
    best = signal.topk(4).indices  # fine: always four
    return total, listed.sum(), signal.count_nonzero(), best.sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    signal = torch.randn(32, device="cuda")
    for _ in range(3):
        onsets(signal, 0.5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = onsets(signal, 0.5)
    signal.normal_()
    graph.replay()
    where = (signal > 0.5).nonzero()  # fine: eager, after the replay
    got, listed = result[0].item(), result[1].item()
    same = got == where.sum().item() == listed
    print(f"OUTCOME: {'ok' if same else 'wrong-result'} {got} {listed}")
