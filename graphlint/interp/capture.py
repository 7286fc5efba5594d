"""Where a capture begins and ends, what is replayed, and who wraps whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphlint.fact import Op, Replay
from graphlint.interp import torch_objects
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue, Partial
from graphlint.knowledge.capture_api import (
    CAPTURE_MANAGERS,
    CAPTURE_WRAPPERS,
    CUDAGRAPH_MODES,
    GRAPH_MANAGERS,
    PLAIN_MODES,
)
from graphlint.lower import tree
from graphlint.region import Region
from graphlint.source import Location, Span
from graphlint.value import (
    CAPTURING,
    Const,
    External,
    Instance,
    Mapping,
    Sequence,
    Union,
    Unknown,
    Value,
    options,
    origins,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
_GRAPH_KEYWORDS = ("cuda_graph", "xpu_graph", "npu_graph", "graph")


def is_capture_manager(m: Machine, value: Value) -> bool:
    """True for `torch.cuda.graph(...)` and its kin, graph objects that are context managers, what users configure."""
    if not isinstance(value, Instance):
        return False
    if isinstance(value.cls, ClassValue):
        return value.cls.name in m.names.capture_managers
    name = value.external
    return name in CAPTURE_MANAGERS or name in GRAPH_MANAGERS or name in m.names.capture_managers


def capture_block(
    m: Machine, manager: Value, item: tree.WithItem, node: tree.With, body: Callable[[Value], None], either: bool
) -> None:
    """either: `manager` is one of several, of which others do not capture: the block runs eagerly as well."""
    assert isinstance(manager, Instance)
    m.conditions += either
    value = enter(m, manager, item.expr.span)
    m.conditions -= either
    region = m.region_stack[-1]
    try:
        body(value)
    finally:
        while region in m.region_stack:
            m.close_region(item.expr.span)


def enter(m: Machine, manager: Instance, span: Span) -> Value:
    """The capture that `manager` makes begins; gives what `as` binds."""
    manager.attrs["$entered"] = Const(True)
    is_graph = manager.external in GRAPH_MANAGERS
    graph = manager if is_graph else _first(manager, 0, _GRAPH_KEYWORDS)
    region = new_region(m, "accelerator-graph" if is_graph else "graph", span, graph=graph)
    region.pool = _pool(m, manager.kwargs.get("pool") if is_graph else _first(manager, 1, ("pool",)))
    region.stream = _first(manager, 2, ("stream",)) if not is_graph else None
    region.options = manager.kwargs
    m.open_region(region, span)
    return graph if is_graph and graph is not None else Const(None)


def _pool(m: Machine, given: Value | None) -> Value | None:
    """The pool that a capture is given: a `None` that is known to stay one is no pool.

    Where a script is not followed from its start, somebody else may put a pool into the place that it is read from.
    """
    empty = isinstance(given, Const) and given.value is None
    return None if given is not None and empty and (m.complete or not origins(given)) else given


def leave(m: Machine, span: Span) -> Value:
    """`__exit__()` of a capture manager by hand."""
    if m.region_stack and m.region_stack[-1].kind in ("graph", "accelerator-graph"):
        m.close_region(span)
    return Const(None)


def never_entered(m: Machine) -> None:
    """Capture managers that were made and never entered, for graphs that are replayed all the same: an empty region."""
    replayed = [f.graph for f in m.life if isinstance(f, Replay) and not f.replayed]
    for manager in m.instances:
        if manager.external in CAPTURE_MANAGERS and "$entered" not in manager.attrs and manager.made is not None:
            graph = _first(manager, 0, _GRAPH_KEYWORDS)
            if isinstance(graph, Instance) and graph.id not in m.graph_regions and any(g is graph for g in replayed):
                region = Region("never-entered", manager.made, "", m.settings, graph=graph, warm=True)
                region.life, region.begin, region.end = m.life, m.order + 1, m.order + 1
                m.regions.append(region)


def engine(m: Machine, kwargs: Kwargs, span: Span) -> None:
    """A serving engine that captures by itself: an empty region with its arguments."""
    region = Region("engine", m.location(span), m.function_name, m.settings, warm=True, options=kwargs)
    region.life, region.begin, region.end = m.life, m.order + 1, m.order + 1
    m.regions.append(region)


def _first(manager: Instance, position: int, names: tuple[str, ...]) -> Value | None:
    for name in names:
        if name in manager.kwargs:
            return manager.kwargs[name]
    return manager.args[position] if position < len(manager.args) else None


def new_region(m: Machine, kind: str, span: Span, graph: Value | None = None, **more: object) -> Region:
    region = Region(kind, m.location(span), m.function_name, m.settings, graph=graph)
    for name, value in more.items():
        setattr(region, name, value)
    region.applied_at = _applied(m)
    return region


def _applied(m: Machine) -> Location | None:
    """The place that makes a wrapper's capture: where the object that stores the captured callable was made, or where
    a function that takes the callable was called."""
    activation = m.stack[-1] if m.stack else None
    function = activation.function if activation is not None else None
    if activation is None or function is None:
        return None
    receiver = activation.scope.variables.get(function.node.params[0].name) if function.node.params else None
    if function.owner is not None and isinstance(receiver, Instance):
        given = (*receiver.args, *receiver.kwargs.values())
        if any(_is_callable(v) or torch_objects.is_module(m, v) for v in given) or any(
            isinstance(v, (BoundMethod, FunctionValue, Partial)) for v in receiver.attrs.values()
        ):
            return receiver.made
    callables = [
        v
        for n, v in activation.scope.variables.items()
        if _is_callable(v) and any(p.name == n for p in function.node.params)
    ]
    return m.chain[-1].at if callables and m.chain else None


def _is_callable(value: Value) -> bool:
    return any(isinstance(o, (FunctionValue, BoundMethod, Partial)) for o in options(value))


def applied_here(m: Machine, depth: int, span: Span) -> None:
    """A capture opened by somebody's context manager is made where that manager is used."""
    for region in m.region_stack[depth:]:
        if region.applied_at is None:
            region.applied_at = m.location(span)


def note_instance(m: Machine, instance: Instance, span: Span) -> None:
    m.made.append(instance)


# ----------------------------------------------------------------------------------- begin, end and replay


def begin(m: Machine, graph: Value, args: Args, kwargs: Kwargs, span: Span) -> Value:
    region = new_region(m, "begin-end", span, graph=graph)
    region.pool = _pool(m, kwargs.get("pool") or (args[0] if args else None))
    region.options = kwargs
    m.open_region(region, span)
    return Const(None)


def end(m: Machine, graph: Value, span: Span) -> Value:
    wanted = m.graph_regions.get(graph.id, []) if isinstance(graph, Instance) else []
    if m.region_stack and (m.region_stack[-1] in wanted or m.region_stack[-1].kind == "begin-end"):
        m.close_region(span)
    else:
        m.emit(Op, span, name="torch.cuda.CUDAGraph.capture_end", receiver=graph)
    return Const(None)


def replay(m: Machine, graph: Value, span: Span) -> Value:
    regions = tuple(r for o in options(graph) if isinstance(o, Instance) for r in m.graph_regions.get(o.id, []))
    m.emit(Replay, span, replayed=regions, graph=graph, through=m.through)
    return Const(None)


# ---------------------------------------------------------------------- callables that are captured for the user


def graphed_callables(m: Machine, args: Args, kwargs: Kwargs, span: Span, name: str) -> Value:
    """make_graphed_callables: the bodies of the callables are regions; it warms up by itself."""
    callables = kwargs.get("callables") or kwargs.get("modules") or (args[0] if args else Unknown())
    samples = kwargs.get("sample_args") or (args[1] if len(args) > 1 else Unknown())
    if isinstance(callables, Sequence):
        made: list[Value] = []
        for index, function in enumerate(callables.items[:6]):
            sample = samples.items[index] if isinstance(samples, Sequence) and index < len(samples.items) else Unknown()
            made.append(_graphed(m, function, sample, kwargs, span, name))
        return m.sequence("tuple", made, callables.rest)
    return _graphed(m, callables, samples, kwargs, span, name)


def _graphed(m: Machine, function: Value, sample: Value, kwargs: Kwargs, span: Span, name: str) -> Value:
    region = new_region(m, "graphed-callables", span, warm=True, copies_inputs=True)
    region.options, region.pool = {**kwargs, "sample_args": sample}, _pool(m, kwargs.get("pool"))
    graphed = m.instance_of(External("graphed-callable"), span)
    region.graph = graphed
    given = tuple(sample.items) if isinstance(sample, Sequence) else ()
    more: Kwargs = {} if isinstance(sample, Sequence) else {"*": Unknown()}
    # A module with hooks of its own is refused; those of its parts are captured.
    hooks = function.attrs.pop("$hooks", None) if isinstance(function, Instance) else None
    m.open_region(region, span)
    try:
        result = m.call(function, given, more, span, "callable")
    finally:
        if hooks is not None and isinstance(function, Instance):
            function.attrs["$hooks"] = hooks
        while region in m.region_stack:
            m.close_region(span)
    graphed.attrs |= {"$function": function, "$result": result}
    if isinstance(function, Instance):
        # It patches the module's forward and hands the module back.
        function.attrs["forward"] = graphed
        return function
    return graphed


def call_graphed(m: Machine, graphed: Instance, args: Args, kwargs: Kwargs, span: Span) -> Value:
    regions = tuple(m.graph_regions.get(graphed.id, []))
    m.emit(Op, span, name="graphed-callable.call", args=args, kwargs=kwargs, receiver=graphed)
    m.emit(Replay, span, replayed=regions, graph=graphed)
    return graphed.attrs.get("$result", Unknown())


def compile_(m: Machine, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """torch.compile: as a call, or as a decorator with arguments."""
    compiled = m.instance_of(External("torch.compile"), span)
    compiled.args, compiled.kwargs = args, kwargs
    function = kwargs.get("model") or (args[0] if args else None)
    compiled.attrs["$kind"] = Const(_compile_kind(m, kwargs))
    if function is None or isinstance(function, Const):
        return compiled
    compiled.attrs["$function"] = function
    return compiled


def compiled_function(value: Instance) -> FunctionValue | None:
    """The function that was compiled into `value`, if that is what `value` is."""
    function = value.attrs.get("$function") if value.external == "torch.compile" else None
    return function if isinstance(function, FunctionValue) else None


def _compile_kind(m: Machine, kwargs: Kwargs) -> str:
    """ "cudagraphs", "maybe" (a mode that is not known) or "plain"."""
    if m.inductor_cudagraphs:
        return "cudagraphs"
    backend, mode, settings = kwargs.get("backend"), kwargs.get("mode"), kwargs.get("options")
    if isinstance(backend, Const):
        if backend.value == "cudagraphs":
            return "cudagraphs"
        if backend.value not in ("inductor", None):
            return "plain"
    if isinstance(settings, Mapping):
        flag = settings.items.get("triton.cudagraphs")
        if isinstance(flag, Const):
            return "cudagraphs" if flag.value else "plain"
        if settings.rest is not None or flag is not None:
            return "maybe"
    if isinstance(mode, Const):
        return "cudagraphs" if mode.value in CUDAGRAPH_MODES else "plain"
    if isinstance(mode, Union):
        kinds = {_compile_kind(m, {**kwargs, "mode": o}) for o in mode.options}
        return "cudagraphs" if kinds == {"cudagraphs"} else "maybe" if kinds != {"plain"} else "plain"
    if mode is not None or "*" in kwargs:
        return "maybe"
    assert PLAIN_MODES
    return "plain"


def call_compiled(m: Machine, compiled: Instance, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    kind = compiled.attrs["$kind"]
    function = compiled.attrs.get("$function")
    if function is None:
        # `@torch.compile(mode=...)`: this call gives it its function.
        if args and _is_code(args[0]):
            made = m.instance_of(compiled.cls, span)
            made.kwargs = compiled.kwargs
            made.attrs |= {"$kind": kind, "$function": args[0]}
            return made
        return Unknown()
    fact = m.emit(Op, span, name="torch.compile.call", args=args, kwargs=kwargs, receiver=compiled, text=text)
    m.reads(fact, *args, *kwargs.values())
    name = kind.value if isinstance(kind, Const) else "plain"
    if name == "plain" or m.region_stack:
        # Inside a capture its code is captured where it stands; whether it may be is for the rules to say.
        return m.call(function, args, kwargs, span, text)
    return _run_recorded(m, compiled, function, args, kwargs, span, "compile", maybe=name == "maybe", warm=True)


def _is_code(value: Value) -> bool:
    return isinstance(value, (FunctionValue, BoundMethod, Instance, Partial, ClassValue))


def _run_recorded(
    m: Machine, wrapper: Instance, function: Value, args: Args, kwargs: Kwargs, span: Span, kind: str, **more: bool
) -> Value:
    """The first call is recorded; later ones replay it and hand back the same memory."""
    regions = m.graph_regions.get(wrapper.id, [])
    if regions:
        m.emit(Replay, span, replayed=tuple(regions), graph=wrapper)
        return wrapper.attrs.get("$result", Unknown())
    region = new_region(m, kind, span, graph=wrapper, **more)
    if wrapper.made is not None:
        region.at = wrapper.made
    region.options = wrapper.kwargs
    m.open_region(region, span)
    try:
        result = m.call(function, args, kwargs, span, "compiled")
    finally:
        while region in m.region_stack:
            m.close_region(span)
    wrapper.attrs["$result"] = result
    return result


def is_wrapper(m: Machine, name: str) -> bool:
    return name in CAPTURE_WRAPPERS or name in m.names.capture_wrappers


def call_wrapper(m: Machine, wrapper: Instance, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """A wrapper whose source is not read (tensordict's CudaGraphModule, or a configured one)."""
    copies, clones = CAPTURE_WRAPPERS.get(wrapper.external) or m.names.capture_wrappers.get(
        wrapper.external, (False, False)
    )
    function = wrapper.attrs.get("$function") or (wrapper.args[0] if wrapper.args else Unknown())
    return _run_recorded(
        m,
        wrapper,
        function,
        args,
        kwargs,
        span,
        "cuda-graph-module",
        warm=True,
        copies_inputs=copies,
        clones_outputs=clones,
    )


def guard_value(m: Machine, name: str) -> Value:
    """A capturing predicate: known inside a manual capture, false outside."""
    manual = [r for r in m.region_stack if r.kind != "compile"]
    return Const(bool(manual), frozenset({CAPTURING}))
