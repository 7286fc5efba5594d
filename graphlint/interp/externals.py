"""Calls of what is not read: torch, numpy, the standard library and packages without source."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from graphlint.fact import HostRead, Op, Raises, Unfollowed
from graphlint.interp import (
    backward,
    builtins,
    capture,
    containers,
    exit_stacks,
    hooks,
    pytree,
    repeats,
    standard,
    tables,
    torch_modules,
    torch_objects,
)
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue, Partial
from graphlint.interp.tensors import TENSOR_ONLY, call_tensor_method, wanted_device
from graphlint.interp.torch_functions import call_function
from graphlint.knowledge.capture_api import ACCELERATOR_CALLS, COMPILE_GUARDS, GRAPH_CLASSES, GRAPHED_CALLABLES, GUARDS
from graphlint.knowledge.engines import ENGINES
from graphlint.knowledge.names import NEVER_RETURN
from graphlint.knowledge.optimizers import OPTIMIZERS
from graphlint.source import Span
from graphlint.value import (
    Const,
    External,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
    options,
    tensors,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
CONTEXT_CLASSES = {
    "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.autocast", "torch.set_grad_enabled",
    "torch.device", "torch.cuda.stream", "torch.cuda.device", "torch.profiler.record_function", "torch.cuda.nvtx.range",
    "torch.accelerator.stream", "contextlib.nullcontext", "contextlib.suppress", *exit_stacks.NAMES,
    "torch.random.fork_rng", "torch.backends.cuda.sdp_kernel", "torch.nn.attention.sdpa_kernel",
    "torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly", "torch.cuda.use_mem_pool",
}  # fmt: skip
_BLOCKING = ("synchronize",)


def call_external(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if name in NEVER_RETURN:
        m.emit(Raises, span)
        return Unknown(text)
    if args and tables.unbound(args[0], name):
        return call_method(m, args[0], name.rpartition(".")[2], args[1:], kwargs, span, text)
    if name.startswith("builtins."):
        return builtins.call_builtin(m, name[9:], args, kwargs, span, text)
    if name.endswith(".get_accelerator"):
        return External("torch.cuda")
    if name in ACCELERATOR_CALLS:
        name = ACCELERATOR_CALLS[name]
        if name.endswith(".replay"):
            return capture.replay(m, args[0] if args else Unknown(), span)
    if name in GUARDS:
        return capture.guard_value(m, name)
    if name in COMPILE_GUARDS:
        return Const(m.region is not None and m.region.kind == "compile")
    if name in GRAPHED_CALLABLES:
        return capture.graphed_callables(m, args, kwargs, span, name)
    if name == "torch.compile":
        return capture.compile_(m, args, kwargs, span)
    clean = {k: v for k, v in kwargs.items() if k != "*"}
    if name.startswith("torch."):
        # `AdamW(params, **options)`: the "*" tells that options were given which are not known
        return _torch(m, name, args, kwargs if name.startswith("torch.optim.") else clean, span, text)
    handled = standard.call_standard(m, name, args, clean, span, text)
    if handled is not None:
        return handled
    if capture.is_wrapper(m, name):
        return _instance(m, name, args, clean, span)
    return _foreign(m, name, args, kwargs, span, text)


def _foreign(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """A function or class of a package that is not read."""
    last = name.rpartition(".")[2]
    clean = {k: v for k, v in kwargs.items() if k != "*"}
    if last[:1].isupper():
        made = _instance(m, name, args, clean, span)
        m.emit(Op, span, name=name, args=args, kwargs=clean, result=made, text=text)
        if name in ENGINES:
            capture.engine(m, clean, span)
        return made
    given = [t for v in (*args, *clean.values()) for t in tensors(v, 1)]
    result: Value = Unknown(f"{last}()")
    fact = m.emit(Op, span, name=name, args=args, kwargs=clean, result=result, text=text)
    if given:
        m.reads(fact, *args, *clean.values())
    if not name.startswith(("os.", "sys.", "logging.", "typing.", "re.", "json.", "numpy.", "math.", "time.")):
        m.unfollowed(span, f"{text}(...)")
    return result


def _instance(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span) -> Instance:
    made = m.instance_of(External(name), span)
    made.args, made.kwargs = args, kwargs
    return made


# ----------------------------------------------------------------------------------------------------- torch


def _torch(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    last = name.rpartition(".")[2]
    special = pytree.call(m, name, args, kwargs, span) or _special(m, name, last, args, kwargs, span)
    if special is not None:
        return special
    if name in CONTEXT_CLASSES or name.endswith(".graph"):
        return _instance(m, name, args, kwargs, span)
    if last[:1].isupper() and not name.startswith(("torch.Tensor.", "torch.ops.")):
        if name.startswith("torch.Tensor") or last.endswith("Tensor"):
            return call_function(m, name, args, kwargs, span, text)
        if name.startswith("torch.nn."):
            if last in ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel") and args:
                m.emit(Op, span, name=name, args=args, kwargs=kwargs, result=args[0], text=text)
                return args[0]
            made_module = torch_objects.make_module(m, name, args, kwargs, span)
            m.emit(Op, span, name=name, args=args, kwargs=kwargs, result=made_module, text=text)
            return made_module
        made = _instance(m, name, args, kwargs, span)
        m.emit(Op, span, name=name, args=args, kwargs=kwargs, result=made, text=text)
        return made
    if name.startswith("torch.Tensor.") and args and isinstance(args[0], Tensor):
        return call_tensor_method(m, args[0], last, args[1:], kwargs, span, text)
    return call_function(m, name, args, kwargs, span, text)


def _special(m: Machine, name: str, last: str, args: Args, kwargs: Kwargs, span: Span) -> Value | None:
    match name:
        case "torch.device":
            first = args[0] if args else kwargs.get("type", Unknown())
            if isinstance(first, Const) and isinstance(first.value, str):
                return Const(first.value)
            device = wanted_device(m, first)
            return Const(device) if device in ("cuda", "cpu") else Host(kind="device")
        case "torch.set_default_device":
            m.default_device = wanted_device(m, args[0] if args else None) or "cpu"
            return Const(None)
        case "torch.set_default_tensor_type":
            m.default_device = "?"
            return Const(None)
        case "torch.cuda.is_available" | "torch.cuda.is_initialized" | "torch.accelerator.is_available":
            return Const(True)
        case "torch.get_device_module" | "torch._C._get_accelerator":
            return External("torch.cuda")
        case "torch.is_tensor":
            return (
                Const(isinstance(args[0], Tensor))
                if args and not isinstance(args[0], (Unknown, Union))
                else Host(kind="bool")
            )
        case "torch.cuda.current_stream" | "torch.accelerator.current_stream":
            return m.current_stream()
        case "torch.cuda.default_stream":
            return m.default_stream
        case "torch.cuda.graph_pool_handle" | "torch.cuda.graphs.graph_pool_handle":
            return _instance(m, "torch.cuda.graph_pool_handle", args, kwargs, span)
        case "torch.cuda.set_stream" | "torch.accelerator.set_stream":
            m.emit(Op, span, name=name, args=args, kwargs=kwargs)
            if args:
                m.set_stream = args[0]
            return Const(None)
        case (
            "torch.jit.script"
            | "torch.jit.trace"
            | "torch.compiler.disable"
            | "torch.compiler.allow_in_graph"
            | "torch.fx.wrap"
        ):
            return args[0] if args else _instance(m, name, args, kwargs, span)
        case "torch.distributed.is_initialized" | "torch.distributed.is_available":
            return Host(kind="bool")
        case "torch.is_grad_enabled":
            return Const(m.grad_enabled())
        case "torch.numel":
            return Host("shape")
        case "torch.Size":
            return args[0] if args else m.sequence("tuple", [])
        case "torch.inference_mode" | "torch.no_grad" | "torch.enable_grad" if args and isinstance(
            args[0], FunctionValue
        ):
            return wrapped(m, args[0], _instance(m, name, (), {}, span))
    if name in GRAPH_CLASSES:
        graph = _instance(m, name, args, kwargs, span)
        m.emit(Op, span, name=name, args=args, kwargs=kwargs, result=graph)
        return graph
    if last in _BLOCKING or name == "torch.distributed.barrier":
        m.emit(Op, span, name=name, args=args, kwargs=kwargs)
        return Const(None)
    if name.startswith(
        ("torch.cuda.memory_", "torch.cuda.max_memory", "torch.cuda.get_device", "torch.cuda.device_count")
    ):
        return Host("other")
    if name == "torch.utils.checkpoint.checkpoint" and args:
        m.emit(Op, span, name=name, args=args, kwargs=kwargs)
        skip = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug"}
        return m.call(args[0], args[1:], {k: v for k, v in kwargs.items() if k not in skip}, span, "checkpoint")
    if name in ("torch.cond", "torch.while_loop", "torch.vmap", "torch.func.vmap"):
        m.emit(Op, span, name=name, args=args, kwargs=kwargs)
        return m.tensor(span)
    if name.endswith("autograd.Function.apply"):
        return m.tensor(span)
    return None


def wrapped(m: Machine, function: FunctionValue, context: Value) -> Value:
    return FunctionValue(
        node=function.node, scope=function.scope, owner=function.owner, binding=function.binding,
        wraps=(context, *function.wraps), context_manager=function.context_manager, opaque=function.opaque,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- methods, objects

#: What containers of modules hand on to the list or dictionary that they hold.
_OF_CONTAINERS = frozenset({
    "append", "extend", "insert", "get", "items", "values", "keys", "update", "pop", "add_module", "setdefault",
    "__getitem__", "clear",
})  # fmt: skip


def call_method(m: Machine, receiver: Value, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    match receiver:
        case Tensor():
            return call_tensor_method(m, receiver, name, args, kwargs, span, text)
        case Sequence():
            return containers.call_sequence(m, receiver, name, args, kwargs, span, text)
        case Mapping():
            return containers.call_mapping(m, receiver, name, args, kwargs, span, text)
        case Instance():
            return _object_method(m, receiver, name, args, kwargs, span, text)
        case Unknown():
            return unknown_method(m, receiver, name, args, kwargs, span, text)
        case ClassValue() if name == "apply" and backward.is_function(receiver):
            return backward.apply(m, receiver, args, {k: v for k, v in kwargs.items() if k != "*"}, span)
        case FunctionValue() if name == "cache_clear":
            repeats.forget(m, receiver)
            return Const(None)
        case FunctionValue() | BoundMethod() | Partial() if name == "__call__":
            return m.call(receiver, args, kwargs, span, text)
        case Const() | Host():
            return containers.call_scalar(m, receiver, name, args, kwargs, span, text)
        case _:
            return Unknown(name)


def unknown_method(
    m: Machine, receiver: Unknown, name: str, args: Args, kwargs: Kwargs, span: Span, text: str
) -> Value:
    """A method of something unknown. What only tensors have makes it a tensor, though not a sure one."""
    if name in TENSOR_ONLY and not (name == "clone" and kwargs):
        made = m.tensor(None, kind="unknown", sure=False)
        made.place = receiver.place or Place(0, receiver.hint, "local")
        return call_tensor_method(m, made, name, args, kwargs, span, text)
    if name == "replay" and not args:
        return capture.replay(m, receiver, span)
    if name == "replay_graph" and args:
        return capture.replay(m, args[0], span)
    if name == "capture_begin":
        return capture.begin(m, receiver, args, kwargs, span)
    if name == "capture_end":
        return capture.end(m, receiver, span)
    clean = {k: v for k, v in kwargs.items() if k != "*"}
    m.emit(Unfollowed, span, text=text, args=(*args, *clean.values()))
    fact = m.life[-1]
    m.reads(fact, *args, *clean.values())
    m.unfollowed(span, f"{text}(...)")
    return Unknown(receiver.hint if name == "to" else f"{name}()")  # moved, or cast: what it is called by stays true


def _object_method(
    m: Machine, receiver: Instance, name: str, args: Args, kwargs: Kwargs, span: Span, text: str
) -> Value:
    clean = {k: v for k, v in kwargs.items() if k != "*"}
    base = _optimizer_base(receiver)
    if base and name == "__init__":
        receiver.args, receiver.kwargs = args, kwargs
        return Const(None)
    if base:
        receiver = replace(receiver, cls=External(base))  # the same object, seen as what torch sees
    kind = receiver.external
    if "$items" in receiver.attrs and tables.kind_of(receiver):
        return tables.method(m, receiver, name, args, kwargs, span, text)
    if "$items" in receiver.attrs and name not in ("forward", "cuda", "to", "eval", "train", "parameters", "half"):
        inner = receiver.attrs["$items"]
        if name in _OF_CONTAINERS:
            return call_method(m, inner, name, args, kwargs, span, text)
    if torch_objects.is_module(m, receiver):
        return torch_modules.module_method(m, receiver, name, args, clean, span, text)
    if kind in GRAPH_CLASSES:
        return _graph_method(m, receiver, name, args, clean, span, text)
    if kind in exit_stacks.NAMES and name == "enter_context" and args:
        return standard.enter_context(m, args[0], span, receiver)
    if kind in exit_stacks.NAMES and name == "callback" and args:
        return exit_stacks.callback(m, receiver, args, clean, span)
    if kind in exit_stacks.NAMES and name in exit_stacks.LEAVES:
        return exit_stacks.keep_promises(m, receiver, span)
    if name == "__enter__" and (kind in CONTEXT_CLASSES or capture.is_capture_manager(m, receiver)):
        return standard.enter_context(m, receiver, span)
    if name == "__exit__" and capture.is_capture_manager(m, receiver):
        return capture.leave(m, span)
    if name == "__exit__" and any(c.value is receiver for c in m.contexts):
        return standard.leave_context(m, receiver, span)
    if name == "__call__":
        return m.call(receiver, args, kwargs, span, text)
    if kind.startswith("torch.optim."):
        if name in hooks.OF_STEPS:
            return hooks.register(m, receiver, name, args, clean, span)
        if name == "step" and "$hooks" in receiver.attrs:
            plain = partial(_told_method, m, receiver, name, args, clean, span, text)
            return hooks.around_step(m, receiver, args, clean, span, plain)
    return _told_method(m, receiver, name, args, clean, span, text)


def _told_method(m: Machine, receiver: Instance, name: str, args: Args, clean: Kwargs, span: Span, text: str) -> Value:
    """A method that only leaves a fact."""
    kind = receiver.external
    result = standard.object_result(m, receiver, name, args, clean, span)
    full = f"{kind}.{name}" if kind else f"{getattr(receiver.cls, 'name', '?')}.{name}"
    fact = m.emit(Op, span, name=full, args=args, kwargs=clean, receiver=receiver, result=result, text=f"{text}()")
    if m.region is not None:
        m.reads(fact, *args, *clean.values())
    if isinstance(receiver.cls, ClassValue) or not kind.startswith("torch."):
        for value in (*args, *clean.values()):
            for option in options(value):
                if isinstance(option, Tensor) and name in standard.LOG_METHODS and "logg" in kind.lower():
                    m.emit(HostRead, span, op="log", value=option, text=text)
    return result


def _optimizer_base(receiver: Instance) -> str:
    """The optimizer of torch that the object's class, read from source, derives from, or ""."""
    bases = receiver.cls.external_bases if isinstance(receiver.cls, ClassValue) else []
    return next((b for b in bases if b in OPTIMIZERS), "")


def call_any_graph(
    m: Machine, graphs: list[Value], name: str, args: Args, kwargs: Kwargs, span: Span, text: str
) -> Value:
    """A method of one of several graphs."""
    if name == "replay":
        return capture.replay(m, join(*graphs), span)
    with m.condition():
        m.emit(Op, span, name="torch.cuda.CUDAGraph.reset", receiver=join(*graphs), text=f"{text}()")
    return Const(None)


def _graph_method(m: Machine, graph: Instance, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    match name:
        case "replay":
            return capture.replay(m, graph, span)
        case "capture_begin":
            return capture.begin(m, graph, args, kwargs, span)
        case "capture_end":
            return capture.end(m, graph, span)
        case "pool":
            if "$pool" not in graph.attrs:
                graph.attrs["$pool"] = m.instance_of(External("torch.cuda.graph_pool_handle"), span)
            result: Value = graph.attrs["$pool"]
        case _:
            result = Const(None)
    m.emit(
        Op,
        span,
        name=f"{graph.external}.{name}",
        args=args,
        kwargs=kwargs,
        receiver=graph,
        result=result,
        text=f"{text}()",
    )
    return result


def opaque_call(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """A kernel, or code taken out of the capture: it reads what it is given; nothing else is known."""
    fact = m.emit(Op, span, name=f"kernel.{name}", args=args, kwargs=kwargs)
    m.reads(fact, *args, *kwargs.values())
    for value in args:
        m.writes(fact, value)
    return Unknown(name)
