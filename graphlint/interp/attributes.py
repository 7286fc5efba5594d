"""Attributes: where they are looked up, and what binding one means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Bind
from graphlint.interp import attribute_tables, backward, capture, delegation, descriptors, enums, making, tuples
from graphlint.interp.objects import (
    BoundMethod,
    ClassValue,
    ExternalMethod,
    FunctionValue,
    ModuleValue,
    Partial,
    SuperValue,
)
from graphlint.interp.tensors import tensor_attribute
from graphlint.knowledge.layer_classes import is_layer
from graphlint.knowledge.names import CONSTANTS, canonical
from graphlint.lower import tree
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
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: Methods of torch.nn.Module that a subclass inherits without source.
MODULE_METHODS = frozenset(
    [
        "cuda",
        "cpu",
        "to",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "eval",
        "train",
        "requires_grad_",
        "parameters",
        "named_parameters",
        "buffers",
        "named_buffers",
        "children",
        "named_children",
        "modules",
        "named_modules",
        "register_buffer",
        "register_parameter",
        "add_module",
        "register_module",
        "zero_grad",
        "state_dict",
        "load_state_dict",
        "apply",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "get_submodule",
        "get_parameter",
        "compile",
        "to_empty",
        "share_memory",
        "__init__",
        "__setattr__",
        "__call__",
        "forward",
        "extra_repr",
    ]
)


#: Methods of torch.nn.Module that packages override only to check something first, and then do what torch does.
_KEPT = frozenset({"cuda", "cpu", "to", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_"})


#: Names of what a record says of its own fields.
_FIELDS = frozenset({"_fields", "__dataclass_fields__"})


def _packaged_module(m: Machine, cls: ClassValue, method: Value) -> bool:
    return isinstance(method, FunctionValue) and not method.scope.module.in_project and m.names.is_module_class(m, cls)


def get_attribute(m: Machine, value: Value, name: str, node: tree.Attribute) -> Value:
    if isinstance(value, Union):
        found = [get_attribute(m, o, name, node) for o in value.options if not _none(o)]
        return join(*found) if found else Unknown(name)
    return attribute_of(m, value, name, node.span)


def attribute_of(m: Machine, value: Value, name: str, span: Span) -> Value:
    match value:
        case Instance():
            return _instance_attribute(m, value, name, span)
        case Tensor():
            return tensor_attribute(m, value, name, span)
        case External(name=base):
            full = canonical(f"{base}.{name}")
            return Const(CONSTANTS[full]) if full in CONSTANTS else External(full)
        case ModuleValue(module=module):
            found = m.names.module_attribute(m, module, name)
            if found is None:
                return Unknown(name)
            scope = m.names.module_scope(module)
            return m.at_place(found, Place(scope.id, name, "global"))
        case ClassValue():
            return _class_attribute(m, value, name, span)
        case SuperValue():
            return _super_attribute(m, value, name)
        case Mapping(kind="namespace"):
            if name in value.items:
                return m.at_place(value.items[name], Place(value.id, name, "attribute"))
            return value.rest or ExternalMethod(receiver=value, name=name)
        case Sequence(kind="named", items=items):
            return ExternalMethod(receiver=value, name=name) if not items else Unknown(name)
        case Const(value=enums.Member()):
            return enums.attribute(m, value, name, span)
        case Sequence() | Mapping() | Const() | ExternalMethod():
            return ExternalMethod(receiver=value, name=name)
        case Host(kind="device") if name in ("type", "index"):
            return Host(kind="string" if name == "type" else "number", symbol=value.symbol)
        case Host():
            return ExternalMethod(receiver=value, name=name)
        case FunctionValue() | BoundMethod() | Partial():
            attrs = m.function_attrs.get(id(value))
            if attrs and name in attrs:
                return attrs[name]
            if name in ("__name__", "__qualname__", "__doc__", "__module__"):
                return _about_function(m, value, name)
            if name == "__self__" and isinstance(value, BoundMethod):
                return value.receiver
            if name == "__code__" and isinstance(value, FunctionValue):
                return _code(value)
            return ExternalMethod(receiver=value, name=name)
        case Unknown():
            return m.unknown_attribute(value, name)
        case _:
            return Unknown(name)


def _code(function: FunctionValue) -> Value:
    """What is asked of a code object are its parameters; the other locals are left out."""
    params = sorted(function.node.params, key=lambda p: ("*", "**").index(p.kind) + 1 if p.kind in ("*", "**") else 0)
    names: list[Value] = [Const(p.name) for p in params]
    count = sum(p.kind in ("positional-only", "positional") for p in params)
    return Mapping(
        items={"co_varnames": Sequence(kind="tuple", items=names), "co_argcount": Const(count)},
        rest=Unknown("__code__"),
        kind="namespace",
    )


def _about_function(m: Machine, value: FunctionValue | BoundMethod | Partial, name: str) -> Value:
    """What a function says of itself: its name, unless a decorator gives it that of another."""
    function = value.function if isinstance(value, BoundMethod) else value
    place = Place(id(function), name, "attribute")
    if name != "__name__" or not isinstance(function, FunctionValue) or not isinstance(function.node, tree.Function):
        return Host(kind="string", place=place)
    called = [d.func for d in function.node.decorators if isinstance(d, tree.Call)]
    if any(getattr(f, "name", getattr(f, "id", "")) == "wraps" for f in called):
        return Host(kind="string", place=place)
    return Const(function.node.name, place=place)


def _none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _instance_attribute(m: Machine, value: Instance, name: str, span: Span) -> Value:
    if (answer := descriptors.read(m, value, name, span)) is not None:
        return answer
    place = Place(value.id, name, "attribute")
    if name in value.attrs:
        return m.at_place(value.attrs[name], place)
    if name == "__class__":
        return value.cls
    if name in ("__dict__", "_parameters", "_buffers", "_modules"):
        table = attribute_tables.seen(m, value, name)
        if table is not None:
            table.rest = Unknown() if name == "__dict__" else None
            return table
    if name in _FIELDS and (names := tuples.field_names(m, value.cls, name)) is not None:
        return names
    if isinstance(value.cls, ClassValue):
        found = m.names.class_attribute(m, value.cls, name)
        held_by_class = found is not None and not isinstance(found[0], FunctionValue)
        if held_by_class and making.completed(m, value) and name in value.attrs:
            return m.at_place(value.attrs[name], place)
        if found is not None and name in _KEPT and _packaged_module(m, value.cls, found[0]):
            return ExternalMethod(receiver=value, name=name)
        if found is not None:
            bound = bind_to(m, found[0], value, found[1], span)
            if not held_by_class and bound.place is not None:
                return bound  # a property hands on what it read
            if isinstance(bound, (Const, Tensor, Host, Unknown, Union)):
                return m.at_place(bound, Place(found[1].id, name, "attribute"))
            return bound
        if making.completed(m, value) and name in value.attrs:
            return m.at_place(value.attrs[name], place)
        if name == "training" and m.names.is_module_class(m, value.cls):
            return m.at_place(Const(True), place)
        if name in MODULE_METHODS and value.cls.external_bases:
            return ExternalMethod(receiver=value, name=name)
        if (answer := delegation.asked(m, value, name, span)) is not None:
            return answer
        annotated = m.class_annotation(value.cls, name)
        if annotated is not None:
            value.attrs[name] = annotated
            return m.at_place(annotated, place)
        if value.cls.external_bases and name not in ("shape",) and value.cls.external_bases != ["builtins.object"]:
            if m.names.is_module_class(m, value.cls) or not value.complete:
                return _missing(m, value, name, place)
            return ExternalMethod(receiver=value, name=name)
        return _missing(m, value, name, place)
    from graphlint.interp.torch_objects import external_attribute

    if name in _FIELDS and (names := tuples.field_names(m, value, name)) is not None:
        return names
    known = external_attribute(m, value, name, span)
    if known is not None:
        return known
    return ExternalMethod(receiver=value, name=name)


def _missing(m: Machine, value: Instance, name: str, place: Place) -> Value:
    """An attribute nobody was seen to set: unknown, but the same unknown each time."""
    unknown = m.hinted(name)
    if value.id not in m.unfinished:
        value.attrs[name] = unknown
    return m.at_place(unknown, place)


def bind_to(m: Machine, value: Value, receiver: Value, owner: ClassValue, span: Span) -> Value:
    """A class's attribute as seen through an instance."""
    if isinstance(value, Instance) and value.external == making.FIELD:
        return Unknown()  # says how the objects get it
    if isinstance(value, Instance) and (compiled := capture.compiled_function(value)) is not None:
        # What torch.compile makes of a function is a function, and so a method.
        return value if compiled.binding != "function" else Partial(function=value, args=(receiver,))
    if not isinstance(value, FunctionValue):
        return value
    if value.binding == "staticmethod":
        return value
    if value.binding == "classmethod":
        cls = receiver.cls if isinstance(receiver, Instance) else receiver
        return BoundMethod(receiver=cls, function=value)
    method = BoundMethod(receiver=receiver, function=value)
    if value.binding == "property":
        if value.memo and isinstance(receiver, Instance):
            result = m.call(method, (), {}, span, value.name)
            receiver.attrs[value.node.name] = result  # type: ignore[union-attr]
            return result
        return m.call(method, (), {}, span, value.name)
    return method


def _class_attribute(m: Machine, cls: ClassValue, name: str, span: Span) -> Value:
    if name in _FIELDS and (names := tuples.field_names(m, cls, name)) is not None:
        return names
    found = m.names.class_attribute(m, cls, name)
    if found is not None:
        value, owner = found
        if isinstance(value, FunctionValue) and value.binding == "classmethod":
            return BoundMethod(receiver=cls, function=value)
        if (answer := descriptors.read_from_class(m, cls, value, span)) is not None:
            return answer
        if enums.is_member(owner, name, value):
            return enums.member(owner, name, value)
        return m.at_place(value, Place(owner.id, name, "attribute"))
    if name in ("__name__", "__qualname__", "__module__", "__doc__"):
        return Const(cls.name) if name == "__name__" else Host(kind="string")
    if name == "apply" and backward.is_function(cls):
        return ExternalMethod(receiver=cls, name=name)
    if cls.external_bases:
        return External(canonical(f"{cls.external_bases[0]}.{name}"))
    return Unknown(name)


def _super_attribute(m: Machine, value: SuperValue, name: str) -> Value:
    receiver = value.receiver
    cls = receiver.cls if isinstance(receiver, Instance) else receiver
    if not isinstance(cls, ClassValue):
        return Unknown(name)
    m.names.load(m, cls)
    order = cls.mro
    start = order.index(value.after) + 1 if value.after in order else 1
    for ancestor in order[start:]:
        m.names.load(m, ancestor)
        if name in ancestor.attrs:
            return bind_to(m, ancestor.attrs[name], receiver, ancestor, Span(0, 0, 0, 0))
    return ExternalMethod(receiver=receiver, name=name)


def find_method(m: Machine, value: Instance, name: str) -> Value | None:
    """A method read from source, bound; None if there is none."""
    if name in value.attrs:
        return value.attrs[name]
    if isinstance(value.cls, ClassValue):
        found = m.names.class_attribute(m, value.cls, name)
        if found is not None and isinstance(found[0], (FunctionValue, BoundMethod, Instance, Partial)):
            return bind_to(m, found[0], value, found[1], Span(0, 0, 0, 0))
    return None


def has_default_truth(m: Machine, value: Instance) -> bool:
    """True if bool(value) cannot be False: no `__bool__`, no `__len__`."""
    if isinstance(value.cls, ClassValue):
        return all(m.names.class_attribute(m, value.cls, n) is None for n in ("__bool__", "__len__"))
    return value.external.startswith("torch.") and value.external != "torch.Size"


def set_own(m: Machine, target: Instance, name: str, value: Value, span: Span, how: str, text: str) -> None:
    """Binds an attribute of the object itself, whatever its class says."""
    m.bind(span, target.attrs, Place(target.id, name, "attribute"), value, owner=target, how=how, text=text)


def set_attribute(
    m: Machine, owner: Value, name: str, value: Value, span: Span, how: str = "=", text: str = ""
) -> None:
    for target in options(owner):
        match target:
            case Instance():
                if not descriptors.written(m, target, name, value, span, how, text):
                    set_own(m, target, name, value, span, how, text)
            case ClassValue():
                m.names.load(m, target)
                m.bind(span, target.attrs, Place(target.id, name, "attribute"), value, owner=target, how=how, text=text)
            case ModuleValue(module=module):
                scope = m.names.module_scope(module)
                m.bind(span, scope.variables, Place(scope.id, name, "global"), value, owner=target, how=how, text=text)
            case Tensor():
                attrs = m.tensor_attrs.setdefault(target.storage.id, {})
                place = Place(target.storage.id, name, "attribute")
                old = attrs.get(name)
                m.store(attrs, name, value)
                m.emit(Bind, span, place=place, value=value, old=old, owner=target, how=how, text=text)
            case FunctionValue() | BoundMethod() | Partial():
                attrs = m.function_attrs.setdefault(id(target), {})
                place = Place(id(target), name, "attribute")
                m.emit(Bind, span, place=place, value=value, old=attrs.get(name), owner=target, how=how, text=text)
                attrs[name] = value
            case External():
                m.set_external(target, name, value, span)
            case Mapping(kind="namespace"):
                m.bind(span, target.items, Place(target.id, name, "attribute"), value, owner=target, how=how, text=text)
            case Unknown():
                place = Place(id(target), name, "attribute")
                m.emit(Bind, span, place=place, value=value, old=None, owner=target, how=how, text=text)


def is_instance(m: Machine, value: Value, kind: Value) -> bool | None:
    """isinstance(value, kind), if it can be told."""
    kinds = kind.items if isinstance(kind, Sequence) else list(options(kind))
    answers = [_is_one(m, value, k) for k in kinds]
    if any(a is True for a in answers):
        return True
    return False if answers and all(a is False for a in answers) else None


def _unread(base: Value) -> bool:
    return not isinstance(base, (ClassValue, External))


def _is_one(m: Machine, value: Value, kind: Value) -> bool | None:
    if isinstance(value, (Unknown, Union)):
        return None
    if isinstance(kind, ClassValue):
        if isinstance(value, Instance) and isinstance(value.cls, ClassValue):
            m.names.load(m, value.cls)
            return True if kind in value.cls.mro else (False if value.complete else None)
        return None if isinstance(value, Instance) and isinstance(value.cls, Unknown) else False
    if not isinstance(kind, External):
        return None
    name = kind.name.removeprefix("builtins.")
    if name in ("torch.Tensor", "torch.nn.Parameter", "torch.FloatTensor"):
        if isinstance(value, Tensor):
            return True if name == "torch.Tensor" else value.storage.kind == "parameter"
        return False
    if name in ("int", "float", "bool", "str", "bytes", "numbers.Number", "complex"):
        if isinstance(value, Const):
            return type(value.value).__name__ == name or (name == "int" and isinstance(value.value, bool))
        if isinstance(value, Host):
            return None
        return False
    if name in ("list", "tuple", "set", "dict"):
        if isinstance(value, Sequence):
            return value.kind == name if value.kind in ("list", "tuple", "set") else None
        return name == "dict" if isinstance(value, Mapping) and value.kind == "dict" else False
    if isinstance(value, Instance):
        bases = [value.external] if value.external else []
        if isinstance(value.cls, ClassValue):
            # A base that is not known may be anything.
            read = m.names.load(m, value.cls)
            bases = [*read.external_bases, *("" for c in read.mro for b in c.bases if _unread(b))]
        answer = is_layer(bases, kind.name)
        return answer if answer or value.complete else None
    return False if isinstance(value, (Tensor, Const)) and name.startswith("torch.nn.") else None
