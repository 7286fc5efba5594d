"""Trees of tensors: `torch.utils._pytree` and optree, which wrappers of captures take arguments and results apart with.

A tree is made of lists, tuples and dictionaries; whatever else it holds is a leaf. A spec remembers the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from graphlint.interp import attributes
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Mapping, Sequence, Unknown, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
MODULES = ("torch.utils._pytree.", "torch.utils.pytree.", "torch.utils._cxx_pytree.", "optree.")
SPEC = "torch.utils._pytree.TreeSpec"
_KINDS = ("list", "tuple", "named", "deque", "shape")


def call(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value | None:
    """What a function of a tree library gives; None if it is none that is known."""
    if not name.startswith(MODULES) or not args:
        return None
    match name.rpartition(".")[2]:
        case "tree_flatten":
            return m.sequence("tuple", [_leaves_of(m, args[0]), _spec(m, args[0], span)])
        case "tree_leaves" | "tree_iter":
            return _leaves_of(m, args[0])
        case "tree_structure":
            return _spec(m, args[0], span)
        case "tree_unflatten" if len(args) > 1:
            return _grown(m, *args[:2]) if isinstance(args[0], Instance) else _grown(m, args[1], args[0])
        case "tree_map" | "tree_map_" if len(args) > 1:
            return _mapped(m, args[1], lambda leaf: m.call(args[0], (leaf,), {}, span, "tree_map"))
        case "tree_map_only" | "tree_map_only_" if len(args) > 2:

            def only(leaf: Value) -> Value:
                fits = attributes.is_instance(m, leaf, args[0])
                return leaf if fits is False else m.call(args[1], (leaf,), {}, span, "tree_map_only")

            return _mapped(m, args[2], only)
    return None


def _spec(m: Machine, tree: Value, span: Span) -> Instance:
    spec = m.instance_of(External(SPEC), span)
    spec.attrs["$tree"] = tree
    return spec


def _leaves_of(m: Machine, tree: Value) -> Sequence:
    found = list(_leaves(tree))
    rest = next((leaf for leaf, many in found if many), None)
    return m.sequence("list", [leaf for leaf, many in found if not many], rest)


def _leaves(tree: Value) -> Iterator[tuple[Value, bool]]:
    """Leaves in order, and whether each stands for any number of its like."""
    if isinstance(tree, Sequence) and tree.kind in _KINDS:
        for item in tree.items:
            yield from _leaves(item)
        if tree.rest is not None:
            yield from ((leaf, True) for leaf, _ in _leaves(tree.rest))
    elif isinstance(tree, Mapping):
        for item in tree.items.values():
            yield from _leaves(item)
        if tree.rest is not None:
            yield from ((leaf, True) for leaf, _ in _leaves(tree.rest))
    elif not (isinstance(tree, Const) and tree.value is None):
        yield tree, False


def _mapped(m: Machine, tree: Value, change: Callable[[Value], Value]) -> Value:
    """A tree of the same form, each leaf changed."""
    if isinstance(tree, Sequence) and tree.kind in _KINDS:
        rest = _mapped(m, tree.rest, change) if tree.rest is not None else None
        return m.sequence(tree.kind, [_mapped(m, item, change) for item in tree.items], rest)
    if isinstance(tree, Mapping):
        rest = _mapped(m, tree.rest, change) if tree.rest is not None else None
        return m.mapping({k: _mapped(m, item, change) for k, item in tree.items.items()}, rest)
    if isinstance(tree, Const) and tree.value is None:
        return tree
    return change(tree)


def _grown(m: Machine, spec: Value, leaves: Value) -> Value:
    """The tree of `spec` with other leaves; unknown if these, or the tree, are not known."""
    tree = spec.attrs.get("$tree") if isinstance(spec, Instance) else None
    if tree is None or not isinstance(leaves, Sequence):
        return Unknown("tree_unflatten()")
    given = iter(leaves.items)
    return _mapped(m, tree, lambda old: next(given, leaves.rest or Unknown("leaf")))
