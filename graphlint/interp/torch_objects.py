"""Objects of torch without source: modules, optimizers, streams, events, graphs, generators, scalers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp import backward
from graphlint.interp.objects import ClassValue, ExternalMethod
from graphlint.knowledge import shapes
from graphlint.knowledge.optimizers import given_groups
from graphlint.source import Span
from graphlint.value import (
    Const,
    Device,
    Dim,
    External,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    options,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: Layers that own parameters, with the names of these.
_PARAMETERS = {
    "Linear": ("weight", "bias"), "Bilinear": ("weight", "bias"), "Embedding": ("weight",), "EmbeddingBag": ("weight",),
    "LayerNorm": ("weight", "bias"), "GroupNorm": ("weight", "bias"), "RMSNorm": ("weight",), "PReLU": ("weight",),
    "BatchNorm1d": ("weight", "bias"), "BatchNorm2d": ("weight", "bias"), "BatchNorm3d": ("weight", "bias"),
    "SyncBatchNorm": ("weight", "bias"), "Conv1d": ("weight", "bias"), "Conv2d": ("weight", "bias"),
    "Conv3d": ("weight", "bias"), "ConvTranspose1d": ("weight", "bias"), "ConvTranspose2d": ("weight", "bias"),
    "LSTM": ("weight_ih_l0", "weight_hh_l0"), "GRU": ("weight_ih_l0", "weight_hh_l0"),
    "RNN": ("weight_ih_l0", "weight_hh_l0"), "MultiheadAttention": ("in_proj_weight", "in_proj_bias"),
    "TransformerEncoderLayer": ("weight",), "TransformerDecoderLayer": ("weight",), "LSTMCell": ("weight_ih",),
    "GRUCell": ("weight_ih",), "TransformerEncoder": ("weight",), "Transformer": ("weight",),
}  # fmt: skip
_BUFFERS = {"BatchNorm1d": ("running_mean", "running_var", "num_batches_tracked")}
_BUFFERS |= {n: _BUFFERS["BatchNorm1d"] for n in ("BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")}
CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict", "torch.nn.ParameterList",
                        "torch.nn.ParameterDict"})  # fmt: skip


def is_module(m: Machine, value: Value) -> bool:
    """A torch.nn.Module, of torch or of a class that was read."""
    if not isinstance(value, Instance):
        return False
    if isinstance(value.cls, ClassValue):
        return m.names.is_module_class(m, value.cls)
    return value.external.startswith("torch.nn.") and value.external.rpartition(".")[2][:1].isupper()


def make_module(m: Machine, name: str, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span) -> Value:
    """`torch.nn.Linear(...)` and the like: parameters and buffers on the device that it is built on."""
    from graphlint.interp.tensors import wanted_device

    device: Device = wanted_device(m, kwargs.get("device")) or m.default_device
    if name in ("torch.nn.Parameter", "torch.nn.Buffer"):
        return _parameter(m, name, args, kwargs, span)
    module = m.instance_of(External(name), span)
    module.args, module.kwargs = args, kwargs
    module.attrs["training"] = Const(True)
    last = name.rpartition(".")[2]
    if name in CONTAINERS:
        module.attrs["$items"] = _contained(m, name, args)
        return module
    for kind, names in (("parameter", _PARAMETERS.get(last, ())), ("buffer", _BUFFERS.get(last, ()))):
        for part in names:
            bias = kwargs.get("bias")
            off = part == "bias" and isinstance(bias, Const) and not bias.value
            if off:
                module.attrs[part] = Const(None)
            else:
                made = m.tensor(
                    span, device=device, kind=kind, shape=_shape(last, part, args), requires_grad=kind == "parameter"
                )
                made.storage.born = None if m.region is None else m.region
                module.attrs[part] = made
    return module


def layer_of(module: Instance) -> str:
    """The layer or container of torch that an object is, by its class or by the class that this derives from; or ""."""
    if not isinstance(module.cls, ClassValue):
        return module.external
    bases = module.cls.external_bases
    return next((b for b in bases if b in CONTAINERS or b.rpartition(".")[2] in _PARAMETERS), "")


def initialise(m: Machine, module: Instance, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span) -> None:
    """`super().__init__(...)` of a class that derives from a layer or a container of torch."""
    base = layer_of(module)
    if base:
        made = make_module(m, base, args, {k: v for k, v in kwargs.items() if k != "*"}, span)
        assert isinstance(made, Instance)
        module.attrs |= made.attrs
        module.args, module.kwargs = args, kwargs


def _shape(layer: str, part: str, args: tuple[Value, ...]) -> tuple[Dim, ...] | None:
    dims = [shapes.dim_of(a) for a in args[:2]]
    if layer == "Linear" and len(dims) == 2:
        return (dims[1], dims[0]) if part == "weight" else (dims[1],)
    if layer == "Embedding" and len(dims) == 2:
        return (dims[0], dims[1])
    return None


def _contained(m: Machine, name: str, args: tuple[Value, ...]) -> Value:
    first = args[0] if args else None
    if name.endswith("Dict"):
        return first if isinstance(first, Mapping) else m.mapping()
    if name == "torch.nn.Sequential" and not (len(args) == 1 and isinstance(first, (Sequence, Mapping))):
        return m.sequence("list", list(args), Unknown() if not args else None)
    if isinstance(first, Mapping):
        return m.sequence("list", list(first.items.values()), first.rest)
    if isinstance(first, Sequence):
        return m.sequence("list", list(first.items), first.rest)
    return m.sequence("list", [], Unknown() if first is not None else None)


def _parameter(m: Machine, name: str, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span) -> Value:
    source = args[0] if args else kwargs.get("data")
    wants = kwargs.get("requires_grad") or (args[1] if len(args) > 1 else None)
    grad = name == "torch.nn.Parameter" and not (isinstance(wants, Const) and not wants.value)
    kind = "parameter" if name == "torch.nn.Parameter" else "buffer"
    picked = next((o for o in options(source) if isinstance(o, Tensor)), None) if source is not None else None
    if picked is None:
        return m.tensor(span, kind=kind, requires_grad=grad)
    made = m.tensor(span, device=picked.device, shape=picked.shape, dtype=picked.dtype, kind=kind, requires_grad=grad)
    return made


# ----------------------------------------------------------------------------------- what modules are made of


def submodules(m: Machine, module: Instance, seen: set[int] | None = None, depth: int = 12) -> list[Instance]:
    """`module` and every module in it."""
    seen = set() if seen is None else seen
    if module.id in seen or depth < 0:
        return []
    seen.add(module.id)
    found = [module]
    for value in list(module.attrs.values()):
        for child in _modules_in(m, value):
            found += submodules(m, child, seen, depth - 1)
    return found


def children(m: Machine, module: Instance) -> dict[str, Instance]:
    """The modules that sit directly in `module`, by name."""
    found: dict[str, Instance] = {}
    for name, value in module.attrs.items():
        if name == "$items" and isinstance(value, Sequence):
            listed = {str(i): o for i, o in enumerate(value.items)} | ({"*": value.rest} if value.rest else {})
        elif name == "$items" and isinstance(value, Mapping):
            listed = {str(k): o for k, o in value.items.items()} | ({"*": value.rest} if value.rest else {})
        else:
            listed = {name: value} if not name.startswith("$") else {}
        for key, item in listed.items():
            child = next((o for o in options(item) if isinstance(o, Instance) and is_module(m, o)), None)
            if child is not None:
                found[key] = child
    return found


def named(m: Machine, module: Instance, prefix: str = "", seen: set[int] | None = None) -> dict[str, Instance]:
    """`module` and every module in it, by dotted name."""
    seen = set() if seen is None else seen
    if module.id in seen or len(seen) > 200:
        return {}
    seen.add(module.id)
    found = {prefix: module}
    for name, child in children(m, module).items():
        found |= named(m, child, f"{prefix}.{name}" if prefix else name, seen)
    return found


def at_path(m: Machine, module: Instance, path: Value) -> Value:
    """The module at a dotted path; any of those that hold something where the path is not known."""
    found = named(m, module)
    if isinstance(path, Const):
        return found.get(str(path.value)) or found.get("*") or Unknown("get_submodule")
    holders = [s for s in found.values() if s is not module and (isinstance(s.cls, ClassValue) or own_tensors(s))]
    return join(*holders) if holders else Unknown("get_submodule")


def named_tensors(m: Machine, module: Instance, kind: str) -> list[tuple[Value, Tensor]]:
    """Parameters or buffers with their dotted names, as far as these are known."""
    found: list[tuple[Value, Tensor]] = []
    for prefix, part in named(m, module).items():
        for tensor in own_tensors(part, kind):
            leaf = next((n for n, v in part.attrs.items() if any(o is tensor for o in options(v))), None)
            known = leaf is not None and "*" not in prefix
            found.append((Const(f"{prefix}.{leaf}" if prefix else leaf) if known else Host(kind="string"), tensor))
    told = {id(t) for _, t in found}
    rest = [t for s in submodules(m, module) for t in own_tensors(s, kind) if id(t) not in told]
    return [*found, *((Host(kind="string"), t) for t in rest)]


def contained(module: Instance, name: str) -> Value | None:
    """A part of a container of torch by its name: `getattr(sequential, "0")`."""
    held = module.attrs.get("$items")
    if isinstance(held, Sequence) and name.isdigit():
        return held.items[int(name)] if int(name) < len(held.items) else held.rest
    return held.items.get(name) if isinstance(held, Mapping) else None


def _modules_in(m: Machine, value: Value) -> list[Instance]:
    found: list[Instance] = []
    for option in options(value):
        if isinstance(option, Sequence):
            for item in [*option.items, *([option.rest] if option.rest is not None else [])]:
                found += [i for i in options(item) if isinstance(i, Instance) and is_module(m, i)]
        elif isinstance(option, Mapping):
            for item in [*option.items.values(), *([option.rest] if option.rest is not None else [])]:
                found += [i for i in options(item) if isinstance(i, Instance) and is_module(m, i)]
        elif isinstance(option, Instance) and is_module(m, option):
            found.append(option)
    return found


def own_tensors(module: Instance, kind: str | None = None) -> list[Tensor]:
    """Parameters and buffers that sit directly on a module."""
    found: list[Tensor] = []
    for name, value in module.attrs.items():
        if not name.startswith("$"):
            parts = [value, *(value.items if isinstance(value, Sequence) else [])]
            found += [
                o for p in parts for o in options(p)
                if isinstance(o, Tensor)
                and o.storage.kind in ("parameter", "buffer")
                and kind in (None, o.storage.kind)
            ]  # fmt: skip
    return found


def all_parameters(m: Machine, module: Value) -> list[Tensor]:
    if not isinstance(module, Instance):
        return []
    return [t for sub in submodules(m, module) for t in own_tensors(sub, "parameter")]


def move(m: Machine, module: Instance, device: Device) -> None:
    """`.cuda()` / `.to(device)`: parameters and buffers change their device in place."""
    for sub in submodules(m, module):
        for tensor in own_tensors(sub):
            tensor.device = device


def set_training(m: Machine, module: Instance, mode: Value, span: Span, text: str) -> None:
    for sub in submodules(m, module):
        m.bind(span, sub.attrs, Place(sub.id, "training", "attribute"), mode, owner=sub, text=text)


def external_attribute(m: Machine, value: Instance, name: str, span: Span) -> Value | None:
    """Attributes of objects whose class is not read; None if it is a method."""
    kind = value.external
    if kind == backward.CONTEXT:
        return backward.context_attribute(m, value, name)
    if "$function" in value.attrs and kind in ("torch.compile", "graphed-callable"):
        inner = value.attrs["$function"]
        if name in ("_orig_mod", "__wrapped__"):
            return inner
        if isinstance(inner, Instance):
            from graphlint.interp.attributes import attribute_of

            return attribute_of(m, inner, name, span)
    if name == "param_groups" and kind.startswith("torch.optim."):
        return _param_groups(m, value)
    if kind == "numpy.ndarray":
        return (
            Host("shape")
            if name in ("ndim", "size")
            else Sequence(kind="shape", rest=Host("shape"))
            if name == "shape"
            else ExternalMethod(receiver=value, name=name)
        )
    if kind in ("torch.device",):
        return Host(kind="string")
    if kind.startswith("torch.nn."):
        if (part := contained(value, name)) is not None:
            return part
        if name in value.kwargs:
            return value.kwargs[name]
        layer = kind.rpartition(".")[2]
        if layer in ("Linear",) and name in ("in_features", "out_features") and len(value.args) > 1:
            return value.args[name == "out_features"]
        if name in ("in_features", "out_features", "num_embeddings", "embedding_dim", "eps", "p", "normalized_shape"):
            return Host("other")
    if name in ("data_ptr", "cuda_stream", "stream_id", "device_index"):
        return None
    return None


def _param_groups(m: Machine, optimizer: Instance) -> Value:
    if "param_groups" not in optimizer.attrs:
        params = optimizer.args[0] if optimizer.args else optimizer.kwargs.get("params", Unknown())
        items: dict[object, Value] = {k: v for k, v in optimizer.kwargs.items() if k not in ("*", "params")}
        items.setdefault("lr", optimizer.args[1] if len(optimizer.args) > 1 else Const(1e-3))
        groups = given_groups(optimizer)
        for group in groups:  # the given dictionaries are the groups, filled up with the defaults
            for key, value in items.items():
                group.items.setdefault(key, value)
        if not groups:
            groups = [m.mapping({**items, "params": params}, Unknown())]
            groups[0].born = None
        optimizer.attrs["param_groups"] = Sequence(kind="list", items=list(groups))
    return optimizer.attrs["param_groups"]


def forward_shape(layer: str, module: Instance, x: Tensor) -> tuple[Dim, ...] | None:
    """The shape that a layer's forward gives, where that is cheap to say."""
    if layer == "Linear" and len(module.args) > 1:
        return shapes.linear(x.shape, shapes.dim_of(module.args[1]))
    if layer == "Embedding" and len(module.args) > 1 and x.shape is not None:
        return (*x.shape, shapes.dim_of(module.args[1]))
    if layer.startswith(
        ("Conv", "ConvTranspose", "LSTM", "GRU", "RNN", "AdaptiveAvg", "MaxPool", "AvgPool", "Flatten")
    ):
        return None
    if layer.endswith("Loss"):
        return ()
    return x.shape
