# fault: the capture begins on a side stream and ends after the block, on the default stream
# outcome: capture-error
import torch


class FilterBank:
    def __init__(self, bands: int) -> None:
        self.stream = torch.cuda.Stream()
        self.signal = torch.zeros(bands, 8, device="cuda")
        self.gain = torch.arange(1.0, bands + 1, device="cuda").unsqueeze(1)
        self.graph = torch.cuda.CUDAGraph()

    def capture(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.signal * self.gain
            self.graph.capture_begin()
            self.bands = self.signal * self.gain
        self.graph.capture_end()  # expect: capture-misuse
        torch.cuda.current_stream().wait_stream(self.stream)

    def run(self, value: float) -> float:
        self.signal.fill_(value)
        self.graph.replay()
        return self.bands.sum().item()


if __name__ == "__main__":
    try:
        bank = FilterBank(3)
        bank.capture()
        got = bank.run(0.5)
        print("OUTCOME:", "ok" if got == 24.0 else "wrong-result", got)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
