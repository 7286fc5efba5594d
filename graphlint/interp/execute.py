"""Statements: order, branches, loops, blocks and assignments.

A block's run ends "" (falls through), "return", "break", "continue" or "raise". At a condition that is not known,
both branches run from the same state and their effects are joined (see machine.py); a branch that raises is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphlint.fact import Keep, Raises, Return, Write
from graphlint.interp import (
    arrays,
    attributes,
    contexts,
    effort,
    flow,
    further,
    iteration,
    operators,
    protocols,
    subscripts,
)
from graphlint.interp.functions import class_value, function_value
from graphlint.interp.narrowing import lookup_fails, narrow, only_asks
from graphlint.interp.objects import BudgetSpent
from graphlint.interp.operators import truth
from graphlint.interp.spelling import spelled
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import (
    CAPTURING,
    Const,
    Host,
    Instance,
    Place,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
    options,
    origins,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine


def run_block(m: Machine, body: tuple[tree.Stmt, ...]) -> str:
    for statement in body:
        m.tick()
        end = _HANDLERS[type(statement)](m, statement)
        if end:
            return end
    return ""


# ------------------------------------------------------------------------------------------------ simple ones


def _expr(m: Machine, node: tree.ExprStmt) -> str:
    if isinstance(node.value, tree.Constant):
        return ""
    m.eval(node.value)
    return "raise" if isinstance(node.value, tree.Call) and _never_returned(m, node.value) else ""


def _never_returned(m: Machine, call: tree.Call) -> bool:
    """True after `sys.exit()` and its like, which leave a raise in the call's own place."""
    last = m.life[-1] if m.life else None
    return isinstance(last, Raises) and not last.handler and last.at == m.location(call.span)


def _assign(m: Machine, node: tree.Assign) -> str:
    value = m.eval(node.value)
    if isinstance(value, Const) and value.inputs and len(node.targets) == 1:
        value = _counted(m, value, node.targets[0])
    for target in node.targets:
        assign(m, target, value, node.span)
    return ""


def _counted(m: Machine, value: Const, target: tree.Expr) -> Const | Host:
    """What is bound by `step = step + 1`: a number that is not known from the second round of a loop on, if that has
    more rounds than are run."""
    name = target.id if isinstance(target, tree.Name) else target.name if isinstance(target, tree.Attribute) else ""
    number = isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    if number and m.in_later_round() and any(p.name == name for p in value.inputs):
        return Host("loop", inputs=value.inputs)
    return value


def _annassign(m: Machine, node: tree.AnnAssign) -> str:
    if node.value is not None:
        value = m.eval(node.value)
        if isinstance(value, Unknown):
            value = m.names.annotated(m, node.annotation, m.scope) or value
        assign(m, node.target, value, node.span)
    elif m.scope.class_scope and isinstance(node.target, tree.Name):
        # A field without a default: kept as an annotation for dataclasses and abstract instances.
        m.annotations.setdefault(m.scope.id, {})
    return ""


def _augassign(m: Machine, node: tree.AugAssign) -> str:
    old = m.eval(node.target)
    value = m.eval(node.value)
    picked = [o for o in options(old) if isinstance(o, Tensor)]
    if picked:
        tensor = picked[0]
        fact = m.emit(Write, node.span, target=tensor, how=f"{node.op}=", source=value, text=spelled(node.target))
        m.reads(fact, tensor, value)
        m.writes(fact, tensor)
        # In place: the name keeps its memory. `d[i] += x` also stores into the container.
        if isinstance(node.target, tree.Subscript):
            subscripts.set_item_of(m, node.target, tensor, node.span, augmented=True)
        return ""
    if arrays.written(m, old, f"{node.op}=", value, node.span, spelled(node.target)):
        return ""
    if isinstance(old, Sequence) and node.op == "+":
        for item in iteration.elements(m, value):
            m.append(old, item)
            if isinstance(item, Tensor):
                m.emit(Keep, node.span, container=old, value=item, how="extend", text=spelled(node.value))
        subscripts.note_container(m, old, node, "extend", value)
        return ""
    result = protocols.in_place(m, node.op, old, value, node.span) or operators.binary(m, node.op, old, value, node)
    number = isinstance(result, Const) and isinstance(result.value, (int, float))
    if number and isinstance(result, Const) and not further.comes_back(m, node, old, result) and m.in_later_round():
        # A counter in a loop that has more rounds than are run: from the second on its value is not known.
        result = Host("loop", inputs=result.inputs)
    assign(m, node.target, result, node.span, how=f"{node.op}=")
    return ""


def _return(m: Machine, node: tree.Return) -> str:
    value = m.eval(node.value) if node.value is not None else Const(None)
    activation = m.stack[-1]
    activation.returns.append(value)
    m.emit(Return, node.span, value=value, callee=activation.name)
    return "return"


def _raise(m: Machine, node: tree.Raise) -> str:
    if node.exc is not None:
        m.eval(node.exc)
    m.emit(Raises, node.span)
    return "raise"


def _assert(m: Machine, node: tree.Assert) -> str:
    value = m.eval(node.test)
    known = truth(m, value, "assert", node.test)
    if known is None:
        narrow(m, node.test, True)
    elif not known and (isinstance(node.test, tree.Constant) or CAPTURING in origins(value)):
        return "raise"
    return ""


def _delete(m: Machine, node: tree.Delete) -> str:
    from graphlint.fact import Bind

    for target in node.targets:
        match target:
            case tree.Name(id=name):
                variables = m.scope.variables
                if name in variables:
                    old = variables[name]
                    m.remove(variables, name)
                    m.emit(
                        Bind,
                        target.span,
                        place=Place(m.scope.id, name, "local"),
                        value=None,
                        old=old,
                        how="del",
                        text=name,
                    )
            case tree.Attribute(value=base, name=name):
                owner = m.eval(base)
                if isinstance(owner, Instance):
                    old_attr = owner.attrs.get(name)
                    m.remove(owner.attrs, name)
                    place = Place(owner.id, name, "attribute")
                    m.emit(
                        Bind,
                        target.span,
                        place=place,
                        value=None,
                        old=old_attr,
                        owner=owner,
                        how="del",
                        text=spelled(target),
                    )
                else:
                    attributes.set_attribute(m, owner, name, Const(None), target.span, "del", spelled(target))
            case tree.Subscript(value=base, index=index):
                container, key = m.eval(base), m.eval(index)
                subscripts.delete_item(m, container, key, target)
            case tree.TupleExpr(items=items):
                _delete(m, tree.Delete(node.span, items))
    return ""


def _pass(m: Machine, node: tree.Stmt) -> str:
    return ""


def _break(m: Machine, node: tree.Break) -> str:
    return "break"


def _continue(m: Machine, node: tree.Continue) -> str:
    return "continue"


def _global(m: Machine, node: tree.Global) -> str:
    m.scope.globals |= set(node.names)
    return ""


def _nonlocal(m: Machine, node: tree.Nonlocal) -> str:
    m.scope.nonlocals |= set(node.names)
    return ""


def _import(m: Machine, node: tree.Import) -> str:
    for dotted, alias in node.names:
        name = alias or dotted.split(".")[0]
        m.scope.variables[name] = m.names.imported_module(dotted if alias else name, m.scope.module)
    return ""


def _import_from(m: Machine, node: tree.ImportFrom) -> str:
    for original, alias in node.names:
        if original != "*":
            m.scope.variables[alias or original] = m.names.imported_name(m, node, original, m.scope.module)
    return ""


def _function(m: Machine, node: tree.Function) -> str:
    m.scope.variables[node.name] = function_value(m, node, m.scope)
    return ""


def _class(m: Machine, node: tree.Class) -> str:
    m.scope.variables[node.name] = class_value(m, node, m.scope)
    return ""


# ------------------------------------------------------------------------------------------------ assignment


def assign(m: Machine, target: tree.Expr, value: Value, span: Span, how: str = "=") -> None:
    """Binds `value` to a name, attribute, item or pattern of them."""
    match target:
        case tree.Name(id=name):
            _assign_name(m, name, value, span, how)
        case tree.Attribute(value=base, name=name):
            owner = m.eval(base)
            attributes.set_attribute(m, owner, name, value, span, how, spelled(target))
        case tree.Subscript():
            subscripts.set_item_of(m, target, value, span, how=how)
        case tree.TupleExpr(items=items) | tree.ListExpr(items=items):
            _unpack(m, items, value, span, how)
        case tree.Starred(value=inner):
            assign(m, inner, value, span, how)


def _assign_name(m: Machine, name: str, value: Value, span: Span, how: str) -> None:
    scope = m.scope
    if name in scope.globals:
        scope = m.names.module_scope(scope.module)
        m.names.lookup(m, scope, name)
    elif name in scope.nonlocals:
        holder = scope.parent
        while holder is not None and name not in holder.variables:
            holder = holder.parent
        scope = holder or scope
    kind: Any = "global" if scope.is_module else "local"
    m.bind(span, scope.variables, Place(scope.id, name, kind), value, how=how, text=name)


def _unpack(m: Machine, targets: tuple[tree.Expr, ...], value: Value, span: Span, how: str = "=") -> None:
    if isinstance(value, Union):
        sequences = [o for o in value.options if isinstance(o, Sequence) and len(o.items) == len(targets)]
        if len(sequences) > 1 and not any(isinstance(t, tree.Starred) for t in targets):
            for index, target in enumerate(targets):
                assign(m, target, join(*(s.items[index] for s in sequences)), span, how)
            return
        value = next((o for o in value.options if isinstance(o, (Sequence, Tensor))), value.options[0])
    items = iteration.unpacked(m, value, len(targets), any(isinstance(t, tree.Starred) for t in targets))
    star = next((i for i, t in enumerate(targets) if isinstance(t, tree.Starred)), None)
    if star is not None:
        after = len(targets) - star - 1
        middle = items[star : len(items) - after] if after else items[star:]
        items = [*items[:star], m.sequence("list", middle), *(items[len(items) - after :] if after else [])]
    for index, target in enumerate(targets):
        assign(m, target, items[index] if index < len(items) else Unknown(), span, how)


# ------------------------------------------------------------------------------------------------ with, try


def _with(m: Machine, node: tree.With) -> str:
    outcome: list[str] = []

    def body() -> None:
        outcome.append(m.run(node.body))

    def enter(index: int) -> None:
        if index == len(node.items):
            body()
            return
        item = node.items[index]
        manager = m.eval(item.expr)

        def inside(value: Value) -> None:
            if item.target is not None:
                assign(m, item.target, value, item.span)
            enter(index + 1)

        contexts.enter(m, manager, item, node, inside)

    enter(0)
    return outcome[0] if outcome else ""


def _try(m: Machine, node: tree.Try) -> str:
    asked = lookup_fails(m, node)
    if asked is not None:
        question, fails = asked
        body = node.handlers[0].body if fails else (*node.body, *node.orelse)
        flow.note_branch(m, question, Const(fails), fails, body)
        end = m.run(body)
        return m.run(node.final) or end
    captured = len(m.regions)
    try:
        end = m.run_protected(node.body)
    except BudgetSpent:
        effort.let_go(m, lambda: m.run(node.final))
        raise
    protects = tuple(m.regions[captured:])
    arms: list[Callable[[], str]] = []
    if node.handlers and not only_asks(m, node.body):

        def normal() -> str:
            return m.run(node.orelse) if end == "" else end

        arms.append(normal)
        for handler in node.handlers:

            def go(handler: tree.Handler = handler) -> str:
                caught = _caught(m, handler.type)
                fact = m.emit(Raises, handler.span, handler=True, caught=caught, protects=protects)
                if handler.name:
                    assign(m, tree.Name(handler.span, handler.name), Unknown(handler.name), handler.span)
                how = m.run(handler.body)
                m.emit(
                    Raises, handler.span, handler=True, caught=caught, protects=protects, ended=how, began=fact.order
                )
                return how

            arms.append(go)
        if end == "raise":
            arms = arms[1:]
        end = flow.branch(m, arms)
    elif not end:
        end = m.run(node.orelse)
    m.finals += 1
    try:
        final = m.run(node.final)
    finally:
        m.finals -= 1
    return final or end


def _caught(m: Machine, node: tree.Expr | None) -> tuple[str, ...]:
    if node is None:
        return ("",)
    parts = node.items if isinstance(node, tree.TupleExpr) else (node,)
    return tuple(spelled(p) for p in parts)


_HANDLERS: dict[type, Callable[[Machine, Any], str]] = {
    tree.ExprStmt: _expr, tree.Assign: _assign, tree.AnnAssign: _annassign, tree.AugAssign: _augassign,
    tree.Return: _return, tree.Raise: _raise, tree.Assert: _assert, tree.Delete: _delete, tree.Pass: _pass,
    tree.Break: _break, tree.Continue: _continue, tree.Global: _global, tree.Nonlocal: _nonlocal,
    tree.Import: _import, tree.ImportFrom: _import_from, tree.Function: _function, tree.Class: _class,
    tree.If: flow.if_, tree.Match: flow.match_, tree.For: flow.for_, tree.While: flow.while_,
    tree.With: _with, tree.Try: _try,
}  # fmt: skip
