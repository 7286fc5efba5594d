# fault: the generator is registered with the first graph, not with the second
# outcome: capture-error
import torch


def record(draw, generator, register):
    draw()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    if register:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        out = draw()
    return graph, out


def main():
    generator = torch.Generator(device="cuda").manual_seed(5)

    def coarse():
        return torch.rand(64, device="cuda", generator=generator)

    def fine():
        return torch.randn(64, device="cuda", generator=generator)  # expect: rng-misuse

    graphs = [record(coarse, generator, True)]
    graphs.append(record(fine, generator, False))
    for graph, _ in graphs:
        graph.replay()
    spread = graphs[1][1].std().item()
    return 0.5 < spread < 2, f"spread {spread:.2f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
