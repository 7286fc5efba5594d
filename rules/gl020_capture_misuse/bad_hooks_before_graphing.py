# fault: a module with a hook is handed to make_graphed_callables, which refuses it
# outcome: capture-error
import torch
from torch import nn

seen: list[tuple[int, ...]] = []


def record_shape(module: nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
    seen.append(tuple(out.shape))


def main() -> str:
    torch.manual_seed(0)
    probe = nn.Sequential(nn.Linear(4, 4), nn.GELU()).cuda()
    probe.register_forward_hook(record_shape)
    sample = torch.randn(6, 4, device="cuda")
    probe = torch.cuda.make_graphed_callables(probe, (sample,))  # expect: capture-misuse
    probe(torch.randn(6, 4, device="cuda"))
    return f"{'ok' if seen == [(6, 4)] else 'wrong-result'} hook saw {seen}"


if __name__ == "__main__":
    try:
        print("OUTCOME:", main())
    except (AssertionError, RuntimeError) as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
