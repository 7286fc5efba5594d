"""Methods of torch.nn.Module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Op
from graphlint.interp import attributes, capture, hooks, layers, torch_objects
from graphlint.interp.objects import ClassValue
from graphlint.interp.tensors import wanted_device
from graphlint.source import Span
from graphlint.value import (
    Const,
    Host,
    Instance,
    Tensor,
    Unknown,
    Value,
    join,
    options,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]


def module_method(m: Machine, module: Instance, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    full = f"torch.nn.Module.{name}"
    first = args[0] if args else None
    result: Value = module
    match name:
        case "__init__":
            module.attrs.setdefault("training", Const(True))
            torch_objects.initialise(m, module, args, kwargs, span)
            return Const(None)
        case "__call__" | "forward":
            # Asked of an object whose class has a `forward` in its source, it is that of `super()`.
            if name == "forward":
                return layers.own_forward(m, module, args, kwargs, span, text)
            own = isinstance(module.cls, ClassValue) and m.names.class_attribute(m, module.cls, "__call__")
            # A class's own `__call__` that asks torch's for the forward.
            forward = attributes.find_method(m, module, "forward") if own else None
            return m.call(forward or module, args, kwargs, span, text)
        case "cuda" | "to" | "cpu" | "to_empty":
            device = "cuda" if name == "cuda" else "cpu" if name == "cpu" else None
            device = device or next((d for v in (*args, *kwargs.values()) if (d := wanted_device(m, v))), None)
            if device in ("cuda", "cpu", "?"):
                torch_objects.move(m, module, device)  # type: ignore[arg-type]
        case "eval" | "train":
            mode: Value = Const(False) if name == "eval" else first or kwargs.get("mode") or Const(True)
            torch_objects.set_training(m, module, mode, span, text)
        case "requires_grad_":
            off = isinstance(first, Const) and not first.value
            for tensor in torch_objects.all_parameters(m, module):
                tensor.requires_grad = not off
        case "register_buffer" | "register_parameter":
            return _register(m, module, name, args, kwargs, span, text)
        case "add_module" | "register_module":
            if isinstance(first, Const) and len(args) > 1:
                attributes.set_attribute(m, module, str(first.value), args[1], span, "=", text)
            return Const(None)
        case "parameters" | "buffers":
            kind = "parameter" if name == "parameters" else "buffer"
            found = [t for s in torch_objects.submodules(m, module) for t in torch_objects.own_tensors(s, kind)]
            rest = None if module.complete and found else Unknown(name)
            result = m.sequence("generator", list(found), rest)
        case "get_submodule" if first is not None or "target" in kwargs:
            result = torch_objects.at_path(m, module, first or kwargs["target"])
        case "get_parameter" | "get_buffer" if isinstance(first, Const) and isinstance(first.value, str):
            path, _, leaf = first.value.rpartition(".")
            owner = torch_objects.at_path(m, module, Const(path))
            result = join(*(attributes.attribute_of(m, o, leaf, span) for o in options(owner)))
        case "named_parameters" | "named_buffers":
            pairs: list[Value] = [
                m.sequence("tuple", [key, t])
                for key, t in torch_objects.named_tensors(m, module, name.removeprefix("named_").removesuffix("s"))
            ]
            result = m.sequence(
                "generator", pairs, None if pairs else m.sequence("tuple", [Host(kind="string"), Unknown()])
            )
        case "modules":
            result = m.sequence("modules", list[Value](torch_objects.submodules(m, module)))
        case "children":
            result = m.sequence("modules", list[Value](torch_objects.submodules(m, module)[1:]))
        case "named_modules" | "named_children":
            parts = (torch_objects.named if name == "named_modules" else torch_objects.children)(m, module)
            result = m.sequence("generator", [m.sequence("tuple", [Const(k), s]) for k, s in parts.items()])
        case "state_dict":
            items: dict[object, Value] = {f"p{i}": t for i, t in enumerate(torch_objects.all_parameters(m, module))}
            result = m.mapping(items, Unknown("state"))
        case "apply":
            if first is not None:
                for sub in torch_objects.submodules(m, module)[:8]:
                    m.call(first, (sub,), {}, span, text)
        case "compile":
            compiled = capture.compile_(m, (module,), kwargs, span)
            inner = module.attrs.get("forward") or attributes.find_method(m, module, "forward")
            if isinstance(compiled, Instance) and inner is not None:
                compiled.attrs["$function"] = inner
                module.attrs["forward"] = compiled
            return Const(None)
        case "half" | "float" | "double" | "bfloat16" | "type" | "share_memory":
            pass
        case "zero_grad" | "load_state_dict":
            result = Const(None)
        case _ if name.startswith("register_"):
            result = hooks.register(m, module, name, args, kwargs, span)
        case _:
            result = Unknown(name)
    m.emit(Op, span, name=full, args=args, kwargs=kwargs, receiver=module, result=result, text=f"{text}()")
    if name == "zero_grad":
        m.clear_grads(torch_objects.all_parameters(m, module))
    return result


def _register(m: Machine, module: Instance, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    key = args[0] if args else kwargs.get("name")
    value = args[1] if len(args) > 1 else kwargs.get("tensor") or kwargs.get("param") or Const(None)
    if isinstance(key, Const):
        for option in options(value):
            if isinstance(option, Tensor):
                option.storage.kind = "buffer" if name == "register_buffer" else "parameter"
        attributes.set_attribute(m, module, str(key.value), value, span, "=", text)
    return Const(None)


def parameters_in(m: Machine, value: Value) -> list[Tensor]:
    from graphlint.value import tensors

    return tensors(value, 3)
