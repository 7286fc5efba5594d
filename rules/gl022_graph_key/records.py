"""Objects as keys, and keys made of an object's fields: what of the object was frozen, and does not count.

Glossary:
    record   an object of a class of the project that a key is, or is made of: a batch descriptor, a request's options.
    counted  the fields of a record that the key is made of, or that two records are compared by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphlint import queries
from graphlint.arguments import all_origins, enclosing, finders, identity, scalar
from graphlint.fact import (
    Branch,
    CaptureBegin,
    Enter,
    Fact,
    Index,
    Iterate,
    Keep,
    Op,
    Operator,
    Pick,
    Replay,
    Truth,
    Write,
)
from graphlint.interp.objects import ClassValue, FunctionValue
from graphlint.lower import tree
from graphlint.region import Region
from graphlint.value import Const, Host, Instance, Place, Sequence, Value, options

#: Words by which a method may look at every field.
_ALL = re.compile(r"__dict__|\b(asdict|astuple|fields|vars|getattr|attrgetter)\b")


def omitted_field(region: Region, begin: CaptureBegin, store: Keep) -> tuple[str, Fact] | None:
    """A field of a record that the capture froze, that the key leaves out, and that another record of this key has
    otherwise."""
    for record, counted in (*_as_key(store.key), *_made_of(region, begin, store)):
        others = list(_alike(region, begin, record))
        for name, value in record.attrs.items():
            if name in counted or not scalar(value):
                continue
            if not any(_clash(record, o, name, counted) for o in others) or _follows(record, name, counted):
                continue
            fact = _frozen(region, Place(record.id, name, "attribute"))
            if fact is not None:
                return name, fact
    return None


def _as_key(key: Value | None) -> Iterator[tuple[Instance, set[str]]]:
    """Records that are the key, or a part of it, with the fields that make two of them equal."""
    for part in [key, *(key.items if isinstance(key, Sequence) else ())]:
        if isinstance(part, Instance) and isinstance(part.cls, ClassValue):
            counted = compared(part.cls, set(part.attrs))
            if counted is not None:
                yield part, counted


def compared(cls: ClassValue, names: set[str]) -> set[str] | None:
    """The fields that tell two objects of `cls` apart; None if they are not known, or the objects are never equal."""
    for ancestor in cls.mro:
        own = ancestor.attrs.get("__eq__")
        if isinstance(own, FunctionValue):
            return _mentioned(cls, own, names)
        if ancestor.generates_init:
            if any(_flag(d, "eq") is False for d in ancestor.node.decorators):
                return None
            return names - _not_compared(cls)
    return None


def _mentioned(cls: ClassValue, method: FunctionValue, names: set[str]) -> set[str] | None:
    """The fields that a method looks at, by itself and by methods and properties of its class that it names."""
    found: set[str] = set()
    queue, seen = [method], {method.name}
    while queue:
        one = queue.pop()
        assert isinstance(one.node, tree.Function)
        first, last = one.node.lines
        text = "\n".join(one.scope.module.source.lines[first - 1 : last])
        if _ALL.search(text):
            return None
        for word in set(re.findall(r"\.(\w+)", text)):
            inner = next((a.attrs[word] for a in cls.mro if word in a.attrs), None)
            if word in names:
                found.add(word)
            elif isinstance(inner, FunctionValue) and inner.name not in seen:
                seen.add(inner.name)
                queue.append(inner)
    return found or None


def _not_compared(cls: ClassValue) -> set[str]:
    """Fields of a dataclass that are declared with `field(compare=False)`, or with `eq=False` as attrs has it."""
    return {
        s.target.id
        for ancestor in cls.mro
        for s in ancestor.node.body
        if isinstance(s, tree.AnnAssign) and isinstance(s.target, tree.Name) and s.value is not None
        if any(_flag(s.value, name) is False for name in ("compare", "eq"))
    }


def _flag(node: tree.Expr, name: str) -> bool | None:
    """The value of a keyword of a call where it is written out."""
    for arg in node.args if isinstance(node, tree.Call) else ():
        if arg.keyword == name and isinstance(arg.value, tree.Constant):
            return bool(arg.value.value)
    return None


def _made_of(region: Region, begin: CaptureBegin, store: Keep) -> Iterator[tuple[Instance, set[str]]]:
    """Records that the capturing calls were given and whose fields the key is made of."""
    key = all_origins(store.key)
    for enter in enclosing(region, begin):
        for value in enter.given.values():
            if value is enter.receiver or not isinstance(value, Instance) or not isinstance(value.cls, ClassValue):
                continue
            counted = {place.name for place in key if place.owner == value.id}
            if counted:
                yield value, counted


def _alike(region: Region, begin: CaptureBegin, record: Instance) -> Iterator[Instance]:
    """Other records of the same class that come the same way: to the capture, to its table, or to a replay."""
    calls = enclosing(region, begin)
    names = {e.name for e in calls} | {f.name for e in calls for f in finders(region, e)}
    replaying = {f.function for f in region.after if isinstance(f, Replay) and region in f.replayed}
    for fact in region.life:
        given: list[Value] = []
        if isinstance(fact, Enter) and (fact.name in names or (fact.name in replaying and _replays(region, fact))):
            given = list(fact.given.values())
        elif isinstance(fact, Keep) and fact.key is not None and queries.held_graphs(fact.value):
            given = [fact.key, *(fact.key.items if isinstance(fact.key, Sequence) else ())]
        for value in (o for v in given for o in options(v)):
            if isinstance(value, Instance) and value.cls is record.cls and value is not record:
                yield value


def _replays(region: Region, enter: Enter) -> bool:
    return any(isinstance(f, Replay) and region in f.replayed for f in queries.rest_of_call(region, enter))


def _clash(one: Instance, other: Instance, name: str, counted: set[str]) -> bool:
    """True if two records have one key and differ in a field; where the keys may only be equal, in a flag or a name."""
    if set(one.attrs) != set(other.attrs) or not scalar(other.attrs[name]):
        return False
    if identity(one.attrs[name]) == identity(other.attrs[name]):
        return False
    pairs = [(one.attrs[n], other.attrs[n]) for n in counted if n in one.attrs]
    if all(identity(a) == identity(b) for a, b in pairs):
        return True
    modes = all(_mode(r.attrs[name]) for r in (one, other))
    return modes and all(identity(a) == identity(b) or isinstance(a, Host) or isinstance(b, Host) for a, b in pairs)


def _mode(value: Value) -> bool:
    return isinstance(value, Const) and (value.value is None or isinstance(value.value, (bool, str)))


def _follows(record: Instance, name: str, counted: set[str]) -> bool:
    """True if the field was computed from what the counted fields were computed from."""
    mine = all_origins(record.attrs[name])
    theirs = all_origins(Sequence(items=[record.attrs[n] for n in counted if n in record.attrs]))
    return bool(mine) and mine <= theirs


def _frozen(region: Region, place: Place) -> Fact | None:
    """The first captured work that depends on what stands at `place`."""
    for fact in region.captured:
        values: list[Value] = []
        if isinstance(fact, (Branch, Truth, Iterate)):
            values = [fact.value]
        elif isinstance(fact, Index):
            values = [fact.index]
        elif isinstance(fact, Pick):
            values = [fact.key]
        elif isinstance(fact, Write):
            values = [v for v in (fact.source, fact.index) if v is not None]
        elif isinstance(fact, Operator):
            values = list(fact.operands)
        elif isinstance(fact, Op) and fact.name.startswith(("torch.", "Tensor.", "kernel.")):
            values = [*fact.args, *fact.kwargs.values()]
        if any(place in all_origins(v) for v in values if not isinstance(v, Const) or v.inputs or v.place):
            return fact
    return None
