# fault: the function that is handed out holds the graph and its output, not the input that the graph reads
# outcome: wrong-result
import torch


def make():
    waves = torch.linspace(0, 1, 1 << 20, device="cuda")  # expect: dangling-input
    waves.amax()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        peak = waves.amax()

    def run():
        graph.replay()
        return peak.item()

    return run


def main():
    run = make()
    taken = [torch.full((1 << 20,), 9.0, device="cuda") for _ in range(2)]
    peak = run()
    return peak == 1.0, f"{peak} beside {len(taken)} new tensors"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
