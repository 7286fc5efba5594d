"""torch functions that make tensors: where the result lives, its dtype, and whether host data is copied to make it.

FACTORIES["torch.zeros"]        sizes first, on the default device, no host data
FACTORIES["torch.tensor"]       data first; on a GPU it is a blocking copy from pageable memory
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphlint.knowledge import shapes
from graphlint.knowledge.words import words
from graphlint.value import Const, Device, Dim, External, Host, Instance, Tensor, Value, options
from graphlint.value import Sequence as SequenceValue

ShapeRule = Literal["sizes", "size", "like", "data", "arange", "count", "square", "scalar", "pair", "none"]
DtypeRule = Literal["default", "int64", "bool", "like", "data", "uint8", "fill"]


@dataclass(frozen=True, slots=True)
class Factory:
    """How a maker of tensors behaves.

    shape: where the shape comes from: "sizes" (all positional arguments), "size" (the first one), "like" (the first
        tensor), "data" (nested host data), "arange", "count" (a number of steps), "square" (n x n), "scalar".
    dtype: the dtype without `dtype=`.
    position: index of the first size argument.
    copies: the values come from the host, so on a GPU the call is a host-to-device copy.
    random: it draws from a generator.
    """

    shape: ShapeRule
    dtype: DtypeRule = "default"
    position: int = 0
    copies: bool = False
    random: bool = False


_SIZES = Factory("sizes")
_LIKE = Factory("like", "like")

FACTORIES: dict[str, Factory] = {
    "torch.zeros": _SIZES,
    "torch.ones": _SIZES,
    "torch.empty": _SIZES,
    "torch.rand": Factory("sizes", random=True),
    "torch.randn": Factory("sizes", random=True),
    "torch.full": Factory("size", "fill"),
    "torch.empty_strided": Factory("size"),
    "torch.empty_permuted": Factory("size"),
    "torch.randint": Factory("size", "int64", position=-1, random=True),
    "torch.randperm": Factory("count", "int64", random=True),
    "torch.arange": Factory("arange", "fill"),
    "torch.range": Factory("arange", "default"),
    "torch.linspace": Factory("count", position=2),
    "torch.logspace": Factory("count", position=2),
    "torch.eye": Factory("square"),
    "torch.scalar_tensor": Factory("scalar"),
    "torch.tril_indices": Factory("pair", "int64"),
    "torch.triu_indices": Factory("pair", "int64"),
    "torch.hann_window": Factory("count"),
    "torch.hamming_window": Factory("count"),
    "torch.blackman_window": Factory("count"),
    "torch.bartlett_window": Factory("count"),
    "torch.kaiser_window": Factory("count"),
    "torch.tensor": Factory("data", "data", copies=True),
    "torch.as_tensor": Factory("data", "data", copies=True),
    "torch.asarray": Factory("data", "data", copies=True),
    "torch.sparse_coo_tensor": Factory("none", "data", copies=True),
    "torch.from_numpy": Factory("none", "data"),
    "torch.frombuffer": Factory("none", "data"),
    "torch.Tensor": Factory("data", "default", copies=True),
    "torch.FloatTensor": Factory("data", "default", copies=True),
    "torch.LongTensor": Factory("data", "int64", copies=True),
    "torch.BoolTensor": Factory("data", "bool", copies=True),
    "torch.ByteTensor": Factory("data", "uint8", copies=True),
    "torch.cuda.FloatTensor": Factory("data", "default", copies=True),
    "torch.cuda.LongTensor": Factory("data", "int64", copies=True),
    "torch.zeros_like": _LIKE,
    "torch.ones_like": _LIKE,
    "torch.empty_like": _LIKE,
    "torch.full_like": _LIKE,
    "torch.rand_like": Factory("like", "like", random=True),
    "torch.randn_like": Factory("like", "like", random=True),
    "torch.randint_like": Factory("like", "like", random=True),
    "Tensor.new_zeros": Factory("sizes", "like"),
    "Tensor.new_ones": Factory("sizes", "like"),
    "Tensor.new_empty": Factory("sizes", "like"),
    "Tensor.new_full": Factory("size", "like"),
    "Tensor.new_tensor": Factory("data", "data", copies=True),
    "Tensor.new": Factory("sizes", "like"),
}

#: Legacy constructors that name their device themselves.
FIXED_DEVICES: dict[str, Device] = {
    "torch.Tensor": "cpu",
    "torch.FloatTensor": "cpu",
    "torch.LongTensor": "cpu",
    "torch.BoolTensor": "cpu",
    "torch.ByteTensor": "cpu",
    "torch.from_numpy": "cpu",
    "torch.frombuffer": "cpu",
    "torch.cuda.FloatTensor": "cuda",
    "torch.cuda.LongTensor": "cuda",
}

_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_KNOWN_DTYPES = frozenset(
    words("""
        float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex32 complex64
        complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu
    """)
)
_PYTHON_DTYPES = {"builtins.float": "float32", "builtins.int": "int64", "builtins.bool": "bool"}


def dtype_of(value: Value | None) -> str | None:
    """The dtype that a value names, as "float32", "int64", "bool" ...; None if it names none."""
    name = value.name if isinstance(value, External) else value.value if isinstance(value, Const) else None
    if not isinstance(name, str):
        return None
    if name in _PYTHON_DTYPES:
        return _PYTHON_DTYPES[name]
    name = name.removeprefix("torch.")
    name = _DTYPES.get(name, name)
    return name if name in _KNOWN_DTYPES else None


def device_of(value: Value | None) -> Device | None:
    """The device that a value names: "cuda", "cpu" or "?"; None for None or no argument."""
    if value is None or (isinstance(value, Const) and value.value is None):
        return None
    if isinstance(value, Const):
        if isinstance(value.value, bool):
            return "?"
        if isinstance(value.value, int):
            return "cuda"
        if isinstance(value.value, str):
            kind = value.value.split(":")[0]
            return "cuda" if kind == "cuda" else "cpu" if kind == "cpu" else "?"
    if isinstance(value, Instance) and value.external == "torch.device":
        given = value.args[0] if value.args else value.kwargs.get("type")
        return device_of(given) or "?"
    return "?"


def _fill_dtype(values: Sequence[Value]) -> str | None:
    kinds = {type(v.value) for v in values if isinstance(v, Const)}
    if any(not isinstance(v, Const) for v in values):
        return None
    if float in kinds:
        return "float32"
    return "bool" if kinds == {bool} else "int64" if kinds <= {int, bool} else None


def data_shape(value: Value) -> shapes.Shape:
    """The shape of `torch.tensor(value)`."""
    if isinstance(value, Tensor):
        return value.shape
    if isinstance(value, Const) or (isinstance(value, Host) and value.kind in ("number", "bool")):
        return ()
    if isinstance(value, SequenceValue) and value.kind in ("list", "tuple", "range"):
        length = value.length
        inner = data_shape(value.items[0]) if value.items else ()
        return None if inner is None or length is None else (length, *inner)
    return None


def data_dtype(value: Value) -> str | None:
    """The dtype of `torch.tensor(value)`."""
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, SequenceValue):
        found = [data_dtype(item) for item in value.items]
        if not found or value.rest is not None or None in found:
            return None
        return "float32" if "float32" in found else found[0]
    return _fill_dtype([value])


def made_shape(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> shapes.Shape:
    """The shape of what a factory makes. For methods (`Tensor.new_zeros`) `args` leaves the receiver out."""
    factory = FACTORIES.get(name)
    if factory is None:
        return None
    if factory.shape == "sizes":
        if "size" in kwargs:
            return shapes.sizes_of([kwargs["size"]])
        return shapes.sizes_of(args)
    if factory.shape == "size":
        if name == "torch.randint":
            given = kwargs.get("size") or (args[-1] if args else None)
        else:
            given = kwargs.get("size") or (args[0] if args else None)
        return shapes.sizes_of([given]) if isinstance(given, SequenceValue) else None
    if factory.shape == "like":
        first = args[0] if args else kwargs.get("input")
        return first.shape if isinstance(first, Tensor) else None
    if factory.shape == "data":
        first = args[0] if args else kwargs.get("data")
        if name in FIXED_DEVICES and len(args) >= 1 and not isinstance(first, SequenceValue):
            return shapes.sizes_of(args)
        return data_shape(first) if first is not None else None
    if factory.shape == "count":
        place = factory.position
        counted = kwargs.get("steps") or kwargs.get("n") or (args[place] if len(args) > place else None)
        return (shapes.dim_of(counted),)
    if factory.shape == "square":
        sizes = [shapes.dim_of(a) for a in args[:2]]
        return None if not sizes else (sizes[0], sizes[-1])
    if factory.shape == "pair":
        return (2, None)
    if factory.shape == "scalar":
        return ()
    if factory.shape == "arange":
        return (_arange_length(args, kwargs),)
    return None


def _arange_length(args: Sequence[Value], kwargs: Mapping[str, Value]) -> Dim:
    if "step" in kwargs or len(args) > 2:
        return None
    if len(args) + ("end" in kwargs) + ("start" in kwargs) == 1:
        return shapes.dim_of(args[0] if args else kwargs.get("end"))
    start = shapes.int_of(args[0] if args else kwargs.get("start"))
    end = shapes.int_of(args[1] if len(args) > 1 else kwargs.get("end"))
    return None if start is None or end is None else max(0, end - start)


def made_dtype(
    name: str, args: Sequence[Value], kwargs: Mapping[str, Value], receiver: Value | None = None
) -> str | None:
    """The dtype of what a factory makes, with torch's default dtype taken for float32."""
    factory = FACTORIES.get(name)
    if "dtype" in kwargs and not (isinstance(kwargs["dtype"], Const) and kwargs["dtype"].value is None):
        return dtype_of(kwargs["dtype"])
    if factory is None:
        return None
    if factory.dtype == "default":
        return "float32"
    if factory.dtype == "like":
        source = receiver if receiver is not None else (args[0] if args else kwargs.get("input"))
        return source.dtype if isinstance(source, Tensor) else None
    if name == "Tensor.new_tensor":
        return receiver.dtype if isinstance(receiver, Tensor) else None
    if factory.dtype == "data":
        first = args[0] if args else kwargs.get("data")
        return data_dtype(first) if first is not None else None
    if factory.dtype == "fill":
        if name == "torch.full":
            filled = kwargs.get("fill_value") or (args[1] if len(args) > 1 else None)
            return _fill_dtype([filled]) if filled is not None else None
        return _fill_dtype(list(args)) if args and not kwargs else "int64" if not args else None
    return factory.dtype


def made_device(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], receiver: Value | None = None) -> Device:
    """Where a factory puts its result: `device=`, else the device of the tensor it is like, else the CPU.

    `torch.set_default_device` and `with torch.device(...)` are the caller's to apply.
    """
    if name in FIXED_DEVICES:
        return FIXED_DEVICES[name]
    given = device_of(kwargs.get("device"))
    if given is not None:
        return given
    factory = FACTORIES.get(name)
    like = receiver
    if factory is not None and factory.shape == "like":
        like = args[0] if args else kwargs.get("input")
    if name in ("torch.as_tensor", "torch.asarray") and args and isinstance(args[0], Tensor):
        like = args[0]
    found = next((o for o in options(like) if isinstance(o, Tensor)), None) if like is not None else None
    if found is not None:
        return found.device
    return "?" if name.startswith("Tensor.") or like is not None else "cpu"
