"""Objects: how a class makes one, and those that are built when they are needed.

Nobody was seen to make an abstract object; the making of another one may have been left early. Both are gone through
when something is asked for that they lack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from graphlint.interp import calls, capture, effort, enums, tables, torch_objects, tuples
from graphlint.interp.objects import ClassValue, FunctionValue, Scope
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import Const, Host, Instance, Unknown, Value, join

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: What the making of one object may cost, in ticks: it must not use up the whole root's work.
BUDGET = 3_000
#: Class methods of packages that make an object of their class from files.
LOADERS = frozenset({"from_pretrained", "from_single_file"})
#: What `field(...)` of a dataclass makes.
FIELD = "dataclasses.field"
Maker: TypeAlias = "tuple[FunctionValue, tuple[Value, ...], dict[str, Value], Span]"
Args = tuple[Value, ...]
Kwargs = dict[str, Value]


def abstract_instance(m: Machine, cls: ClassValue) -> Value:
    """An object of `cls` that nobody was seen to make: one a root, built by its `__init__` when it is needed."""
    m.names.load(m, cls)
    if cls.id in m.abstract:
        return m.abstract[cls.id]
    if enums.is_enum(cls):
        return Host(kind="enum")
    instance = Instance(cls=cls, complete=False)
    m.abstract[cls.id] = instance
    m.pending[instance.id] = instance
    m.made.append(instance)
    return instance


def is_loader(function: FunctionValue) -> bool:
    return function.name.rpartition(".")[2] in LOADERS and not function.scope.module.in_project


def loaded(m: Machine, cls: ClassValue, span: Span) -> Value:
    """What `Class.from_pretrained(...)` of a package returns: reading files and moving weights tells nothing of it."""
    m.names.load(m, cls)
    found = m.names.class_attribute(m, cls, "__init__")
    if cls.name.startswith("Auto") or found is None or not isinstance(found[0], FunctionValue):
        return Unknown(cls.name)
    instance = m.instance_of(cls, span)
    instance.complete = False
    m.unfinished[instance.id] = (found[0], (), {"*": Unknown()}, cls.node.span)
    return instance


def build(m: Machine, instance: Instance, ticks: int = BUDGET) -> bool:
    """Builds an abstract instance when an attribute of it is first asked for; False if there was nothing to do.

    What its `__init__` does beyond `ticks` is left out.
    """
    if m.pending.pop(instance.id, None) is None or not isinstance(instance.cls, ClassValue):
        return False
    cls = instance.cls
    found = m.names.class_attribute(m, cls, "__init__")
    if found is not None and isinstance(found[0], FunctionValue):
        maker: Maker = (found[0], (), {"*": Unknown()}, cls.node.span)
        if _make(m, instance, maker, ticks):
            m.unfinished[instance.id] = maker
    elif cls.dataclass:
        # Nobody was seen to make it, so its defaults say nothing of what it holds.
        _rationed(m, ticks, cls, lambda: fill_fields(m, cls, instance, (), {"*": Unknown()}, cls.node.span))
    return True


def completed(m: Machine, instance: Instance) -> bool:
    """Builds or finishes an object that lacks what was asked for; True if it may have it now."""
    if instance.id in m.pending:
        return build(m, instance)
    return (bool(m.regions) or not instance.complete) and finish(m, instance)


def finish(m: Machine, instance: Instance) -> bool:
    """Makes an object again whose `__init__` was left early for its cost, now that it is used; False if it was not.

    What it holds already stays. Where the tensors lie that it makes is not known: the blocks and calls that decided it
    are over.
    """
    maker = m.unfinished.pop(instance.id, None)
    if maker is None:
        return False
    held, made = dict(instance.attrs), len(m.instances)
    device, m.default_device = m.default_device, "?"
    try:
        _make(m, instance, maker, BUDGET)
    finally:
        m.default_device = device
        for one in (instance, *m.instances[made:]):
            _doubt_placeholders(m, one)
        instance.attrs.update(held)
    return True


def _doubt_placeholders(m: Machine, instance: Instance) -> None:
    """A `None` of the project's constructors may have been replaced before the object is finished here."""
    cls = instance.cls
    if isinstance(cls, ClassValue) and cls.module.in_project:
        for name, value in instance.attrs.items():
            if isinstance(value, Const) and value.value is None:
                instance.attrs[name] = join(value, m.class_annotation(cls, name) or Unknown(name))


def _make(m: Machine, instance: Instance, maker: Maker, ticks: int) -> bool:
    """True if it was left early."""
    function, args, kwargs, span = maker
    cls = function.owner or instance.cls
    assert isinstance(cls, ClassValue)
    return _rationed(m, ticks, cls, lambda: calls.call_function(m, function, (instance, *args), kwargs, span))


def _rationed(m: Machine, ticks: int, cls: ClassValue, work: Callable[[], object]) -> bool:
    """True if the work was left before its end."""

    def initialise() -> bool:
        with m.quiet():
            m.path = str(cls.module.path)
            return isinstance(work(), Unknown)

    # What a package's constructor calls gets a part of that again, each time: its objects are large, and mostly checks.
    within = None if cls.module.in_project else m.full_budget or m.budget
    m.building += 1
    try:
        return effort.rationed(m, ticks, initialise, True, within=within)
    finally:
        m.building -= 1


def instantiate(m: Machine, cls: ClassValue, args: Args, kwargs: Kwargs, span: Span) -> Value:
    m.names.load(m, cls)
    if enums.is_enum(cls):
        return Host(kind="enum")
    if len(m.stack) > calls.MAX_DEPTH:
        return Unknown(cls.name)
    instance = m.instance_of(cls, span)
    instance.args, instance.kwargs = args, kwargs
    tables.begin(m, instance)
    found = m.names.class_attribute(m, cls, "__init__")
    if _has_generated_init(cls):
        fill_fields(m, cls, instance, args, kwargs, span)
    elif found is not None and isinstance(found[0], FunctionValue):
        left_early = True
        try:
            left_early = isinstance(calls.call_function(m, found[0], (instance, *args), kwargs, span), Unknown)
        finally:
            if left_early:
                m.unfinished[instance.id] = (found[0], args, kwargs, span)
    elif cls.dataclass or "typing.NamedTuple" in cls.external_bases:
        fill_fields(m, cls, instance, args, kwargs, span)
        if "typing.NamedTuple" in cls.external_bases:
            tuples.itemise(m, instance)
    elif (named := tuples.base_of(cls)) is not None:
        tuples.fill(m, instance, named, args, kwargs)
    elif tables.kind_of(instance):
        tables.initialise(m, instance, args, kwargs)
    elif m.names.is_module_class(m, cls):
        torch_objects.initialise(m, instance, args, kwargs, span)
    capture.note_instance(m, instance, span)
    return instance


def _has_generated_init(cls: ClassValue) -> bool:
    """True if the `__init__` of `cls` is the one that `@dataclass` writes, for it or a class that it derives from."""
    for ancestor in cls.mro:
        if "__init__" in ancestor.attrs:
            return False
        if ancestor.generates_init:
            return True
    return False


def fill_fields(m: Machine, cls: ClassValue, instance: Instance, args: Args, kwargs: Kwargs, span: Span) -> None:
    """What a dataclass's generated `__init__` does."""
    position = 0
    for ancestor in reversed(cls.mro):
        for statement in ancestor.node.body:
            if not (isinstance(statement, tree.AnnAssign) and isinstance(statement.target, tree.Name)):
                continue
            name = statement.target.id
            if position < len(args):
                value: Value = args[position]
            elif name in kwargs:
                value = kwargs[name]
            elif statement.value is not None and "*" not in kwargs:
                with m.quiet():
                    value = _field_default(m, ancestor.scope, statement.value)
            else:
                value = calls.deciding_default(statement.value) or (
                    m.names.annotated(m, statement.annotation, ancestor.scope) or m.hinted(name)
                )
            instance.attrs[name] = value
            position += 1
    after = m.names.class_attribute(m, cls, "__post_init__")
    if after is not None and isinstance(after[0], FunctionValue):
        calls.call_function(m, after[0], (instance,), {}, span)


def _field_default(m: Machine, scope: Scope, node: tree.Expr) -> Value:
    if isinstance(node, tree.Call) and isinstance(node.func, (tree.Name, tree.Attribute)):
        name = node.func.id if isinstance(node.func, tree.Name) else node.func.name
        if name in ("field", "ib", "attrib"):
            for arg in node.args:
                if arg.keyword == "default_factory":
                    return m.call(m.eval_in(scope, arg.value), (), {}, node.span, "default_factory")
                if arg.keyword in ("default", "factory"):
                    return m.eval_in(scope, arg.value)
            return Unknown()
    value = m.eval_in(scope, node)
    if isinstance(value, Instance) and value.external == FIELD:
        # A helper wrote the `field(...)`.
        if "default_factory" in value.kwargs:
            return m.call(value.kwargs["default_factory"], (), {}, node.span, "default_factory")
        return value.kwargs.get("default", Unknown())
    return value
