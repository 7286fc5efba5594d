# right: clips are padded to one length, so one graph serves them all
# outcome: ok
import time

import torch
import torch.nn.functional as F

LENGTH = 128


@torch.compile(mode="reduce-overhead", dynamic=False)
def loudness(clip, length):
    return (clip.square().cumsum(0) / length).amax()


def process(clips):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for clip in clips:
        padded = F.pad(clip, (0, LENGTH - clip.shape[0]))
        loudness(padded, torch.full((), float(clip.shape[0]), device="cuda"))  # fine: always the same shape
    torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    with torch.no_grad():
        for _ in range(3):
            process([torch.ones(n, device="cuda") for n in (50, 51, 52)])
        clips = [torch.ones(n, device="cuda") for n in range(100, 112)]
        first = process(clips) + process(clips)
        again = process(clips) + process(clips)
    print(f"OUTCOME: {'slow' if first > 3 * again else 'ok'} new lengths cost {first / again:.1f} times a replay")
