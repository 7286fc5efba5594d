"""Tensors: attributes and methods, by the tables of what torch does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphlint.fact import HostRead, Op, Write
from graphlint.interp import backward
from graphlint.interp.objects import ExternalMethod
from graphlint.knowledge import results, tensor_methods
from graphlint.knowledge.factories import dtype_of
from graphlint.knowledge.words import words
from graphlint.source import Span
from graphlint.value import (
    Const,
    Device,
    Dim,
    External,
    Host,
    Instance,
    Place,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
#: Methods whose result the host waits for.
_READS = frozenset(
    words("""
        item tolist numpy cpu is_nonzero equal allclose __bool__ __int__ __float__ __index__ __complex__ __contains__
        __format__ __array__
    """)
)
#: Only a tensor has them: whatever they are called on is one.
TENSOR_ONLY = frozenset(
    words("""
        item cpu cuda numpy detach clone unsqueeze squeeze contiguous softmax masked_fill masked_fill_ argmax
        masked_select nonzero to_sparse requires_grad_ copy_ zero_ fill_ add_ mul_ sub_ div_ clamp_ index_copy_
        scatter_ backward numel permute expand unbind view_as long half bfloat16 flatten chunk bmm matmul
    """)
)


def dim_value(tensor: Tensor, at: int) -> Value:
    """The size of dim `at` as a host number: known, or a symbol that is equal for equal sizes."""
    rank = len(tensor.shape) if tensor.shape is not None else None
    if tensor.shape is not None and rank is not None and -rank <= at < rank:
        dim = tensor.shape[at]
        if isinstance(dim, int):
            # Where it comes from tells a size from a number that is written out.
            return Const(dim, frozenset({Place(tensor.storage.id, f"shape[{at % rank}]", "attribute")}))
        if isinstance(dim, str):
            return Host("shape", symbol=dim)
        at = at % rank
    return Host("shape", symbol=f"n{tensor.storage.id}{tensor.view or ''}.{at}")


def tensor_attribute(m: Machine, value: Tensor, name: str, span: Span) -> Value:
    attrs = m.tensor_attrs.get(value.storage.id)
    if attrs and name in attrs and name != "data":
        return m.at_place(attrs[name], Place(value.storage.id, name, "attribute"))
    match name:
        case "shape":
            if value.shape is None:
                return Sequence(kind="shape", rest=Host("shape"), id=value.storage.id)
            return Sequence(kind="tuple", items=[dim_value(value, i) for i in range(len(value.shape))])
        case "device":
            return Const(value.device) if value.device != "?" else Host(kind="device")
        case "dtype":
            return External(f"torch.{value.dtype}") if value.dtype else Host(kind="dtype")
        case "ndim":
            return Const(len(value.shape)) if value.shape is not None else Host("shape")
        case "is_cuda":
            return Const(value.device == "cuda") if value.device != "?" else Host(kind="bool")
        case "requires_grad":
            return Const(True) if value.requires_grad else Host(kind="bool")
        case "grad":
            if not value.requires_grad and value.storage.kind != "parameter":
                return Unknown("grad")
            grad = m.grad_of(value)
            return join(Const(None), grad)
        case "T" | "mT" | "H" | "mH" | "data" | "real" | "imag":
            shape = None if value.shape is None else tuple(reversed(value.shape)) if name == "T" else value.shape
            if name in ("mT", "mH"):
                shape = None
            return view_of(value, name, shape)
    if name in tensor_methods.METADATA_ATTRIBUTES:
        return Host(kind="")
    return ExternalMethod(receiver=value, name=name)


def view_of(base: Tensor, how: str, shape: tuple[int | str | None, ...] | None, dtype: str | None = None) -> Tensor:
    # A view of a detached tensor is that view of its memory.
    view = how if base.view in ("detach", "data") else base.view or how
    apart = how in ("data", "detach")
    return Tensor(
        base.storage, base.device, shape, dtype or base.dtype, view,
        base.requires_grad and not apart, base.grad_graph and not apart, base.sure,
    )  # fmt: skip


def call_tensor_method(
    m: Machine, receiver: Tensor, name: str, args: Args, kwargs: Kwargs, span: Span, text: str
) -> Value:
    """`receiver.name(...)`: an Op fact, and HostRead or Write facts where the host reads or memory is written."""
    clean = {k: v for k, v in kwargs.items() if k != "*"}
    if name in ("size", "stride"):
        return _sizes(receiver, args, clean)
    if name in ("dim", "ndimension"):
        return Const(len(receiver.shape)) if receiver.shape is not None else Host("shape")
    if name in ("numel", "nelement", "__len__"):
        if name != "__len__" and receiver.shape is not None and all(isinstance(d, int) for d in receiver.shape):
            return Const(math.prod(d for d in receiver.shape if isinstance(d, int)))
        if name != "__len__" and receiver.shape is not None and len(receiver.shape) == 1:
            return dim_value(receiver, 0)
        return Host("shape", symbol=f"numel{receiver.storage.id}{receiver.view or ''}")
    if name in ("untyped_storage", "storage", "_typed_storage"):
        memory = m.instance_of(External("torch.UntypedStorage"), span)
        memory.attrs["$tensor"] = receiver
        return memory
    if name in tensor_methods.METADATA_METHODS:
        return Host(
            "shape" if name in ("element_size", "storage_offset") else "other",
            kind="bool" if name.startswith("is_") else "number",
        )
    if name in ("register_hook", "register_post_accumulate_grad_hook"):
        m.emit(Op, span, name=f"Tensor.{name}", args=args, kwargs=clean, receiver=receiver, text=f"{text}()")
        return backward.register(m, receiver, name, args, clean, span)
    result = _result(m, receiver, name, args, clean, span)
    fact = m.emit(
        Op, span, name=f"Tensor.{name}", args=args, kwargs=clean, receiver=receiver, result=result, text=f"{text}()"
    )
    m.reads(fact, receiver, *args, *clean.values())
    if name == "backward":
        m.fill_grads()
        backward.run(m, span)
    moved_to_host = (
        name in ("to", "type") and isinstance(result, Tensor) and result.device == "cpu" and receiver.device != "cpu"
    )
    if name in _READS or moved_to_host:
        m.emit(HostRead, span, op=name.strip("_"), value=receiver, text=f"{text}()")
    if (
        name.endswith("_")
        and not name.endswith("__")
        and name not in ("requires_grad_", "share_memory_", "retain_grad_")
    ):
        source = args[0] if args else next(iter(clean.values()), None)
        index = (
            args[1]
            if name in ("index_copy_", "index_fill_", "scatter_", "index_add_", "scatter_add_") and len(args) > 1
            else None
        )
        if index is not None and len(args) > 2:
            source = args[2]
        write = m.emit(Write, span, target=receiver, how=name, source=source, index=index, text=f"{text}()")
        m.writes(write, receiver)
    if "out" in clean:
        write = m.emit(Write, span, target=clean["out"], how="out=", source=receiver, text=text)
        m.writes(write, clean["out"])
    note(m, result, fact)
    return result


def _sizes(receiver: Tensor, args: Args, kwargs: Kwargs) -> Value:
    dim = args[0] if args else kwargs.get("dim")
    if isinstance(dim, Const) and isinstance(dim.value, int):
        return dim_value(receiver, dim.value)
    if dim is None:
        if receiver.shape is None:
            return Sequence(kind="shape", rest=Host("shape"), id=receiver.storage.id)
        return Sequence(kind="tuple", items=[dim_value(receiver, i) for i in range(len(receiver.shape))])
    return Host("shape")


def note(m: Machine, result: Value, fact: Op) -> None:
    """Memory made inside the capture belongs to the graph."""
    if m.region is None:
        return
    for value in [result, *(result.items if isinstance(result, Sequence) else [])]:
        if isinstance(value, Tensor) and value.storage.born is m.region:
            m.region.outputs.setdefault(value.storage, fact)


def _result(m: Machine, receiver: Tensor, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    if name == "tolist":
        read = Host("read", read_at=m.location(span))
        return m.sequence("list", [], read) if receiver.shape != () else read
    if name in ("item", "is_nonzero", "equal", "allclose", "__contains__"):
        return Host("read", "bool" if name != "item" else "number", m.location(span))
    if name in ("numpy", "__array__"):
        made = m.instance_of(External("numpy.ndarray"), span)
        made.attrs["$tensor"] = receiver
        return made
    if name == "backward":
        return Const(None)
    found = results.infer(f"Tensor.{name}", receiver, args, kwargs)
    if found is None:
        return m.tensor(span, device=receiver.device, sure=receiver.sure)
    return made_value(m, found, receiver, name, args, kwargs, span)


def made_value(
    m: Machine, found: results.Result, base: Tensor | None, name: str, args: Args, kwargs: Kwargs, span: Span
) -> Value:
    """The value that a Result describes."""
    operands = [v for v in (base, *results.first_tensors([*args, *kwargs.values()])) if v is not None]
    tracked = m.grad_enabled() and any(t.requires_grad or t.grad_graph for t in operands)
    tracked = tracked and results.differentiable(name, found.dtype)
    sure = all(t.sure for t in operands)
    device: Device = found.device
    if device == "?" and any(isinstance(a, Unknown) for a in args) and operands and operands[0].device == "cuda":
        device = "cuda"

    def fresh() -> Tensor:
        asked = kwargs.get("pin_memory")
        pinned = name == "pin_memory" or (isinstance(asked, Const) and bool(asked.value))
        wants = kwargs.get("requires_grad")
        return m.tensor(
            span, device=device, shape=found.shape, dtype=found.dtype, grad_graph=tracked, sure=sure, pinned=pinned,
            requires_grad=(isinstance(wants, Const) and bool(wants.value)) or tracked,
        )  # fmt: skip

    match found.kind:
        case "host":
            return Host("read" if name in ("equal", "allclose", "is_nonzero") else "other", read_at=m.location(span))
        case "none":
            return Const(None)
        case "self" if found.base is not None:
            source = found.base
            if name == "requires_grad_":
                off = args and isinstance(args[0], Const) and not args[0].value
                source.requires_grad = not off
            return source
        case "view" if found.base is not None:
            return view_of(found.base, name, found.shape, found.dtype)
        case "maybe-view" if found.base is not None:
            return _maybe_view(found.base, name, found, fresh, kwargs)
        case "tuple":
            if name in tensor_methods.TUPLE_VIEWS and found.base is not None:
                base_tensor = found.base
                items: list[Value] = [
                    view_of(base_tensor, f"{name}[{i}]", _piece(base_tensor, found, i)) for i in range(found.count or 1)
                ]
                return m.sequence("tuple", items, None if found.count else items[0])
            made: list[Value] = [fresh() for _ in range(found.count or 1)]
            return m.sequence("tuple", made, None if found.count else made[0])
        case _:
            return fresh()


def _piece(base: Tensor, found: results.Result, index: int) -> tuple[Dim, ...] | None:
    """The shape of one piece of a split: the last may be shorter than the others."""
    shape, count = found.shape, found.count
    if shape is None or base.shape is None or count is None or len(shape) != len(base.shape) or index < count - 1:
        return shape
    dims: list[Dim] = []
    for size, total in zip(shape, base.shape, strict=True):
        rest = (
            total - size * (count - 1) if isinstance(size, int) and isinstance(total, int) and size != total else size
        )
        dims.append(rest if not isinstance(rest, int) or rest > 0 else size)
    return tuple(dims)


#: Views whose rows are no longer rows of the memory: `contiguous()` must copy.
_PERMUTING = frozenset(
    {"t", "T", "mT", "H", "mH", "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis"}
)


def _maybe_view(base: Tensor, name: str, found: results.Result, fresh: object, kwargs: Kwargs) -> Value:
    """`to`, `contiguous`, `reshape` ...: the same memory where nothing has to change, else a new tensor."""
    make = fresh
    assert callable(make)
    copy = kwargs.get("copy")
    if isinstance(copy, Const) and copy.value:
        return make()  # type: ignore[no-any-return]
    device_changes = found.device != "?" and base.device != "?" and found.device != base.device
    dtype_changes = found.dtype is not None and base.dtype is not None and found.dtype != base.dtype
    permuted = name in ("contiguous", "clone") and (base.view or "") in _PERMUTING
    if device_changes or dtype_changes or permuted or (name == "pin_memory" and not base.storage.pinned):
        return make()  # type: ignore[no-any-return]
    same = found.device == base.device and (found.dtype == base.dtype)
    how = name if same and name not in ("contiguous", "reshape", "flatten", "ravel") else f"maybe-{name}"
    if how == name and name in (
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "half",
        "bfloat16",
        "long",
        "int",
        "bool",
        "type",
        "pin_memory",
    ):
        return base
    tensor = view_of(base, how, found.shape, found.dtype)
    tensor.view = how
    tensor.device = found.device
    return tensor


def wanted_device(m: Machine, value: Value | None) -> Device | None:
    """The device that an argument names, None if it names none."""
    if isinstance(value, Union):
        found = {wanted_device(m, o) for o in value.options}
        return found.pop() if len(found) == 1 else "?"
    if isinstance(value, Const):
        if isinstance(value.value, str):
            return (
                "cpu"
                if value.value.startswith("cpu")
                else "cuda"
                if value.value.split(":")[0] in ("cuda", "xpu", "npu")
                else None
            )
        if isinstance(value.value, int) and not isinstance(value.value, bool):
            return "cuda"
        return None
    if isinstance(value, Host):
        if value.kind in ("device", "string") and value.symbol:
            return (
                "cuda"
                if value.symbol.startswith(("cuda", "xpu", "npu"))
                else "cpu"
                if value.symbol.startswith("cpu")
                else "?"
            )
        return "?" if value.kind in ("device", "string", "number") else None
    if isinstance(value, Instance) and value.external == "torch.device":
        return wanted_device(m, value.args[0]) if value.args else "?"
    if isinstance(value, Tensor):
        return value.device
    if value is not None and dtype_of(value) is not None:
        return None
    return "?" if isinstance(value, (Unknown, Instance)) else None
