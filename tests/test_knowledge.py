"""The tables of knowledge agree with what was measured on a GPU, and with torch itself where a CPU can tell."""

from __future__ import annotations

import pytest

from graphlint.knowledge import factories, library, optimizers, results, rng, shapes, sync, tensor_methods
from graphlint.knowledge.operators import evidence, judge, measured, table
from graphlint.value import Const, External, Host, Instance, Tensor, Value
from graphlint.value import Sequence as SequenceValue


def gpu(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(device="cuda", shape=shape, dtype=dtype)


def cpu(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(device="cpu", shape=shape, dtype=dtype)


def seq(*items: Value) -> SequenceValue:
    return SequenceValue(kind="tuple", items=list(items))


X, Z, ZI, M = gpu(8), gpu(), gpu(dtype="int64"), gpu(8, 8)
IDX, MASK = gpu(8, dtype="int64"), gpu(8, dtype="bool")
F = "torch.nn.functional."

#: key of a measured call -> the same call in values
CALLS: dict[str, tuple[str, Value | None, tuple[Value, ...], dict[str, Value]]] = {
    "index_mask": ("Tensor.nonzero", MASK, (), {}),
    "nonzero": ("Tensor.nonzero", X, (), {}),
    "nonzero_static": ("torch.nonzero_static", None, (X,), {"size": Const(4)}),
    "where1": ("torch.where", None, (MASK,), {}),
    "where3": ("torch.where", None, (MASK, X, Const(0)), {}),
    "where_0dim": ("torch.where", None, (MASK, Z, X), {}),
    "argwhere": ("torch.argwhere", None, (X,), {}),
    "unique": ("torch.unique", None, (X,), {}),
    "unique_consecutive": ("torch.unique_consecutive", None, (X,), {}),
    "masked_select": ("Tensor.masked_select", X, (MASK,), {}),
    "repeat_interleave_t": ("torch.repeat_interleave", None, (X, IDX), {}),
    "repeat_interleave_os": ("torch.repeat_interleave", None, (X, IDX), {"output_size": Const(8)}),
    "repeat_interleave_int": ("torch.repeat_interleave", None, (X, Const(2)), {}),
    "bincount": ("torch.bincount", None, (IDX,), {}),
    "bincount_ml": ("torch.bincount", None, (IDX,), {"minlength": Const(8)}),
    "histc": ("torch.histc", None, (X,), {}),
    "one_hot": (F + "one_hot", None, (IDX,), {}),
    "one_hot_n": (F + "one_hot", None, (IDX, Const(8)), {}),
    "masked_fill": ("Tensor.masked_fill_", X, (MASK, Const(0.0)), {}),
    "masked_fill_0dim": ("Tensor.masked_fill", X, (MASK, Z), {}),
    "full": ("torch.full", None, (seq(Const(4)), Const(3.0)), {"device": Const("cuda")}),
    "full_t": ("torch.full", None, (seq(Const(4)), Z), {"device": Const("cuda")}),
    "full_like_t": ("torch.full_like", None, (X, Z), {}),
    "arange": ("torch.arange", None, (Const(4),), {"device": Const("cuda")}),
    "arange_t": ("torch.arange", None, (ZI,), {"device": Const("cuda")}),
    "add_alpha_t": ("torch.add", None, (X, X), {"alpha": Z}),
    "addmm_beta_t": ("torch.addmm", None, (M, M, M), {"beta": Z}),
    "dropout": (F + "dropout", None, (X, Const(0.5)), {}),
    "dropout_p_t": (F + "dropout", None, (X,), {"p": Z}),
    "view_t": ("Tensor.view", X, (ZI, Const(-1)), {}),
    "repeat_t": ("Tensor.repeat", X, (ZI,), {}),
    "expand_t": ("Tensor.expand", X, (ZI,), {}),
    "narrow_t": ("torch.narrow", None, (X, Const(0), ZI, Const(2)), {}),
    "split_list": ("Tensor.split", X, (seq(Const(4), Const(4)),), {}),
    "chunk": ("Tensor.chunk", X, (Const(2),), {}),
    "clamp_t": ("Tensor.clamp", X, (), {"max": Z}),
    "clamp_num": ("Tensor.clamp", X, (), {"max": Const(1.0)}),
    "lerp_t": ("torch.lerp", None, (X, X, Z), {}),
    "fill_t": ("Tensor.fill_", X, (Z,), {}),
    "equal2": ("torch.equal", None, (X, X), {}),
    "allclose2": ("torch.allclose", None, (X, X), {}),
    "isnonzero": ("torch.is_nonzero", None, (Z,), {}),
    "isin": ("torch.isin", None, (IDX, IDX), {}),
    "inv": ("torch.linalg.inv", None, (M,), {}),
    "inv_ex": ("torch.linalg.inv_ex", None, (M,), {}),
    "cholesky": ("torch.linalg.cholesky", None, (M,), {}),
    "cholesky_ex": ("torch.linalg.cholesky_ex", None, (M,), {}),
    "solve": ("torch.linalg.solve", None, (M, M), {}),
    "svd": ("torch.linalg.svd", None, (M,), {}),
    "eigh": ("torch.linalg.eigh", None, (M,), {}),
    "qr": ("torch.linalg.qr", None, (M,), {}),
    "det": ("torch.linalg.det", None, (M,), {}),
    "slogdet": ("torch.linalg.slogdet", None, (M,), {}),
    "lstsq": ("torch.linalg.lstsq", None, (M, M), {}),
    "matrix_rank": ("torch.linalg.matrix_rank", None, (M,), {}),
    "pinv": ("torch.linalg.pinv", None, (M,), {}),
    "norm": ("Tensor.norm", X, (), {}),
    "clip_grad": ("torch.nn.utils.clip_grad_norm_", None, (seq(X), Const(1.0)), {}),
    "clip_grad_err": (
        "torch.nn.utils.clip_grad_norm_",
        None,
        (seq(X), Const(1.0)),
        {"error_if_nonfinite": Const(True)},
    ),
    "normal_std": ("torch.normal", None, (X, X), {}),
    "normal_inplace": ("Tensor.normal_", X, (), {}),
    "multinomial": ("torch.multinomial", None, (X, Const(1)), {}),
    "sort": ("Tensor.sort", X, (), {}),
    "topk": ("Tensor.topk", X, (Const(3),), {}),
    "combinations": ("torch.combinations", None, (X,), {}),
    "to_dense_sparse": ("Tensor.to_sparse", M, (), {}),
    "segment": ("torch.segment_reduce", None, (X, Const("sum")), {"lengths": IDX}),
    "type_long": ("Tensor.type", X, (External(name="torch.LongTensor"),), {}),
    "long_": ("Tensor.long", X, (), {}),
    "cond": ("torch.cond", None, (gpu(dtype="bool"), Const(None), Const(None), seq(X)), {}),
    "nested2": ("torch.nested.nested_tensor", None, (seq(X, X),), {"layout": External(name="torch.jagged")}),
    "nested": ("torch.nested.nested_tensor", None, (seq(X, X),), {}),
    "torch_save": ("torch.save", None, (X, Const("f")), {}),
    "index_select": ("Tensor.index_select", X, (Const(0), IDX), {}),
    "masked_scatter": ("Tensor.masked_scatter_", X, (MASK, X), {}),
    "quantile": ("torch.quantile", None, (X, Const(0.5)), {}),
}


@pytest.mark.parametrize("key", CALLS)
def test_judge_agrees_with_the_measured_call(key: str) -> None:
    name, receiver, args, kwargs = CALLS[key]
    fails = table()["calls"][key]["capture"] == "error"
    found = judge(name, receiver, args, kwargs)
    assert (found is not None) == fails, (table()["calls"][key], found)
    if found is not None:
        assert found.sure


def test_every_operator_that_always_failed_is_judged() -> None:
    """An error row proves: an operator of torch's database none of whose samples captured may not be silent."""
    elsewhere = {"item", "__getitem__"}  # facts of their own
    for name, (ok, failed, *_) in table()["operators"].items():
        if failed and not ok and name.split(".")[-1] not in elsewhere and not name.startswith("masked."):
            base = name.removesuffix(".grad_oriented").removesuffix(".singular").removesuffix(".hermitian")
            base = (
                base.removesuffix(".tensor_overload").removesuffix(".lengths").replace("norm.nuc", "linalg.matrix_norm")
            )
            args: tuple[Value, ...] = (M, M, IDX, IDX)
            kwargs: dict[str, Value] = {"ord": Const("nuc")} if "matrix_norm" in base else {}
            if base in ("nn.functional.one_hot", "repeat_interleave", "normal", "linspace", "logspace"):
                args = (ZI, ZI) if base != "nn.functional.one_hot" else (IDX,)
            assert judge("torch." + base, None, args, kwargs), name


def test_cpu_tensors_are_silent() -> None:
    for name in ("torch.nonzero", "torch.unique", "torch.linalg.inv", "torch.equal"):
        assert judge(name, None, (cpu(4, 4), cpu(4, 4)), {}) is None


def test_a_tensor_of_unknown_device_gives_a_doubtful_answer() -> None:
    found = judge("torch.nonzero", None, (Tensor(device="?"),), {})
    assert found is not None and not found.sure


def test_host_sizes_are_silent() -> None:
    assert judge("Tensor.view", X, (Host(source="shape"), Const(-1)), {}) is None
    assert judge("torch.zeros", None, (Host(source="shape"),), {"device": Const("cuda")}) is None


def test_evidence_names_the_device_and_the_version() -> None:
    assert measured("torch.linalg.inv") == (0, 6)
    assert evidence("torch.linalg.inv") == "6 of 6 sample calls could not be captured on NVIDIA H200, torch 2.11"
    assert evidence("torch.add") == ""


def test_distributions() -> None:
    params = (X, X)
    made = library.judge_library("torch.distributions.Normal", None, params, {})
    assert made is not None and made.rule == "host-sync"
    assert library.judge_library("torch.distributions.Normal", None, params, {"validate_args": Const(False)}) is None
    assert library.judge_library("torch.distributions.Normal", None, params, {}, validates=False) is None
    assert library.judge_library("torch.distributions.Normal", None, (Const(0.0), Const(1.0)), {}) is None
    cls = External(name="torch.distributions.Categorical")
    checked = Instance(cls=cls, args=(), kwargs={"logits": X})
    quiet = Instance(cls=cls, kwargs={"logits": X, "validate_args": Const(False)})
    assert library.judge_library("torch.distributions.Categorical.log_prob", checked, (IDX,), {}) is not None
    assert library.judge_library("torch.distributions.Categorical.log_prob", quiet, (IDX,), {}) is None
    assert library.judge_library("torch.distributions.Categorical.sample", checked, (), {}) is None


def test_modules_that_read_back() -> None:
    norm = Instance(cls=External(name="torch.nn.BatchNorm1d"), args=(Const(8),), kwargs={"momentum": Const(None)})
    assert library.judge_library("torch.nn.BatchNorm1d.forward", norm, (M,), {}) is not None
    plain = Instance(cls=External(name="torch.nn.BatchNorm1d"), args=(Const(8),))
    assert library.judge_library("torch.nn.BatchNorm1d.forward", plain, (M,), {}) is None
    encoder = Instance(cls=External(name="torch.nn.TransformerEncoder"))
    name = "torch.nn.TransformerEncoder.forward"
    assert library.judge_library(name, encoder, (M, M), {}) is not None
    assert library.judge_library(name, encoder, (M, M), {"is_causal": Const(True)}) is None
    assert library.judge_library(name, encoder, (M,), {}) is None


def test_optimizer_table_matches_torch() -> None:
    import inspect

    import torch

    for name, row in optimizers.OPTIMIZERS.items():
        cls = getattr(torch.optim, name.rpartition(".")[2])
        signature = inspect.signature(cls.__init__).parameters
        assert ("capturable" in signature) == row.capturable, name
        assert ("fused" in signature) == row.fused, name
    assert optimizers.decays({"lr_decay": Const(0.1)}, ()) is True
    assert optimizers.decays({}, ()) is False


def test_rng_names() -> None:
    assert rng.host_draw("random.uniform") and rng.host_draw("numpy.random.rand") and not rng.host_draw("random.seed")
    assert rng.tensor_draw("torch.rand") and not rng.tensor_draw("torch.zeros")
    assert rng.takes_generator("Tensor.normal_") and not rng.takes_generator("Tensor.add_")


def test_reads_have_a_wording_and_an_advice() -> None:
    assert set(sync.READS) == set(sync.INSTEAD)


# --------------------------------------------------------------------------------- results against torch itself


def value_of(x: object) -> Value:
    import torch

    if isinstance(x, torch.Tensor):
        return Tensor(device="cpu", shape=tuple(x.shape), dtype=str(x.dtype)[6:])
    if isinstance(x, (list, tuple)):
        return SequenceValue(kind=type(x).__name__, items=[value_of(i) for i in x])
    if isinstance(x, slice):
        return SequenceValue(kind="slice", items=[Const(x.start), Const(x.stop), Const(x.step)])
    return External(name=str(x)) if isinstance(x, torch.dtype) else Const(x)


EXPRESSIONS = """
a.sum() | a.sum(1) | a.sum(-1, keepdim=True) | a.mean(dim=(0, 1)) | a.max() | a.max(1) | a.argmax(-1) | a.view(-1, 2)
a.reshape(2, -1, 3) | a.t() | a.permute(1, 0) | a.transpose(0, 1) | a.unsqueeze(0) | a.unsqueeze(-1) | a[:1].squeeze(0)
a.flatten() | a.expand(2, 4, 6) | a.clone() | a.add(b.t()[:1]) | a.matmul(b) | a.long() | a.to(torch.int32) | a.half()
a.eq(0) | a.any() | i.sum() | i.div(2) | i.float() | i.mean(dtype=torch.float32) | a.topk(2) | a.sort(-1)
a.chunk(2, dim=1) | a.split(3, 1) | a.unbind(0) | a.index_select(0, i[:2]) | a.gather(1, i[:4, None])
a.narrow(0, 1, 2) | a.select(0, 1) | a.cumsum(0) | a.softmax(-1) | a.norm(2, -1) | a.var(0)
a.new_zeros(3, 2) | a.new_full((2,), 1) | a.repeat(2, 3) | i.repeat(2, 1) | a.repeat(2, 1, 1) | i.tile(3, 1) | a.tile(2)
torch.tile(a, (2, 1, 1)) | a.repeat_interleave(2) | a.repeat_interleave(2, dim=1) | torch.repeat_interleave(i, 3)
a.masked_fill(a > 0, 0) | a.new_tensor([1, 2]) | a.view(torch.int32) | a.logsumexp(-1) | i.argsort() | a.fill_(1)
a.add_(1) | a.tolist() | a.size(0) | torch.cat([a, a], dim=1) | torch.stack([a, a], 1) | torch.where(a > 0, a, 0.0)
torch.zeros(3, 4) | torch.full((2,), 3) | torch.arange(2, 8) | torch.linspace(0, 1, 5) | torch.eye(3)
torch.randint(0, 5, (3,)) | torch.randperm(4) | torch.tensor([[1.0, 2]]) | torch.zeros_like(a) | torch.maximum(a, a)
torch.max(a, 1) | torch.max(a, a) | torch.nn.functional.linear(a, b.t()) | torch.nn.functional.one_hot(i, 8)
torch.nn.functional.embedding(i, a.t()) | torch.nn.functional.cross_entropy(a, i[:4]) | torch.bmm(a[None], b[None])
torch.squeeze(a[:1], 0) | torch.logical_and(a > 0, a > 0) | torch.ones(2, dtype=torch.int64) | torch.scalar_tensor(1.0)
"""


@pytest.mark.parametrize(
    "source", [e.strip() for line in EXPRESSIONS.splitlines() for e in line.split("|") if e.strip()]
)
def test_inferred_results_agree_with_torch(source: str) -> None:
    import ast

    import torch

    scope = {"torch": torch, "a": torch.randn(4, 6), "b": torch.randn(6, 3), "i": torch.arange(6)}
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)

    def run(part: ast.expr) -> object:
        return eval(compile(ast.Expression(part), "", "eval"), scope)

    function = ast.unparse(node.func)
    method = not function.startswith("torch.")
    found = results.infer(
        f"Tensor.{node.func.attr}" if method else function,
        value_of(run(node.func.value)) if method else None,
        [value_of(run(a)) for a in node.args],
        {k.arg or "": value_of(run(k.value)) for k in node.keywords},
    )
    real = run(node)
    assert found is not None
    if isinstance(real, tuple):
        assert found.kind == "tuple" and found.count == len(real)
        real = real[0]
    elif not isinstance(real, torch.Tensor):
        assert found.kind == "host"
        return
    assert isinstance(real, torch.Tensor)
    assert found.shape in (tuple(real.shape), None)
    assert (found.dtype, found.device) == (str(real.dtype)[6:], "cpu")
    if found.kind in ("view", "self"):
        before = {id(v): v for v in scope.values() if isinstance(v, torch.Tensor)}
        storages = {v.untyped_storage().data_ptr() for v in before.values()}
        assert real.untyped_storage().data_ptr() in storages
    if found.kind == "fresh":
        storages = {v.untyped_storage().data_ptr() for v in scope.values() if isinstance(v, torch.Tensor)}
        assert real.untyped_storage().data_ptr() not in storages


def test_index_shapes_agree_with_torch() -> None:
    import torch

    x = torch.zeros(8, 4, 5)
    one, two = torch.tensor([1]), torch.tensor([1, 2])
    keys: list[object] = [0, -1, slice(None), slice(0, 3), slice(None, -1), slice(None, None, 2), None, ..., (0, 1)]
    keys += [(slice(None), 0), (..., 1), (slice(2), None, 0), [0, 2], two, (one, slice(None), one), (slice(None), two)]
    for key in keys:
        assert shapes.index((8, 4, 5), value_of(key)) == tuple(x[key].shape), key  # type: ignore[index]


def test_symbols_survive() -> None:
    assert shapes.matmul(("b", 8), (8, 16)) == ("b", 16)
    assert shapes.broadcast(("b", 1), ("b", 4)) == ("b", 4)
    assert shapes.view(("b", 4, 2), ("b", -1)) == ("b", 8)
    assert shapes.broadcasts_to((4, 32), (4, 64)) is False
    assert shapes.spreads((1, 64), (4, 64)) is True and shapes.spreads((4, 64), (4, 64)) is False


def test_in_place_names() -> None:
    assert tensor_methods.method_result("add_") == "self" and tensor_methods.method_result("__add__") == "fresh"
    assert not tensor_methods.writes("requires_grad_") and tensor_methods.writes("copy_")
    assert factories.made_device("torch.zeros", [Const(3)], {"device": Const("cuda:0")}) == "cuda"
