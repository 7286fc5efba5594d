"""Work whose first run in the process lies inside a capture, and warm-ups that leave the default stream involved."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.doubt import past
from graphlint.fact import Bind, CaptureBegin, Enter, Fact, Keep, Op, Operator
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Instance, Place, Storage, Tensor, tensors

#: Libraries that set themselves up on first use, by the operations that use them. Measured: linear, convolution,
#: attention, recurrent layers, fft and most of linalg fail when their first call of the process is captured.
LIBRARIES = {
    "cuBLAS": """matmul mm bmm addmm addmv mv dot linear einsum baddbmm addbmm tensordot bilinear chain_matmul inner
        Linear Bilinear LazyLinear MultiheadAttention TransformerEncoderLayer TransformerEncoder TransformerDecoderLayer
        TransformerDecoder Transformer""",
    "cuDNN": """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d Conv1d Conv2d Conv3d
        ConvTranspose1d ConvTranspose2d ConvTranspose3d LSTM GRU RNN LSTMCell GRUCell""",
    "cuFFT": "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn stft istft",
    "the linear algebra library": "qr det slogdet cholesky_ex inv_ex lu_factor_ex solve_ex eigh svd",
}
_LIBRARY_OF = {name: library for library, names in LIBRARIES.items() for name in names.split()}
_STATELESS = ("SGD",)
COMPILED = "torch.compile.call"


@rule("GL004", "missing-warmup", "error", "captured work was never run before the capture")
def check(region: Region) -> Iterator[Problem]:
    if region.warm:
        return
    begin = queries.begin_fact(region)
    if begin is None or begin.region is not None or _called_by_others(begin):
        return
    message, notes = (
        first_use(region, begin)
        or compiled(region, begin)
        or state(region, begin)
        or live_graph(region, begin)
        or ("", ())
    )
    if message:
        yield Problem(region.at, message, notes, function=region.function)


def _called_by_others(begin: CaptureBegin) -> bool:
    """True if the capture stands in a private function that the analysis itself called: who calls it runs it warm."""
    name = begin.function.rpartition(".")[2]
    private = name.startswith("_") and not name.startswith("__")
    return not begin.complete and len(begin.chain) <= 1 and private


def library(fact: Fact) -> str:
    if isinstance(fact, Operator):
        return "cuBLAS" if fact.op == "@" and any(_on_gpu(v) for v in fact.operands) else ""
    if not isinstance(fact, Op) or not any(_on_gpu(v) for v in queries.operands(fact)):
        return ""
    parts = fact.name.removesuffix(".forward").split(".")
    if parts[0] not in ("torch", "Tensor") or (
        fact.name.startswith("torch.nn.") and parts[-1][0].isupper() and not fact.name.endswith(".forward")
    ):
        return ""
    return _LIBRARY_OF.get(parts[-1], "")


def _on_gpu(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.device != "cpu"
    return isinstance(value, Instance) and value.external.startswith("torch.nn.")


def eager(region: Region, begin: CaptureBegin) -> Iterator[Fact]:
    """What ran, or may run, outside any capture before this one: in the other arm of a step counter too, and where
    the callers are not known, in any method of the objects that are."""
    if not begin.complete:
        yield from (f for f in region.life if f.region is None)
        return
    yield from (f for f in region.before if f.region is None)
    end = region.life[region.position(region.end) :][:1]
    for last in end:
        yield from (f for f in queries.rest_of_call(region, last) if f.region is None and f.maybe)


def first_use(region: Region, begin: CaptureBegin) -> tuple[str, tuple[Note, ...]] | None:
    """The first call of a library in the process lies inside the capture."""
    warm = {library(f) for f in eager(region, begin)}
    for fact in region.captured:
        name = library(fact)
        if name and name not in warm and (begin.maybe or not fact.maybe) and not _ran_unseen(region, fact):
            text = getattr(fact, "text", "")
            what = f"`{text}`" if text else "the captured code"
            message = (
                f"nothing ran {what} before this capture: {name} sets itself up on its first call, "
                "which a capture refuses; run it once before"
            )
            return message, region.way(fact)
    return None


def _ran_unseen(region: Region, fact: Fact) -> bool:
    """True if the function that `fact` stands in ran before the capture: what it called then may not have been seen."""
    ways = {frame.function for frame in fact.chain[region.depth :]}
    if past(region) == "sure":
        ways &= {fact.function}
    return any(isinstance(f, Enter) and f.name in ways for f in region.before if f.region is None)


def compiled(region: Region, begin: CaptureBegin) -> tuple[str, tuple[Note, ...]] | None:
    """A compiled function's first call compiles, which a capture refuses."""
    called = {_id(f) for f in eager(region, begin) if isinstance(f, Op) and f.name == COMPILED}
    for fact in region.captured:
        if isinstance(fact, Op) and fact.name == COMPILED and _id(fact) not in called and not _ran_unseen(region, fact):
            message = (
                "a compiled function is first called inside the capture, where it cannot compile: call it once before"
            )
            return message, region.way(fact)
    return None


def state(region: Region, begin: CaptureBegin) -> tuple[str, tuple[Note, ...]] | None:
    """Optimizer and scaler state born inside the capture: every replay makes it anew."""
    known = {_id(f) for f in eager(region, begin) if isinstance(f, Op) and _makes_state(f)}
    loaded = {_id(f) for f in region.before if isinstance(f, Op) and f.name.endswith(".load_state_dict")}
    for fact in region.captured:
        if isinstance(fact, Op) and _makes_state(fact) and _id(fact) is not None and _id(fact) not in known | loaded:
            what = "`GradScaler` makes its scale" if "GradScaler" in fact.name else "the optimizer makes its state"
            message = (
                f"{what} on first use, inside the capture: every replay makes it anew; run the whole step once before"
            )
            return message, region.way(fact)
    return None


def _id(fact: Op) -> int | None:
    return fact.receiver.id if isinstance(fact.receiver, Instance) else None


def _makes_state(fact: Op) -> bool:
    if fact.name.endswith(("GradScaler.scale", "GradScaler.step")):
        return True
    if not (fact.name.startswith("torch.optim.") and fact.name.endswith(".step")):
        return False
    if fact.name.split(".")[-2] in _STATELESS:
        momentum = fact.receiver.kwargs.get("momentum") if isinstance(fact.receiver, Instance) else None
        return momentum is not None and not (isinstance(momentum, Const) and not momentum.value)
    return True


def live_graph(region: Region, begin: Fact) -> tuple[str, tuple[Note, ...]] | None:
    """A warm-up backward on the default stream whose autograd graph is still held when the capture begins."""
    backward = next((f for f in region.captured if _is_backward(f)), None)
    if backward is None:
        return None
    for fact in region.before:
        if not (_is_backward(fact) and fact.region is None and queries.stream_block(fact) is None) or (
            region.stream is not None and _same_stream(fact)
        ):
            continue
        assert isinstance(fact, Op)
        roots = {t.storage for t in tensors(fact.receiver, 1)} if fact.receiver is not None else set()
        keeper = held(region, begin, roots)
        if keeper is not None:
            message = (
                "a warm-up backward ran on the default stream and its autograd graph is still held: its "
                "gradient nodes tie "
                "the captured backward to that stream; warm up on a side stream, or drop the loss before"
            )
            return message, (
                Note(fact.at, "warm-up backward on the default stream"),
                Note(keeper.at, "still held here"),
                *region.way(backward),
            )[:5]
    return None


def _is_backward(fact: Fact) -> bool:
    return isinstance(fact, Op) and fact.name in ("Tensor.backward", "torch.autograd.backward", "torch.autograd.grad")


def _same_stream(fact: Fact) -> bool:
    return queries.stream_block(fact) is not None


def held(region: Region, begin: Fact, roots: set[Storage]) -> Fact | None:
    """The fact that still holds one of `roots` (or what carries its autograd graph) at the capture."""
    holders: dict[Place, Fact] = {}
    for fact in region.before:
        if fact.region is not None:
            continue
        if isinstance(fact, Bind):
            holders.pop(fact.place, None)
            if fact.value is not None and any(t.grad_graph and t.storage in roots for t in tensors(fact.value, 2)):
                holders[fact.place] = fact
        elif isinstance(fact, Keep) and any(t.grad_graph and t.storage in roots for t in tensors(fact.value, 2)):
            return fact
    for place, fact in holders.items():
        if place.kind != "local" or queries.inside(begin, fact):
            return fact
    return None
