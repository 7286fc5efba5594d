"""What a condition tells of the values in it, in the branch where it came out one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint.interp import attributes
from graphlint.interp.objects import ClassValue, Scope
from graphlint.interp.subscripts import as_key
from graphlint.knowledge.capture_api import GUARDS
from graphlint.lower import tree
from graphlint.value import (
    NONE,
    Const,
    Device,
    External,
    Host,
    Instance,
    Mapping,
    Tensor,
    Unknown,
    Value,
    join,
    options,
    origins,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: Questions that a driver answers without an exception.
_ASKED = GUARDS | {"torch.cuda.is_available", "torch.cuda.is_initialized", "torch.xpu.is_available"}

#: Comparisons of a string with those that are written out.
_NAMED = ("==", "!=", "in", "not in")


def _narrowed_value(value: Value, keep: Callable[[Value], bool]) -> Value | None:
    kept = [o for o in options(value) if keep(o)]
    return join(*kept) if kept and len(kept) < len(options(value)) else None


def narrow(m: Machine, test: tree.Expr, taken: bool) -> None:
    """What a test says of the names in it, in the branch where it came out `taken`."""
    match test:
        case tree.UnaryOp(op="not", operand=operand):
            narrow(m, operand, not taken)
        case tree.BoolOp(op=op, values=values) if (op == "and") == taken:
            for value in values:
                narrow(m, value, taken)
        case tree.BoolOp(values=values) if len(values) <= 3 and any(_device_test(v) for v in values):
            # `a and b` is false and `a` is true: so `b` is false.
            open_ = [v for v in values if _device_test(v) or _decided(m, v) is None]
            if len(open_) == 1:
                narrow(m, open_[0], taken)
        case tree.Compare() | tree.Attribute() if (tested := _device_test(test)) is not None:
            name, device = tested
            _set_device(m, name, device if taken else "cpu" if device == "cuda" else "cuda")
        case tree.Compare(left=left, ops=(op,), comparators=(tree.Constant(value=None),)) if op in (
            "is",
            "is not",
            "==",
            "!=",
        ):
            is_none = (op in ("is", "==")) == taken
            _narrow_to(
                m, left, lambda v: (isinstance(v, Const) and v.value is None) == is_none, NONE if is_none else None
            )
        case tree.Compare(left=tree.Name() | tree.Attribute() as left, ops=(op,), comparators=(right,)) if op in _NAMED:
            _narrow_to_names(m, left, right, (op in ("==", "in")) == taken)
        case tree.Name() | tree.Attribute():
            _narrow_to(m, test, lambda v: not (isinstance(v, Const) and bool(v.value) != taken), Const(taken))
        case tree.Call(func=tree.Name(id="isinstance"), args=(first, second)):
            with m.quiet():
                kind = m.eval(second.value)
            _narrow_to(m, first.value, lambda v: attributes.is_instance(m, v, kind) is not (not taken))


def _narrow_to_names(m: Machine, target: tree.Expr, right: tree.Expr, among: bool) -> None:
    """`backend == "flash"`, `backend not in ("a", "b")`: a string is, or is not, among those that are written out."""
    nodes = right.items if isinstance(right, (tree.TupleExpr, tree.ListExpr, tree.SetExpr)) else (right,)
    names = [n.value for n in nodes if isinstance(n, tree.Constant) and isinstance(n.value, str)]
    if not names or len(names) < len(nodes):
        return
    with m.quiet_reading():
        value = m.eval(target)
    if among and all(isinstance(o, Unknown) or (isinstance(o, Host) and o.kind == "string") for o in options(value)):
        found = join(*(Const(name, origins(value)) for name in names))
        _narrow_to(m, target, lambda v: True, found)
        return
    _narrow_to(m, target, lambda v: not isinstance(v, Const) or (v.value in names) == among)


def _narrow_to(m: Machine, target: tree.Expr, keep: Callable[[Value], bool], if_unknown: Value | None = None) -> None:
    """Leaves what `keep` keeps of a name or an attribute; `if_unknown` stands for what is not known at all."""
    if isinstance(target, tree.Name):
        holder: Scope | None = m.scope
        while holder is not None and target.id not in holder.variables:
            holder = holder.parent
        if holder is None:
            return
        narrowed_value = _narrowed_value(holder.variables[target.id], keep)
        if narrowed_value is None and if_unknown is not None:
            narrowed_value = _known_now(holder.variables[target.id], if_unknown)
        if narrowed_value is not None:
            m.store(holder.variables, target.id, narrowed_value)
    elif isinstance(target, tree.Attribute) and isinstance(target.value, (tree.Name, tree.Attribute)):
        with m.quiet_reading():
            owner = m.eval(target.value)
        if isinstance(owner, Instance) and target.name in owner.attrs:
            narrowed_value = _narrowed_value(owner.attrs[target.name], keep)
            if narrowed_value is None and if_unknown is not None:
                narrowed_value = _known_now(owner.attrs[target.name], if_unknown)
            if narrowed_value is not None:
                m.store(owner.attrs, target.name, narrowed_value)


def _known_now(value: Value, told: Value) -> Value | None:
    """What a test tells of a value that is not known. A truth is told of flags alone: `if x:` may ask for a tensor."""
    if isinstance(told, Const) and isinstance(told.value, bool):
        # Where a flag was read from a tensor remains to be told wherever it is used.
        flag = isinstance(value, Host) and value.kind == "bool" and value.source != "read"
        return Const(told.value, origins(value), place=value.place) if flag else None
    return told if isinstance(value, Unknown) or (isinstance(value, Host) and value.kind == "string") else None


def _device_test(node: tree.Expr) -> tuple[str, Device] | None:
    """The name of a tensor and the device it is on where the test is true: `x.is_cuda`, `x.device.type == "cuda"`."""
    match node:
        case tree.Attribute(value=tree.Name(id=name), name="is_cuda"):
            return name, "cuda"
        case tree.Compare(
            left=tree.Attribute(value=tree.Attribute(value=tree.Name(id=name), name="device"), name="type"),
            ops=("==" | "!=" as op,),
            comparators=(tree.Constant(value="cuda" | "cpu" as device),),
        ):
            return name, device if op == "==" else "cpu" if device == "cuda" else "cuda"
    return None


def _decided(m: Machine, node: tree.Expr) -> bool | None:
    from graphlint.interp.operators import truth

    with m.quiet_reading():
        return truth(m, m.eval(node), "if", node)


def _set_device(m: Machine, name: str, device: Device) -> None:
    """A tensor of unknown device is on `device`; so is what is not known, which has a device and so is a tensor."""
    scope: Scope | None = m.scope
    while scope is not None and name not in scope.variables:
        scope = scope.parent
    if scope is None:
        return
    value = scope.variables[name]
    known: list[Value] = []
    for option in options(value):
        if isinstance(option, Unknown) and device == "cpu":
            option = m.tensor(kind="unknown", device=device, sure=False)
        elif isinstance(option, Tensor) and option.device == "?":
            option = replace(option, device=device)
        known.append(option)
    if any(new is not old for new, old in zip(known, options(value), strict=True)):
        m.store(scope.variables, name, join(*known))


def only_asks(m: Machine, body: tuple[tree.Stmt, ...]) -> bool:
    """True if a block only asks for the state of the device and of a capture, which raises nothing."""
    for statement in body:
        if not isinstance(statement, (tree.Return, tree.Assign)) or statement.value is None:
            return False
        if not _asks(m, statement.value):
            return False
    return bool(body)


def lookup_fails(m: Machine, node: tree.Try) -> tuple[tree.Expr, bool] | None:
    """`try: return table[key]` / `except KeyError:`: the question that this asks, and its answer; None if not known.

    Asking for forgiveness is a branch like another where the table, or the object, is known in full.
    """
    if len(node.body) != 1 or len(node.handlers) != 1 or not isinstance(node.body[0], (tree.Return, tree.Assign)):
        return None
    lookup, caught = node.body[0].value, node.handlers[0].type
    name = caught.id if isinstance(caught, tree.Name) else ""
    if isinstance(lookup, tree.Subscript) and name in ("KeyError", "LookupError"):
        with m.quiet_reading():
            table, key = m.eval(lookup.value), as_key(m.eval(lookup.index))
        if not isinstance(table, Mapping) or table.rest is not None or table.kind != "dict":
            return None
        if not isinstance(key, Const) or key.value.__hash__ is None:
            return None
        question = tree.Compare(lookup.span, lookup.index, ("not in",), (lookup.value,))
        return question, key.value not in table.items
    if isinstance(lookup, tree.Attribute) and name == "AttributeError":
        with m.quiet_reading():
            owner = m.eval(lookup.value)
        if not isinstance(owner, Instance) or not owner.complete or not isinstance(owner.cls, ClassValue):
            return None
        held = lookup.name in owner.attrs or m.names.class_attribute(m, owner.cls, lookup.name) is not None
        inherits = set(owner.cls.external_bases) - {"torch.nn.Module", "builtins.object"}
        if not held and (inherits or m.names.class_attribute(m, owner.cls, "__getattr__") is not None):
            return None
        none = tree.Constant(lookup.span, None)
        return tree.Compare(lookup.span, lookup, ("is",), (none,)), not held
    return None


def _asks(m: Machine, node: tree.Expr) -> bool:
    match node:
        case tree.Constant() | tree.Name():
            return True
        case tree.UnaryOp(op="not", operand=operand):
            return _asks(m, operand)
        case tree.BoolOp(values=values):
            return all(_asks(m, v) for v in values)
        case tree.Call(func=func, args=()):
            with m.quiet_reading():
                callee = m.eval(func)
            return isinstance(callee, External) and callee.name in _ASKED
    return False
