"""The result of a torch call on tensors: kind, device, shape and dtype, as far as the arguments tell.

One entry for interpreters: `infer("Tensor.matmul", receiver, args, kwargs)`. It joins the tables of factories,
tensor_methods and shapes; what they do not tell is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphlint.knowledge import factories, shapes, tensor_methods
from graphlint.value import Const, Device, Tensor, Value, options
from graphlint.value import Sequence as SequenceValue


@dataclass(frozen=True, slots=True)
class Result:
    """`kind` as in tensor_methods; `base` is the tensor that a view, a maybe-view or "self" is a look at.

    For "tuple", shape and dtype are those of the first item, and `count` its length where that is fixed.
    """

    kind: str
    device: Device = "?"
    shape: shapes.Shape = None
    dtype: str | None = None
    base: Tensor | None = None
    count: int | None = None


def first_tensors(values: Sequence[Value], depth: int = 1) -> list[Tensor]:
    """The tensors among `values`, those in lists and tuples too; of a union one that stands for all."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, SequenceValue):
            if depth:
                rest = [value.rest] if value.rest is not None else []
                found += first_tensors([*value.items, *rest], depth - 1)
            continue
        several = [o for o in options(value) if isinstance(o, Tensor)]
        found += [either(several)] if several else []
    return found


def either(several: Sequence[Tensor]) -> Tensor:
    """The first of several tensors, of the shape and dtype that all of them have."""
    first = several[0]
    shape, dtype = first.shape, first.dtype
    for other in several[1:]:
        shape, dtype = shapes.either(shape, other.shape), dtype if other.dtype == dtype else None
    return first if (shape, dtype) == (first.shape, first.dtype) else replace(first, shape=shape, dtype=dtype)


def joint_device(tensors: Sequence[Tensor]) -> Device:
    """Where an operation's result lives: on the GPU if any operand does; 0-dim CPU operands are allowed beside it."""
    devices = [t.device for t in tensors]
    if "cuda" in devices:
        return "cuda"
    return "cpu" if devices and all(d == "cpu" for d in devices) else "?"


def infer(name: str, receiver: Value | None, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Result | None:
    """What `name` gives, or None if it is not a tensor operation that the tables know.

    `name` is canonical: "Tensor.sum" with its receiver, or "torch.sum" with the tensor among the arguments.
    """
    if name in factories.FACTORIES and name != "Tensor.new":
        return Result(
            tensor_methods.FUNCTION_RESULTS.get(name, "fresh"),
            factories.made_device(name, args, kwargs, receiver),
            factories.made_shape(name, args, kwargs),
            factories.made_dtype(name, args, kwargs, receiver),
        )
    method = name.startswith("Tensor.")
    last = name.rpartition(".")[2]
    kind = tensor_methods.method_result(last) if method else tensor_methods.function_result(name)
    if not kind:
        return None
    operands = [*([receiver] if receiver is not None else []), *args]
    tensors = first_tensors([*operands, *kwargs.values()])
    first = tensors[0] if tensors else None
    rest = list(operands[1:])
    with_dim = _named(kwargs, "dim") or (bool(rest) and shapes.int_of(rest[0]) is not None)
    if last in tensor_methods.TUPLE_WITH_DIM and with_dim:
        kind = "tuple"
    if last == "where" and len(operands) == 1 and len(kwargs) == 0:
        kind = "tuple"
    if kind in ("host", "none"):
        return Result(kind)
    device = joint_device(tensors)
    dtype = tensor_methods.result_dtype(last, first.dtype if first is not None else None)
    if _named(kwargs, "dtype"):
        dtype = factories.dtype_of(kwargs["dtype"])
    if last in ("to", "cuda", "cpu", "type", "type_as", "to_device"):
        device, dtype = _moved(last, first, rest, kwargs)
    elif last == "view" and rest and factories.dtype_of(rest[0]) is not None:
        dtype = factories.dtype_of(rest[0])
    elif last == "embedding" and len(tensors) > 1:
        dtype = tensors[1].dtype
    elif last in tensor_methods.BROADCASTING and last not in tensor_methods.COMPARISONS and len(tensors) > 1:
        dtype = joint_dtype(tensors if last != "where" else tensors[1:])
    shape = _shape(last, name, first, tensors, rest, kwargs)
    if last in ("cat", "concat", "concatenate", "stack") and shape is not None and not _counted(operands, kwargs):
        joined = shapes.normal(_int(0, "dim", rest, kwargs, 0) or 0, len(shape))
        shape = tuple(None if i == joined else d for i, d in enumerate(shape))
    count = tensor_methods.TUPLE_SIZES.get(last, 2 if kind == "tuple" else None)
    if kind == "tuple" and last in ("chunk", "unbind", "split"):
        count = _count(last, first, rest, kwargs)
    if kind == "self":
        shape = first.shape if first is not None and last not in tensor_methods.RESHAPING else None
        dtype = first.dtype if first is not None else None
        device = first.device if first is not None else "?"
    return Result(kind, device, shape, dtype, first, count if kind == "tuple" else None)


def _counted(operands: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """True if it is known how many tensors are joined."""
    given = operands[0] if operands else kwargs.get("tensors")
    return isinstance(given, SequenceValue) and given.length is not None


#: Functions of torch.nn.init that fill a tensor, each with the method that does the same.
INITIALISERS = {
    "zeros_": "zero_", "ones_": "fill_", "constant_": "fill_", "eye_": "copy_", "dirac_": "copy_",
    "orthogonal_": "normal_", "trunc_normal_": "normal_", "xavier_normal_": "normal_", "kaiming_normal_": "normal_",
    "xavier_uniform_": "uniform_", "kaiming_uniform_": "uniform_", "sparse_": "normal_",
}  # fmt: skip
#: What is made like a tensor is filled anew, and has no history.
_MADE_LIKE = ("_like", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor")


def differentiable(name: str, dtype: str | None) -> bool:
    """False if the result of `name` has no autograd graph, whatever it is made from."""
    return not name.endswith(_MADE_LIKE) and tensor_methods.kind_of(dtype) not in ("int", "bool")


def joint_dtype(tensors: Sequence[Tensor]) -> str | None:
    """The promoted dtype; tensors with no dims give way to those with dims of the same kind."""
    dims = [t for t in tensors if t.shape != ()] or list(tensors)
    dtype: str | None = dims[0].dtype
    for tensor in dims[1:]:
        dtype = tensor_methods.promote(dtype, tensor.dtype)
    if tensor_methods.kind_of(dtype) in ("int", "bool"):
        for tensor in tensors:
            if tensor.shape == () and tensor_methods.kind_of(tensor.dtype) == "float":
                return tensor.dtype
    return dtype


def operator(op: str, operands: Sequence[Value]) -> Result:
    """The result of a Python operator with a tensor among its operands; `+=` and the like give kind "self"."""
    tensors = first_tensors(operands)
    in_place = op.endswith("=") and op not in ("==", "!=", "<=", ">=")
    if in_place and tensors and operands and operands[0] is tensors[0]:
        first = tensors[0]
        return Result("self", first.device, first.shape, first.dtype, first)
    device = joint_device(tensors)
    if op.rstrip("=") == "@" and len(tensors) == 2:
        return Result("fresh", device, shapes.matmul(tensors[0].shape, tensors[1].shape), joint_dtype(tensors))
    shape = shapes.broadcast(*(t.shape for t in tensors))
    dtype = joint_dtype(tensors) if tensors else None
    if op in ("==", "!=", "<", "<=", ">", ">=", "in", "not in"):
        dtype = "bool"
    elif tensor_methods.kind_of(dtype) in ("int", "bool"):
        if op == "/" or any(isinstance(o, Const) and isinstance(o.value, float) for o in operands):
            dtype = "float32"
        elif any(not isinstance(o, (Const, Tensor)) for o in operands):
            dtype = None
        elif dtype == "bool" and op in ("+", "-", "*", "**", "//", "%"):
            dtype = "int64" if any(isinstance(o, Const) and type(o.value) is int for o in operands) else None
    return Result("fresh", device, shape, dtype)


def _named(kwargs: Mapping[str, Value], name: str) -> bool:
    value = kwargs.get(name)
    return value is not None and not (isinstance(value, Const) and value.value is None)


def _moved(
    last: str, first: Tensor | None, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> tuple[Device, str | None]:
    device: Device = first.device if first is not None else "?"
    dtype = first.dtype if first is not None else None
    if last == "cuda":
        return "cuda", dtype
    if last == "cpu":
        return "cpu", dtype
    for value in [*rest, *(kwargs[k] for k in ("device", "dtype", "other", "tensor") if k in kwargs)]:
        if isinstance(value, Tensor):
            dtype = value.dtype
            device = value.device
        elif (named := factories.dtype_of(value)) is not None:
            dtype = named
        elif isinstance(value, Const) and isinstance(value.value, bool):
            continue
        elif last == "type":
            name = getattr(value, "name", getattr(value, "value", ""))
            if isinstance(name, str) and "Tensor" in name:
                device = "cuda" if ".cuda." in name else "cpu"
        elif (place := factories.device_of(value)) is not None:
            device = place
    return device, dtype


def _dims(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> tuple[bool, list[int] | None]:
    """(given and known, dims); (True, None) means that no dim was given."""
    value = kwargs.get("dim", kwargs.get("axis", rest[0] if rest else None))
    if value is None or (isinstance(value, Const) and value.value is None):
        return True, None
    if isinstance(value, SequenceValue):
        found = [shapes.int_of(v) for v in value.items]
        return all(d is not None for d in found) and value.rest is None, [d for d in found if d is not None]
    dim = shapes.int_of(value)
    return dim is not None, [] if dim is None else [dim]


def _keepdim(position: int, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    value = kwargs.get("keepdim", rest[position] if len(rest) > position else None)
    return isinstance(value, Const) and value.value is True


def _int(
    position: int, names: str, rest: Sequence[Value], kwargs: Mapping[str, Value], default: int | None
) -> int | None:
    for name in names.split():
        if name in kwargs:
            return shapes.int_of(kwargs[name])
    return shapes.int_of(rest[position]) if len(rest) > position else default


def _shape(
    last: str,
    name: str,
    first: Tensor | None,
    tensors: Sequence[Tensor],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> shapes.Shape:
    shape = first.shape if first is not None else None
    if last in tensor_methods.REDUCTIONS:
        if last in ("max", "min") and len(tensors) > 1:
            return shapes.broadcast(*(t.shape for t in tensors))
        offset = 1 if last in ("norm", "quantile", "vector_norm", "nanquantile") else 0
        ok, dims = _dims(rest[offset:], kwargs)
        if not ok:
            return None
        if dims is None and last in ("mode",):
            dims = [-1]
        return shapes.reduce(shape, dims, _keepdim(1 + offset, rest, kwargs))
    if last in tensor_methods.BROADCASTING:
        return shapes.broadcast(*(t.shape for t in tensors))
    if last in tensor_methods.POINTWISE:
        return shape
    if last in ("matmul", "mm", "bmm", "mv", "dot", "inner_product", "vdot") and len(tensors) > 1:
        return shapes.matmul(tensors[0].shape, tensors[1].shape)
    if last == "linear" and len(tensors) > 1:
        weight = tensors[1].shape
        return shapes.linear(shape, weight[0] if weight else None)
    if last in ("addmm", "baddbmm") and len(tensors) > 2:
        return shapes.matmul(tensors[1].shape, tensors[2].shape)
    if last in ("view", "reshape"):
        if rest and factories.dtype_of(rest[0]) is not None:
            return None
        return shapes.view(shape, shapes.sizes_of(rest or [v for k, v in kwargs.items() if k in ("size", "shape")]))
    if last in ("expand", "broadcast_to"):
        return shapes.expand(shape, shapes.sizes_of(rest))
    if last == "repeat":
        return shapes.repeat(shape, shapes.sizes_of(rest or [v for k, v in kwargs.items() if k == "repeats"]))
    if last == "tile":
        times = shapes.sizes_of(rest or [v for k, v in kwargs.items() if k == "dims"])
        missing = len(shape) - len(times) if shape is not None and times is not None else 0
        return shapes.repeat(shape, (1,) * missing + times if times is not None and shape is not None else None)
    if last == "repeat_interleave":
        return _interleaved(shape, rest, kwargs)
    if last in ("view_as", "expand_as", "reshape_as") and len(tensors) > 1:
        return tensors[1].shape
    if last == "permute":
        order = list(rest[0].items) if len(rest) == 1 and isinstance(rest[0], SequenceValue) else list(rest)
        return shapes.permute(shape, [shapes.int_of(d) for d in order])
    if last in ("t", "adjoint"):
        return shape if shape is not None and len(shape) < 2 else shapes.transpose(shape, -2, -1)
    if last in ("transpose", "swapaxes", "swapdims"):
        return shapes.transpose(shape, _int(0, "dim0", rest, kwargs, None), _int(1, "dim1", rest, kwargs, None))
    if last == "unsqueeze":
        return shapes.unsqueeze(shape, _int(0, "dim", rest, kwargs, None))
    if last == "squeeze":
        ok, dims_ = _dims(rest, kwargs)
        return shapes.squeeze(shape, dims_) if ok else None
    if last in ("flatten", "ravel"):
        start, end = _int(0, "start_dim", rest, kwargs, 0), _int(1, "end_dim", rest, kwargs, -1)
        return None if start is None or end is None else shapes.flatten(shape, start, end)
    if last in ("select", "unbind"):
        dim = _int(0, "dim", rest, kwargs, 0)
        return shapes.reduce(shape, [dim]) if dim is not None and shape is not None else None
    if last == "narrow" and shape is not None:
        dim, length = _int(0, "dim", rest, kwargs, None), rest[2] if len(rest) > 2 else kwargs.get("length")
        place = None if dim is None else shapes.normal(dim, len(shape))
        return None if place is None else (*shape[:place], shapes.dim_of(length), *shape[place + 1 :])
    if last in ("cat", "concat", "concatenate", "stack", "hstack", "vstack") and tensors:
        dim = _int(0, "dim", rest, kwargs, 0)
        each = [t.shape for t in tensors]
        if last == "stack":
            return shapes.stack(each, len(each), dim)
        return shapes.cat(each, dim) if last in ("cat", "concat", "concatenate") else None
    if last in ("index_select", "gather", "take_along_dim", "topk", "sort", "chunk", "split", "embedding", "one_hot"):
        return _picking(last, first, tensors, rest, kwargs)
    if last in (
        "cross_entropy",
        "mse_loss",
        "nll_loss",
        "l1_loss",
        "smooth_l1_loss",
        "binary_cross_entropy_with_logits",
    ):
        reduction = kwargs.get("reduction")
        return (
            () if reduction is None or (isinstance(reduction, Const) and reduction.value in ("mean", "sum")) else None
        )
    return None


def _interleaved(shape: shapes.Shape, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> shapes.Shape:
    times, dim = _int(0, "repeats", rest, kwargs, None), _int(1, "dim", rest, kwargs, None)
    if "dim" not in kwargs and len(rest) < 2:
        shape, dim = shapes.flatten(shape), 0
    place = None if dim is None or shape is None else shapes.normal(dim, len(shape))
    if place is None or shape is None:
        return None
    return shapes.repeat(shape, tuple(times if i == place else 1 for i in range(len(shape))))


def _picking(
    last: str, first: Tensor | None, tensors: Sequence[Tensor], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> shapes.Shape:
    shape = first.shape if first is not None else None
    if last in ("gather", "take_along_dim"):
        return tensors[1].shape if len(tensors) > 1 else None
    if last == "sort":
        return shape
    if last == "embedding" and len(tensors) > 1:
        weight = tensors[1].shape
        return None if shape is None else (*shape, weight[-1] if weight else None)
    if last == "one_hot":
        count = rest[0] if rest else kwargs.get("num_classes")
        return None if shape is None else (*shape, shapes.dim_of(count))
    if shape is None:
        return None
    if last == "index_select":
        dim = _int(0, "dim", rest, kwargs, None)
        picked = tensors[1].shape if len(tensors) > 1 else None
        size = picked[0] if picked else None
    elif last == "topk":
        dim, size = _int(1, "dim", rest, kwargs, -1), shapes.dim_of(rest[0] if rest else kwargs.get("k"))
    elif last == "split":
        dim, size = _int(1, "dim", rest, kwargs, 0), shapes.dim_of(rest[0] if rest else kwargs.get("split_size"))
    else:
        dim = _int(1, "dim", rest, kwargs, 0)
        chunks = _int(0, "chunks", rest, kwargs, None)
        place = None if dim is None else shapes.normal(dim, len(shape))
        whole = None if place is None else shape[place]
        size = -(-whole // chunks) if isinstance(whole, int) and chunks else None
    place = None if dim is None else shapes.normal(dim, len(shape))
    return None if place is None else (*shape[:place], size, *shape[place + 1 :])


def _count(last: str, first: Tensor | None, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> int | None:
    shape = first.shape if first is not None else None
    if last == "chunk":
        return _int(0, "chunks", rest, kwargs, None)
    if shape is None:
        sizes = rest[0] if rest else None
        return sizes.length if last == "split" and isinstance(sizes, SequenceValue) else None
    if last == "unbind":
        dim = _int(0, "dim", rest, kwargs, 0)
        place = None if dim is None else shapes.normal(dim, len(shape))
        size = None if place is None else shape[place]
        return size if isinstance(size, int) else None
    sizes = rest[0] if rest else kwargs.get("split_size")
    if isinstance(sizes, SequenceValue):
        return sizes.length
    each, dim = shapes.int_of(sizes), _int(1, "dim", rest, kwargs, 0)
    place = None if dim is None else shapes.normal(dim, len(shape))
    whole = None if place is None else shape[place]
    return -(-whole // each) if isinstance(whole, int) and each else None
