# fault: the static input has another width than what is copied into it: copy_ raises, it never copies a part
# outcome: static-only
import torch


class Service:
    """Made for features of 24 numbers; the error is raised at the first request."""

    def __init__(self, net, rows):
        self.net = net
        self.features = torch.zeros(rows, 32, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.net(self.features)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.net(self.features)

    def handle(self):
        request = torch.rand(4, 24, device="cuda")
        self.features.copy_(request)  # expect: shape-mismatch-copy
        self.graph.replay()
        return self.out.clone()


if __name__ == "__main__":
    try:
        note = tuple(Service(torch.nn.ReLU(), 4).handle().shape)
    except RuntimeError as error:
        note = str(error).splitlines()[0]
    print("OUTCOME: static-only", note)
