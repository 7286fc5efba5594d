"""Which forms of a call fail under capture, as a table of predicates over the values passed.

Source: the calls that were captured one by one (`operators.json`, "calls"), the failing samples of torch's operator
database, and torch's own sources where the two leave open why. Operand 0 is the tensor in methods and functions alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphlint.knowledge import shapes
from graphlint.knowledge.results import first_tensors
from graphlint.value import Const, Host, Tensor, Value, options

#: True: this form fails; False: it does not; None: it depends on something that is not known.
Verdict = bool | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call with its operands in one order: the receiver of a method is operand 0, as in the function form."""

    name: str
    operands: tuple[Value, ...]
    kwargs: Mapping[str, Value]

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    def get(self, position: int, *names: str) -> Value | None:
        """The operand at `position` or under one of `names`; None if absent."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.operands[position] if 0 <= position < len(self.operands) else None

    @property
    def tensors(self) -> list[Tensor]:
        return first_tensors([*self.operands, *self.kwargs.values()])


# ------------------------------------------------------------------------------------------------- predicates


def is_none(value: Value | None) -> bool:
    return value is None or (isinstance(value, Const) and value.value is None)


def on_gpu(value: Value | None) -> Verdict:
    """Whether a value is a CUDA tensor: None for a tensor whose device is not known."""
    if value is None:
        return False
    answers = {True if o.device == "cuda" else None if o.device == "?" else False for o in _tensors(value)}
    return True if True in answers else None if None in answers else False


def _tensors(value: Value) -> list[Tensor]:
    return [o for o in options(value) if isinstance(o, Tensor)]


def is_true(value: Value | None) -> Verdict:
    if value is None:
        return False
    if isinstance(value, Const):
        return bool(value.value)
    return None


def _always(call: Call) -> Verdict:
    return True


def _tensor_value(position: int, *names: str) -> Callable[[Call], Verdict]:
    return lambda call: on_gpu(call.get(position, *names))


def _one_operand(call: Call) -> Verdict:
    return len(call.operands) + len(call.kwargs) == 1


def _repeats(call: Call) -> Verdict:
    if not is_none(call.get(3, "output_size")):
        return False
    if len(call.operands) + len(call.kwargs) == 1:
        return on_gpu(call.operands[0]) if call.operands else on_gpu(call.kwargs.get("repeats"))
    repeats = call.get(1, "repeats")
    if isinstance(repeats, (Const, Host)):
        return False
    return on_gpu(repeats)


def _no_classes(call: Call) -> Verdict:
    classes = call.get(1, "num_classes")
    if classes is None:
        return True
    return True if shapes.int_of(classes) == -1 else bool(_tensors(classes)) and on_gpu(classes)


def _no_bounds(call: Call) -> Verdict:
    low, high = call.get(2, "min"), call.get(3, "max")
    if low is None and high is None:
        return True
    if isinstance(low, Const) and isinstance(high, Const):
        return low.value == high.value
    return None if low is None or high is None else False


def _sorting_isin(call: Call) -> Verdict:
    # aten takes the sorting path, which ends in a synchronising unique, from this size on
    if is_true(call.kwargs.get("assume_unique")):
        return False
    elements, tests = call.get(0, "elements"), call.get(1, "test_elements")
    if not isinstance(elements, Tensor) or not isinstance(tests, Tensor):
        return False
    many, few = shapes.numel(elements.shape), shapes.numel(tests.shape)
    if many is None or few is None:
        return None
    return bool(few >= 10 * many**0.145)


def _negative_power(call: Call) -> Verdict:
    power = call.get(1, "n")
    number = shapes.int_of(power)
    return None if number is None else number < 0


def _spectral_order(call: Call) -> Verdict:
    order = call.get(1, "ord", "p")
    return isinstance(order, Const) and order.value in ("nuc", 2, -2)


def _error_if_nonfinite(call: Call) -> Verdict:
    place = 3 if call.last == "clip_grad_norm_" else 2
    return is_true(call.get(place, "error_if_nonfinite"))


def _random_scale(call: Call) -> Verdict:
    return on_gpu(call.get(1, "std"))


def _jagged(call: Call) -> Verdict:
    layout = call.kwargs.get("layout")
    return layout is not None and getattr(layout, "name", getattr(layout, "value", "")) == "torch.jagged"


def _masked(call: Call) -> Verdict:
    return not is_none(call.kwargs.get("mask"))


def _host_lengths(call: Call) -> Verdict:
    return any(on_gpu(call.get(p, n)) is not True for p, n in ((2, "input_lengths"), (3, "target_lengths")))


def _device_lengths(call: Call) -> Verdict:
    return not _host_lengths(call)


def _device_sections(call: Call) -> Verdict:
    sections = call.get(1, "indices_or_sections", "tensor_indices_or_sections")
    return on_gpu(sections)


def _mask_and_tensor(call: Call) -> Verdict:
    indices, value = call.get(1, "indices"), call.get(2, "values")
    parts = first_tensors([indices]) if indices is not None else []
    return any(t.dtype == "bool" for t in parts) and on_gpu(value)


def _cpu_type(call: Call) -> Verdict:
    given = call.get(1, "dtype")
    name = getattr(given, "name", getattr(given, "value", None))
    return isinstance(name, str) and name.startswith("torch.") and "Tensor" in name and ".cuda." not in name


# ------------------------------------------------------------------------------------------------------ forms


@dataclass(frozen=True, slots=True)
class Form:
    """`names` are last components; `when` says whether this form of the call is the one that fails."""

    names: str
    rule: str
    why: str
    advice: str
    when: Callable[[Call], Verdict] = _always
    until: tuple[int, int] | None = None


_SIZE = "has a size that depends on the data, so it waits for the device"
_CHECK = "checks its result on the host"
_MASK_ADVICE = "keep the full shape and use `torch.where` or a mask"

FORMS: tuple[Form, ...] = (
    # sizes that depend on data
    Form("nonzero argwhere", "dynamic-shape-op", _SIZE, "`torch.nonzero_static(x, size=n)`, or " + _MASK_ADVICE),
    Form("where", "dynamic-shape-op", _SIZE, "`torch.where(cond, a, b)` keeps the shape", _one_operand),
    Form("masked_select", "dynamic-shape-op", _SIZE, _MASK_ADVICE),
    Form(
        "unique unique_consecutive unique_dim _unique2",
        "dynamic-shape-op",
        _SIZE,
        "sort, and mark the first of each run",
    ),
    Form("bincount", "dynamic-shape-op", _SIZE, "`torch.zeros(n, ...).scatter_add_(0, index, ones)`"),
    Form("combinations", "dynamic-shape-op", _SIZE, "make the index pairs before the capture"),
    Form(
        "to_sparse to_sparse_csr to_sparse_coo to_sparse_csc to_sparse_bsr coalesce",
        "dynamic-shape-op",
        _SIZE,
        "keep the tensor dense in the graph",
    ),
    Form(
        "repeat_interleave",
        "dynamic-shape-op",
        "takes its size from the repeats, which it reads on the host",
        "pass `output_size=`, known on the host",
        _repeats,
    ),
    Form(
        "one_hot",
        "dynamic-shape-op",
        "finds the number of classes in the data",
        "pass `num_classes`",
        _no_classes,
    ),
    Form(
        "index_put index_put_",
        "dynamic-shape-op",
        "counts the mask on the host",
        "use `torch.where(mask, value, x)`",
        _mask_and_tensor,
    ),
    Form("nms batched_nms", "dynamic-shape-op", _SIZE, "keep a fixed number of boxes and mask the rest"),
    Form("tensor_split", "dynamic-shape-op", _SIZE, "split at host sizes", _device_sections),
    # values from the host
    Form(
        "ctc_loss",
        "host-copy",
        "copies CPU lengths to the GPU",
        "keep the lengths on the GPU, or compute this loss outside the graph",
        _host_lengths,
    ),
    Form(
        "unravel_index", "host-copy", "builds its strides from host numbers", "divide and take remainders by the sizes"
    ),
    Form(
        "amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm prod softmax softmin "
        "std sum var",
        "host-copy",
        "of `torch.masked` copies a fill value from the host when it gets a mask",
        "use `torch.where` and the ordinary reduction",
        lambda call: call.name.startswith("torch.masked.") and _masked(call),
    ),
    # values to the host
    Form(
        "equal allclose is_nonzero assert_close", "host-sync", "answers with a Python bool", "compare after the replay"
    ),
    Form(
        "masked_fill masked_fill_",
        "host-sync",
        "reads its 0-dim CUDA value on the host",
        "pass a Python number, or use `torch.where(mask, value, x)`",
        _tensor_value(2, "value"),
    ),
    Form(
        "index_fill index_fill_",
        "host-sync",
        "reads its 0-dim CUDA value on the host",
        "pass a Python number, or use `index_copy_`",
        _tensor_value(3, "value"),
    ),
    Form(
        "_foreach_add_ _foreach_add _foreach_sub_ _foreach_sub",
        "host-sync",
        "reads a CUDA scalar on the host",
        "pass a Python number or a list of tensors",
        lambda call: on_gpu(call.get(1, "other")),
    ),
    Form(
        "isin", "host-sync", "sorts and deduplicates large test sets", "`(x[:, None] == values).any(1)`", _sorting_isin
    ),
    Form("histc", "host-sync", "reads the data's bounds on the host", "pass `min` and `max`", _no_bounds),
    Form("matrix_power", "host-sync", "inverts for a negative power", "use `torch.linalg.inv_ex`", _negative_power),
    Form("matrix_norm norm", "host-sync", "needs singular values", "use another norm", _spectral_order),
    Form(
        "clip_grad_norm_ get_total_norm",
        "host-sync",
        "reads whether the norm is finite",
        "leave `error_if_nonfinite` off and look at the returned norm after the replay",
        _error_if_nonfinite,
    ),
    Form(
        "normal",
        "host-sync",
        "checks its `std` tensor on the host",
        "`mean + std * torch.randn_like(mean)`",
        _random_scale,
        (2, 14),
    ),
    Form("nested_tensor", "host-sync", "reads the lengths", "pad to a fixed shape", _jagged),
    Form(
        "ctc_loss", "host-sync", "reads the lengths on the host", "compute this loss outside the graph", _device_lengths
    ),
    Form("type", "host-sync", "moves the tensor to a CPU type", "move it after the replay", _cpu_type),
    Form("inv", "host-sync", _CHECK, "`torch.linalg.inv_ex(x)[0]`, which leaves the check to you"),
    Form("inverse tensorinv", "host-sync", _CHECK, "`torch.linalg.inv_ex(x)[0]`, which leaves the check to you"),
    Form("cholesky", "host-sync", _CHECK, "`torch.linalg.cholesky_ex(x)[0]`, which leaves the check to you"),
    Form("solve tensorsolve", "host-sync", _CHECK, "`torch.linalg.solve_ex(a, b)[0]`, which leaves the check to you"),
    Form(
        "lu_factor lu lu_factor_ex ldl_factor ldl_factor_ex ldl_solve", "host-sync", _CHECK, "factor outside the graph"
    ),
    Form(
        "svd svdvals eig eigvals eigh eigvalsh lstsq matrix_rank pinv pinverse cond matrix_exp pca_lowrank svd_lowrank "
        "lobpcg symeig",
        "host-sync",
        "goes through a solver that talks to the host",
        "compute it outside the graph",
    ),
    Form("istft", "host-sync", "checks its window on the host", "use `torch.fft.irfft` and overlap-add"),
    Form("gaussian_nll_loss", "host-sync", "checks that no variance is negative", "write the loss out"),
    Form("cov corrcoef", "host-sync", "checks its weights on the host", "write out the product of the centred data"),
    Form("segment_reduce _segment_reduce", "host-sync", "checks its lengths on the host", "use `scatter_reduce`"),
    Form(
        "cond",
        "host-sync",
        "reads the predicate outside `torch.compile`",
        "use `torch.where`, or capture both branches",
    ),
    Form("save dumps dump", "host-sync", "copies the tensor to the host", "save after the replay"),
)
