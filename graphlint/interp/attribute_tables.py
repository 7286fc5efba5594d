"""Attributes seen as a dictionary: `vars(x)`, `x.__dict__`, `module._buffers`. What is stored there is an attribute.

Such a table has the identity of its object, so that its entries and the object's attributes are the same places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp import torch_objects
from graphlint.source import Span
from graphlint.value import Instance, Mapping, Place, Value, tensors

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

KIND = "attributes"
_PARTS = {"_parameters": "parameter", "_buffers": "buffer"}


def seen(m: Machine, owner: Instance, name: str = "__dict__") -> Mapping | None:
    """The attributes of an object under one of the names that Python and torch have for them."""
    held: dict[object, Value] = {k: v for k, v in owner.attrs.items() if not k.startswith("$")}
    if name == "_modules" and torch_objects.is_module(m, owner):
        held = dict(torch_objects.children(m, owner).items())
    elif name in _PARTS and torch_objects.is_module(m, owner):
        held = {k: v for k, v in held.items() if any(t.storage.kind == _PARTS[name] for t in tensors(v, 0))}
    elif name != "__dict__":
        return None
    m.seen_as_table[owner.id] = owner
    return Mapping(kind=KIND, items=held, id=owner.id)


def place(table: Mapping, key: object) -> Place:
    """Where an entry of a mapping stands."""
    return Place(table.id, str(key), "attribute" if table.kind == KIND else "item")


def stored(m: Machine, table: Mapping, key: object, value: Value, span: Span, how: str, text: str) -> bool:
    """`vars(x)["name"] = value`; False for any other mapping, or a name that is not known."""
    from graphlint.interp.attributes import set_own

    owner = m.seen_as_table.get(table.id)
    if table.kind != KIND or owner is None or not isinstance(key, str):
        return False
    table.items[key] = value
    set_own(m, owner, key, value, span, how, text)
    return True
