# right: the _ex forms leave the check to the caller; torch.where takes a tensor value
# outcome: ok
import torch


def filter_step(gain, cov, obs):
    """One step of a Kalman filter."""
    inverse, info = torch.linalg.inv_ex(cov)
    state = gain @ inverse @ obs
    state = state + torch.linalg.solve_ex(cov, obs)[0]
    low = state.amin()
    state = torch.where(state > 3.0, low, state)
    return state.masked_fill(state < -3.0, -3.0)  # fine: a Python number


def main():
    base = torch.randn(6, 6, device="cuda")
    cov = base @ base.T + 6.0 * torch.eye(6, device="cuda")
    gain, obs = torch.randn(6, 6, device="cuda"), torch.randn(6, 1, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            filter_step(gain, cov, obs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        state = filter_step(gain, cov, obs)
    obs.normal_()
    graph.replay()
    gap = (state - filter_step(gain, cov, obs)).abs().max().item()
    return gap < 1e-3, f"off by {gap:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
