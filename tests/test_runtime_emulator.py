"""The emulated device does what a GPU does: what a capture refuses, and what replays compute.

The expectations were measured on an NVIDIA H200, torch 2.11, 2026-11-29.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphlint.runtime import events  # noqa: E402
from graphlint.runtime.emulate.install import emulated  # noqa: E402
from graphlint.runtime.emulate.machine import Machine  # noqa: E402


@pytest.fixture
def device() -> Iterator[Machine]:
    torch.set_num_threads(1)
    with emulated() as machine:
        yield machine


def warm(function: Callable[[], Any], times: int = 3) -> None:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            function()
    torch.cuda.current_stream().wait_stream(side)


def capture(function: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        out = function()
    return graph, out


def scope() -> dict[str, Any]:
    """Names for the expressions below."""
    x = torch.randn(8, device="cuda")
    square = torch.randn(8, 8, device="cuda")
    return {
        "torch": torch,
        "x": x,
        "y": torch.randn(8, device="cuda"),
        "m": square,
        "spd": square @ square.T + 8 * torch.eye(8, device="cuda"),
        "idx": torch.arange(8, device="cuda"),
        "ones": torch.ones(8, dtype=torch.long, device="cuda"),
        "z": torch.tensor(2.0, device="cuda"),
        "zi": torch.tensor(2, device="cuda"),
        "pinned": torch.zeros(8).pin_memory(),
        "page": torch.zeros(8),
        "nn": torch.nn,
        "F": torch.nn.functional,
        "param": torch.nn.Parameter(square.clone()),
    }


REFUSED = [
    ("x[0].item()", "sync"),
    ("x.cpu()", "sync"),
    ("x.tolist()", "sync"),
    ("float(x[0])", "sync"),
    ("str(x)", "sync"),
    ("f'{x[0]:.3f}'", "sync"),
    ("torch.cuda.synchronize()", "sync"),
    ("torch.cuda.current_stream().query()", "sync"),
    ("x.to('cpu')", "sync"),
    ("x.type(torch.LongTensor)", "sync"),
    ("pinned.copy_(x)", "sync"),
    ("page.copy_(x, non_blocking=True)", "sync"),
    ("x.copy_(page)", "host-copy"),
    ("x.copy_(pinned)", "host-copy"),
    ("torch.tensor([1.0, 2.0], device='cuda')", "host-copy"),
    ("torch.as_tensor([1.0], device=x.device)", "host-copy"),
    ("x.new_tensor([1.0])", "host-copy"),
    ("x.__setitem__(0, 5.0)", "host-copy"),
    ("m.__setitem__((0, 1), 1.0)", "host-copy"),
    ("x.__setitem__(idx, 0.0)", "host-copy"),
    ("x[[0, 1]]", "host-copy"),
    ("torch.where(x > 0, x, torch.tensor(0.0))", "host-copy"),
    ("torch.zeros(4).to('cuda')", "host-copy"),
    ("x[x > 0]", "dynamic-shape"),
    ("x.nonzero()", "dynamic-shape"),
    ("torch.unique(x)", "dynamic-shape"),
    ("x.masked_select(x > 0)", "dynamic-shape"),
    ("torch.repeat_interleave(x, ones)", "dynamic-shape"),
    ("torch.bincount(idx)", "dynamic-shape"),
    ("F.one_hot(idx)", "dynamic-shape"),
    ("x[:idx[1]]", "sync"),
    ("x[idx[1]]", "sync"),
    ("list(range(idx[1]))", "sync"),
    ("x.masked_fill(y > 0, z)", "sync"),
    ("torch.full((4,), z, device='cuda')", "sync"),
    ("torch.add(x, y, alpha=z)", "sync"),
    ("torch.linalg.inv(spd)", "sync"),
    ("torch.linalg.cholesky(spd)", "sync"),
    ("torch.normal(x, y.abs() + 1)", "sync"),
    ("torch.equal(x, y)", "sync"),
    ("torch.distributions.Normal(x, y.abs() + 1)", "sync"),
    ("max(x[0], y[0])", "sync"),
    ("any(x > 100)", "sync"),
    ("0 < x[0] < 1", "sync"),
    ("nn.utils.clip_grad_norm_([param], 1.0, error_if_nonfinite=True)", "sync"),
    ("torch.cuda.seed()", "rng"),
    ("torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())", "stream"),
]

CAPTURED = [
    "x.copy_(pinned, non_blocking=True)",
    "pinned.copy_(x, non_blocking=True)",
    "x.to('cpu', non_blocking=True)",
    "torch.zeros(4, device='cuda')",
    "torch.full((4,), 3.0, device=x.device)",
    "torch.arange(4, device='cuda')",
    "x.__setitem__(slice(0, 2), 1.0)",
    "m.__setitem__((slice(None), 0), 1.0)",
    "m.__setitem__(0, 1.0)",
    "x.__setitem__(x > 0, 0.0)",
    "x.masked_fill_(x > 0, 0.0)",
    "torch.where(x > 0, x, 0)",
    "x[idx]",
    "x.index_fill_(0, idx, 1.0)",
    "torch.repeat_interleave(x, ones, output_size=8)",
    "x.repeat_interleave(2)",
    "F.one_hot(idx, 8)",
    "x * torch.tensor(2.0)",
    "F.dropout(x, 0.5)",
    "torch.rand(4, device='cuda')",
    "torch.multinomial(x.abs() + 1, 1)",
    "[row.sum() for row in m]",
    "sum([x, y])",
    "x.sort()",
    "x.cumsum(0)",
    "x.to(torch.float16)",
    "x.to(x.device)",
    "nn.utils.clip_grad_norm_([param], 1.0)",
    "torch.linalg.cholesky_ex(spd)",
    "F.scaled_dot_product_attention(m[None, None], m[None, None], m[None, None])",
    "torch.cuda.memory_allocated()",
    "torch.zeros(4, pin_memory=True)",
    "torch.cuda.get_rng_state()",
    "x.shape[0] + len(x)",
    "print(x.shape)",
]


@pytest.mark.parametrize(("expression", "kind"), REFUSED)
def test_a_capture_refuses(device: Machine, expression: str, kind: str) -> None:
    names = scope()
    names["param"].grad = names["m"].clone()
    code = compile(expression, "<expression>", "eval")

    def call() -> Any:
        return eval(code, names)

    warm(call)
    with pytest.raises(RuntimeError):
        capture(call)
    refusals = [e for e in device.events if isinstance(e, events.Refusal)]
    assert refusals[0].kind == kind, refusals[0]
    assert device.capture is None


@pytest.mark.parametrize("expression", CAPTURED)
def test_a_capture_allows(device: Machine, expression: str) -> None:
    names = scope()
    names["param"].grad = names["m"].clone()
    code = compile(expression, "<expression>", "eval")

    def call() -> Any:
        return eval(code, names)

    warm(call)
    graph, _ = capture(call)
    graph.replay()
    torch.cuda.synchronize()


def test_what_a_sync_raises_reads_as_on_a_gpu(device: Machine) -> None:
    x = torch.ones(4, device="cuda")
    with pytest.raises(
        torch.AcceleratorError, match="operation failed due to a previous error during capture"
    ) as caught:
        capture(lambda: x[0].item())
    assert "operation not permitted when stream is capturing" in str(caught.value.__context__)


def test_a_capture_runs_nothing_and_a_replay_writes_the_same_memory(device: Machine) -> None:
    x, total = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")

    def step() -> Any:
        total.add_(x)
        return x * 2

    graph, out = capture(step)
    assert total.tolist() == [0.0] * 4
    address = out.data_ptr()
    for value in (3.0, 5.0):
        x.fill_(value)
        graph.replay()
    assert total.tolist() == [8.0] * 4
    assert out.tolist() == [10.0] * 4
    assert out.data_ptr() == address


def test_numbers_and_tensors_are_baked(device: Machine) -> None:
    state = {"scale": 2.0, "x": torch.ones(3, device="cuda")}
    first = state["x"]
    graph, out = capture(lambda: state["x"] * state["scale"])
    state["scale"], state["x"] = 7.0, torch.full((3,), 5.0, device="cuda")
    graph.replay()
    assert out.tolist() == [2.0] * 3
    first.fill_(4.0)
    graph.replay()
    assert out.tolist() == [8.0] * 3


def test_freed_memory_is_handed_on(device: Machine) -> None:
    def make() -> Any:
        x = torch.ones(1 << 20, device="cuda")
        return capture(lambda: x * 2)

    graph, out = make()
    others = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(4)]
    graph.replay()
    assert out[0].item() == 14.0
    assert len(others) == 4


def test_graphs_of_one_pool_overwrite_each_other_out_of_order(device: Machine) -> None:
    pool, a, b = (
        torch.cuda.graph_pool_handle(),
        torch.full((256,), 5.0, device="cuda"),
        torch.full((256,), 7.0, device="cuda"),
    )

    def first() -> Any:
        scratch = a * 2
        return scratch + 1

    one, out_a = capture(first, pool=pool)
    two, out_b = capture(lambda: b * 3, pool=pool)
    one.replay()
    two.replay()
    assert (out_a[0].item(), out_b[0].item()) == (11.0, 21.0)
    one.replay()
    assert out_b[0].item() != 21.0


def test_random_numbers_are_fresh_and_seeds_hold(device: Machine) -> None:
    x = torch.ones(1000, device="cuda")
    graph, out = capture(lambda: torch.nn.functional.dropout(x, 0.5))
    graph.replay()
    first = out.clone()
    graph.replay()
    assert not torch.equal(first, out)
    seen = []
    for _ in range(2):
        torch.manual_seed(1)
        graph.replay()
        seen.append(out.clone())
    assert torch.equal(*seen)


@pytest.mark.parametrize(("version", "refused"), [((2, 11), True), ((2, 14), False)])
def test_a_private_generator_depends_on_the_version(version: tuple[int, int], refused: bool) -> None:
    with emulated(version):
        generator = torch.Generator(device="cuda").manual_seed(3)
        call = lambda: torch.rand(8, device="cuda", generator=generator)  # noqa: E731
        call()
        if refused:
            with pytest.raises(RuntimeError, match="increase offset"):
                capture(call)
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(generator)
            with torch.cuda.graph(graph):
                call()
        else:
            capture(call)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: torch.optim.AdamW(p, lr=0.1), "capturable"),
        (lambda p: torch.optim.AdamW(p, lr=0.1, fused=True), "capturable"),
        (lambda p: torch.optim.AdamW(p, lr=0.1, capturable=True), None),
        (lambda p: torch.optim.AdamW(p, lr=0.1, capturable=True, fused=True), None),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), None),
        (lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1, device="cuda")), "CUDA error"),
        (lambda p: torch.optim.RMSprop(p, lr=0.1), "capturable"),
        (lambda p: torch.optim.Adagrad(p, lr=0.1), None),
    ],
)
def test_optimizers(device: Machine, make: Callable[..., Any], error: str | None) -> None:
    weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
    weight.grad = torch.ones_like(weight)
    optimizer = make([weight])
    warm(optimizer.step)
    if error is not None:
        with pytest.raises(RuntimeError, match=error):
            capture(optimizer.step)
        return
    graph, _ = capture(optimizer.step)
    before = weight.detach().clone()
    graph.replay()
    assert (weight - before).abs().max().item() > 0


def test_the_first_matmul_of_a_process_cannot_be_captured(device: Machine) -> None:
    x = torch.ones(4, 4, device="cuda")
    with pytest.raises(RuntimeError) as caught:
        capture(lambda: x @ x)
    assert "CUBLAS_STATUS_NOT_INITIALIZED" in str(caught.value.__context__)
    _ = x @ x
    capture(lambda: x @ x)


@pytest.mark.parametrize("keep", [True, False])
def test_a_live_graph_of_the_default_stream_breaks_a_captured_backward(device: Machine, keep: bool) -> None:
    layer, x = torch.nn.Linear(4, 2).cuda(), torch.randn(3, 4, device="cuda")
    loss = layer(x).sum()
    loss.backward()
    if not keep:
        del loss
    layer.zero_grad(set_to_none=True)
    if keep:
        with pytest.raises(RuntimeError) as caught:
            capture(lambda: layer(x).sum().backward())
        assert "legacy stream" in str(caught.value.__context__)
    else:
        graph, _ = capture(lambda: layer(x).sum().backward())
        graph.replay()
        assert layer.bias.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("fork", "join", "error"), [(True, True, None), (True, False, "unjoined work"), (False, False, "previous error")]
)
def test_side_streams(device: Machine, fork: bool, join: bool, error: str | None) -> None:
    x, side = torch.ones(4, device="cuda"), torch.cuda.Stream()

    def work() -> Any:
        main = torch.cuda.current_stream()
        if fork:
            side.wait_stream(main)
        with torch.cuda.stream(side):
            out = x + 1
        if join:
            main.wait_stream(side)
        return out

    warm(work)
    if error is None:
        capture(work)
    else:
        with pytest.raises(RuntimeError, match=error):
            capture(work)


def test_library_work_on_a_stream_that_did_not_fork_is_only_missing(device: Machine) -> None:
    x, side, layer = torch.ones(2, 2, device="cuda"), torch.cuda.Stream(), torch.nn.Linear(2, 2).cuda()

    def work() -> Any:
        with torch.no_grad(), torch.cuda.stream(side):
            x.copy_(layer(x).relu())
        return x * 2

    warm(work)
    capture(work)


def test_inference_mode_takes_composites_apart(device: Machine) -> None:
    x = torch.ones(4, device="cuda")
    with torch.inference_mode():
        warm(lambda: int(x.sum()))
        with pytest.raises(RuntimeError) as caught:
            capture(lambda: x * int(x.sum()))
    assert "not permitted when stream is capturing" in str(caught.value.__context__)


def test_replay_after_a_capture_in_inference_mode(device: Machine) -> None:
    x = torch.ones(4, device="cuda")
    with torch.inference_mode():
        warm(lambda: x * 2)
        graph, y = capture(lambda: x * 2)
    x.fill_(3.0)
    graph.replay()
    assert y.tolist() == [6.0] * 4


def test_work_behind_a_sleep_waits(device: Machine) -> None:
    host, x = torch.zeros(1).pin_memory(), torch.zeros(1, device="cuda")
    torch.cuda._sleep(50_000_000)
    x.copy_(host, non_blocking=True)
    host.fill_(3.0)
    torch.cuda.synchronize()
    assert x.item() == 3.0


def test_graphed_callables_share_their_output(device: Machine) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).cuda()
    graphed = torch.cuda.make_graphed_callables(net, (torch.randn(2, 4, device="cuda"),))
    one, two = graphed(torch.randn(2, 4, device="cuda")), graphed(torch.randn(2, 4, device="cuda"))
    assert one.data_ptr() == two.data_ptr()
    two.sum().backward()
    assert net[0].weight.grad is not None


def test_compiled_outputs_are_taken_back(device: Machine) -> None:
    double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
    x = torch.ones(4, device="cuda")
    first = double(x)
    double(x)
    with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
        first.sum()
    double(x)
    a = double(x)
    double(x + 1)
    assert a.tolist() == [4.0] * 4


class Reader(threading.Thread):
    """Reads and makes CUDA tensors beside a capture, in a `run` of its own."""

    def __init__(self, gauge: Any) -> None:
        super().__init__(daemon=True)
        self.gauge, self.stopped, self.rounds, self.wrong = gauge, threading.Event(), 0, []

    def run(self) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            while not self.stopped.is_set():
                self.gauge.cpu()
                doubled = torch.ones(3).cuda() * 2
                if not doubled.is_cuda or torch.ones(2).is_cuda or doubled.tolist() != [2.0] * 3:
                    self.wrong.append(str(doubled))
                self.rounds += 1


def test_threads_beside_a_capture_keep_to_themselves(device: Machine) -> None:
    net = torch.nn.Linear(4, 4).cuda().requires_grad_(False)
    x, interval = torch.ones(2, 4, device="cuda"), sys.getswitchinterval()
    net(x)
    readers = [Reader(torch.zeros(1, device="cuda")) for _ in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        for reader in readers:
            reader.start()
        for turn in range(30):
            graph, out = capture(lambda: net(x) + 1, capture_error_mode="thread_local")
            x.fill_(float(turn))
            graph.replay()
            assert out.is_cuda and torch.allclose(out, net(x) + 1)
    finally:
        sys.setswitchinterval(interval)
        for reader in readers:
            reader.stopped.set()
            reader.join()
    assert [reader.wrong for reader in readers] == [[], []] and all(reader.rounds for reader in readers)
    assert not [e for e in device.events if isinstance(e, events.Note) and e.name == "ran-outside"]


def test_a_default_device_is_one_of_its_thread(device: Machine) -> None:
    made: list[Any] = []
    host = torch.ones(2)
    torch.set_default_device("cuda")
    try:
        thread = threading.Thread(target=lambda: made.append(torch.ones(2)))
        thread.start()
        thread.join()
        assert torch.ones(2).is_cuda and not made[0].is_cuda and not torch.zeros_like(host).is_cuda
    finally:
        torch.set_default_device("cpu")
    assert torch.zeros_like(host.cuda()).is_cuda
    torch.set_default_device(None)


def test_a_graph_dies_where_the_program_lets_go_of_it(device: Machine) -> None:
    x = torch.ones(2, device="cuda")
    graph, reference = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        x.mul_(2)
        asked = device.capture  # as a thread does that is stopped right then
    reference.append(weakref.ref(graph))
    del graph
    assert asked is not None and reference[0]() is None


def test_memory_that_is_given_back_while_memory_is_cut(device: Machine) -> None:
    arena = device.arena
    blocks = [arena.allocate(700, 0) for _ in range(4)]
    arena.may_grow = lambda stream: [arena.release(block) for block in blocks[1:3]]
    large = arena.allocate(30 << 20, 0)
    assert [block.used for block in (*blocks, large)] == [True, False, False, True, True]
    assert arena.allocate(2 * 1024, 0).start == blocks[1].start


@pytest.mark.parametrize("outside", [False, True])
def test_a_pool_goes_from_inference_mode_to_others(device: Machine, outside: bool) -> None:
    pool, net = torch.cuda.graph_pool_handle(), torch.nn.Linear(4, 4).cuda().requires_grad_(False)

    def step(given: Any) -> Any:
        return torch.relu(net(given)).add_(1)

    with torch.inference_mode():
        x = torch.zeros(2, 4, device="cuda")
        step(x)
    with torch.inference_mode(outside):
        first, a = capture(lambda: step(x), pool=pool) if outside else inside(step, x, pool)
    second, b = capture(lambda: a.clone().mul_(2), pool=pool)
    for value in (1.0, 2.0):
        with torch.inference_mode():
            x.fill_(value)
        first.replay()
        second.replay()
        assert torch.allclose(b, 2 * (torch.relu(net(x)) + 1))


def inside(step: Callable[[Any], Any], x: Any, pool: Any) -> tuple[Any, Any]:
    """A capture whose begin and end stand outside of inference mode."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool), torch.inference_mode():
        out = step(x)
    return graph, out


def test_torch_is_as_before_afterwards() -> None:
    names = ["zeros", "tensor", "compile", "Generator", "is_autocast_enabled"]
    before = [getattr(torch, n) for n in names]
    methods = [torch.Tensor.to, torch.Tensor.__repr__, torch.cuda.is_available, torch.autograd.backward]
    with emulated():
        assert torch.cuda.is_available()
        assert torch.zeros(1, device="cuda").is_cuda
    assert [getattr(torch, n) for n in names] == before
    assert [torch.Tensor.to, torch.Tensor.__repr__, torch.cuda.is_available, torch.autograd.backward] == methods
    assert torch.ones(2).device.type == "cpu"
    assert not torch.ones(2).is_cuda
