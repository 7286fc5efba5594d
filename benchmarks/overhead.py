"""What tracing costs: Qwen3 decoding, under the emulator and plain, and a capture, observed and not.

    python benchmarks/overhead.py [--tokens N] [--json FILE]           the emulator against a plain run on the CPU
    python benchmarks/overhead.py --backend cuda [--size 8b]           a real capture and its replays, observed and not
    python benchmarks/overhead.py --backend host [--layers N]          the same without a GPU: nothing is recorded

Emulated: the tiny model decodes on the CPU, each step an ordinary call; the same on emulated graphs, everything that
`graphlint trace` watches included. Compared is CPU time of the decoding (capture and replays), and of a single step.
Host: the tiny model with as many layers as the full one decodes on the CPU between the two calls of a capture, so that
what watching adds to each call is seen on any machine; the calls themselves take another time than on a GPU.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "qwen3")]


def arguments(options: argparse.Namespace, device: str) -> argparse.Namespace:
    dtype = torch.bfloat16 if options.size == "8b" else torch.float32
    return argparse.Namespace(size=options.size, device=device, dtype=dtype, weights=None, seed=0, report=None)


def steps(runner: Any, step: Callable[[Any], Any], rows: int, tokens: int, clock: Callable[[], float]) -> list[float]:
    """Seconds of each of `tokens` decoding steps."""
    ids = torch.zeros(rows, 1, dtype=torch.int64, device=runner.ids.device)
    runner.set_length(8)
    taken = []
    for _ in range(tokens):
        start = clock()
        ids = step(ids).argmax(-1, keepdim=True)
        taken.append(clock() - start)
    return taken


def decode_plain(options: argparse.Namespace) -> dict[str, float]:
    """On the CPU, without graphs: as many model calls as the graphs' warm-up, capture and replays make."""
    import common
    import decode

    model = common.build_model(arguments(options, "cpu"))
    runner = decode.DecodeRunner.__new__(decode.DecodeRunner)
    pool = torch.cuda.graph_pool_handle
    torch.cuda.graph_pool_handle = lambda: (0, 0)
    try:
        runner.__init__(model, [4], 256)  # type: ignore[misc]
    finally:
        torch.cuda.graph_pool_handle = pool
    start = time.process_time()
    with torch.no_grad():
        for _ in range(3):
            runner.decode(4)
    taken = steps(runner, runner.step_eager, 4, options.tokens, time.process_time)
    return {"whole_s": time.process_time() - start, "step_ms": 1000 * statistics.median(taken)}


def decode_emulated(options: argparse.Namespace) -> dict[str, float]:
    import common
    import decode

    from graphlint.runtime.spec import Spec
    from graphlint.runtime.target import Target
    from graphlint.runtime.worker import watched

    with watched(Spec(Target(decode.__file__))):
        model = common.build_model(arguments(options, "cuda"))
        runner = decode.DecodeRunner(model, [4], 256)
        start = time.process_time()
        runner.capture()
        taken = steps(runner, runner.step, 4, options.tokens, time.process_time)
        whole = time.process_time() - start
    return {"whole_s": whole, "step_ms": 1000 * statistics.median(taken)}


def capture_on_gpu(options: argparse.Namespace, watched: bool) -> dict[str, float]:
    """A capture of one decoding step, and replays of it. Wall times, the device synchronised around them."""
    import contextlib

    import common
    import decode

    from graphlint.runtime.worker import watched_on_gpu

    model = common.build_model(arguments(options, "cuda"))
    found: dict[str, list[float]] = {"capture": [], "replay": []}
    for _ in range(5):
        runner = decode.DecodeRunner(model, [4], 256)
        with torch.no_grad():
            common.warmed_up(lambda runner=runner: runner.decode(4))
        graph = torch.cuda.CUDAGraph()
        with contextlib.ExitStack() as around:
            if watched:
                around.enter_context(watched_on_gpu())
            torch.cuda.synchronize()
            start = time.perf_counter()
            with torch.no_grad(), torch.cuda.graph(graph, pool=runner.pool):
                runner.logits[4] = runner.decode(4)
            torch.cuda.synchronize()
            found["capture"].append(time.perf_counter() - start)
            for _ in range(80):
                torch.cuda.synchronize()
                start = time.perf_counter()
                graph.replay()
                torch.cuda.synchronize()
                found["replay"].append(time.perf_counter() - start)
        runner.graphs.clear()
    return {f"{name}_ms": 1000 * statistics.median(times) for name, times in found.items()}


class Unrecorded:
    """Stands for torch.cuda.CUDAGraph where there is no GPU: its captures record nothing."""

    def capture_begin(self) -> None: ...

    def capture_end(self) -> None: ...

    def replay(self) -> None: ...

    def pool(self) -> tuple[int, int]:
        return (0, 0)


def capture_on_host(options: argparse.Namespace, watched: bool) -> dict[str, float]:
    """One decoding step as a capture calls it, on CPU tensors. Wall times, the fastest of several."""
    import contextlib

    import common
    import decode

    from graphlint.runtime.worker import watched_on_gpu

    common.TINY["num_hidden_layers"] = options.layers
    old = torch.cuda.CUDAGraph, torch.cuda.graph_pool_handle
    torch.cuda.CUDAGraph, torch.cuda.graph_pool_handle = Unrecorded, lambda: (0, 0)  # type: ignore[misc,assignment]
    found = []
    try:
        model = common.build_model(arguments(argparse.Namespace(size="tiny"), "cpu"))
        runner = decode.DecodeRunner(model, [4], 256)
        with contextlib.ExitStack() as around, torch.no_grad():
            if watched:
                around.enter_context(watched_on_gpu())
            for _ in range(15):
                runner.set_length(8)
                graph = torch.cuda.CUDAGraph()
                start = time.perf_counter()
                graph.capture_begin()
                runner.decode(4)
                graph.capture_end()
                found.append(time.perf_counter() - start)
    finally:
        torch.cuda.CUDAGraph, torch.cuda.graph_pool_handle = old  # type: ignore[misc]
    return {"capture_ms": 1000 * min(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["emulate", "cuda", "host"], default="emulate")
    parser.add_argument("--size", choices=["tiny", "8b"], default="tiny")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.backend == "cuda":
        plain, traced = (capture_on_gpu(options, watched) for watched in (False, True))
    elif options.backend == "host":
        plain, traced = (capture_on_host(options, watched) for watched in (False, True))
    else:
        plain, traced = decode_plain(options), decode_emulated(options)
    ratios = {name: traced[name] / plain[name] for name in plain}
    machine = torch.cuda.get_device_name() if options.backend == "cuda" else f"{platform.machine()}, one thread"
    for name in plain:
        print(f"{name}: plain {plain[name]:.3f}, traced {traced[name]:.3f}, {ratios[name]:.2f}x")
    print(f"torch {torch.__version__}, {machine}")
    if options.json is not None:
        options.json.write_text(json.dumps({"plain": plain, "traced": traced, "ratio": ratios}, indent=1) + "\n")


if __name__ == "__main__":
    main()
