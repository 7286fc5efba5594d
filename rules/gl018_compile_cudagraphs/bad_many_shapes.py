# fault: every clip has its own length, so the compiled function records a new graph for each
# outcome: slow
import time

import torch


@torch.compile(mode="reduce-overhead", dynamic=True)
def loudness(clip):
    return (clip.square().cumsum(0) / clip.shape[0]).amax()


def process(clips):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for clip in clips:
        loudness(clip)  # expect: compile-cudagraphs
    torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    with torch.no_grad():
        for _ in range(3):
            process([torch.ones(n, device="cuda") for n in (50, 51, 52)])
        clips = [torch.ones(n, device="cuda") for n in range(100, 112)]
        first = process(clips) + process(clips)
        again = process(clips) + process(clips)
    print(f"OUTCOME: {'slow' if first > 3 * again else 'ok'} new lengths cost {first / again:.0f} times a replay")
