"""What is kept is a copy of the static output."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import edits, queries
from graphlint.fact import Bind, Fact, Keep, Op, Return
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Instance, Sequence, Tensor, Unknown, Value, options

_TITLE = "keep a copy: the next replay overwrites the output"
#: What gives another look at the same memory.
_VIEWS = (
    "detach",
    "view",
    "reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "transpose",
    "t",
    "permute",
    "expand",
    "narrow",
)


def fix(problem: Problem, region: Region) -> Fix | None:
    if edits.unpacked(problem.at):
        return None  # it is a tuple that is handed out
    calls = list(dict.fromkeys(_handed_out(problem, region)))
    kept = edits.kept_value(problem.at) if "results of one graph" not in problem.message else None
    yielded = _yielded(problem, region)
    if kept is not None and _is_tensor(problem, region) and (kept in calls or _is_view(kept)):
        wanted = [kept]
    elif calls:
        wanted = calls
    elif handed := _handed_over(problem, region, kept):
        wanted = handed
    elif elements := _elements(problem, region):
        wanted = elements
    elif yielded is not None:
        wanted = [yielded]
    elif kept is not None and _is_tensor(problem, region) and problem.at.line == kept.line:
        wanted = [kept]
    else:
        return None
    if any(edits.text(at).endswith(".clone()") for at in wanted):
        return None
    return edits.fix(_TITLE, *(edits.method(at, "clone()") for at in wanted), safe=all(map(edits.is_plain, wanted)))


def _on_the_lines(problem: Problem, at: Location) -> bool:
    whole = edits.statement(problem.at)
    return whole is not None and at.path == problem.at.path and whole.span.line <= at.line <= whole.span.end_line


def _handed_out(problem: Problem, region: Region) -> Iterator[Location]:
    """Calls in the statement that return the static output itself."""
    import libcst

    for fact in region.life:
        at: Location | None = None
        value: Value | None = None
        if isinstance(fact, Return) and fact.chain:
            at, value = fact.chain[-1].at, fact.value
        elif isinstance(fact, Op) and fact.name.endswith("callable.call"):
            at, value = fact.at, fact.result
        if at is None or fact.region is not None or not _on_the_lines(problem, at):
            continue
        if value is None or not _all_tensors([value]) or not queries.static_outputs(region, value, 0):
            continue
        node = edits.expression(at)
        if isinstance(node, libcst.Call) and edits.code(node.func) not in ("map", "filter", "list", "tuple", "zip"):
            yield at


def _elements(problem: Problem, region: Region) -> list[Location]:
    """The outputs among the elements of a tuple or list that is kept."""
    places = edits.kept_elements(problem.at)
    values = [f.value for f in region.life if isinstance(f, Keep) and f.at == problem.at]
    if not places or not values or not all(isinstance(v, Sequence) and len(v.items) == len(places) for v in values):
        return []
    found = []
    for number, place in enumerate(places):
        items = [v.items[number] for v in values if isinstance(v, Sequence)]
        if any(queries.static_outputs(region, item) for item in items):
            if not _all_tensors(items) or not _is_view(place):
                return []
            found.append(place)
    return found


def _handed_over(problem: Problem, region: Region, kept: Location | None) -> list[Location]:
    """The argument of a constructor that is the output, told by the name that it was read from."""
    import libcst

    node = edits.expression(kept) if kept is not None else None
    if kept is None or not isinstance(node, libcst.Call):
        return []
    here = [f.value for f in region.life if isinstance(f, (Bind, Keep)) and f.at.line == problem.at.line]
    made = [o for v in here if v is not None for o in options(v) if isinstance(o, Instance)]
    read = {
        t.place.name for o in made for v in o.attrs.values() for t in queries.static_outputs(region, v, 0) if t.place
    }
    texts = {edits.code(a.value) for a in node.args if edits.code(a.value).rpartition(".")[2] in read}
    if len(texts) != 1:
        return []
    return [p for p, n in edits.inner(kept) if edits.code(n) in texts and not isinstance(n, libcst.Arg)][:1]


def _yielded(problem: Problem, region: Region) -> Location | None:
    """What the generator that is called in the statement yields."""
    yields = [f for f in region.after if isinstance(f, Keep) and f.how == "yield"]
    for fact in yields:
        called = any(_on_the_lines(problem, frame.at) for frame in fact.chain)
        if called and queries.static_outputs(region, fact.value, 0):
            return edits.kept_value(fact.at)
    return None


def _is_view(at: Location) -> bool:
    """A name, an attribute, an element, or a view of one."""
    import libcst

    node = edits.expression(at)
    while isinstance(node, libcst.Call) and isinstance(node.func, libcst.Attribute) and node.func.attr.value in _VIEWS:
        node = node.func.value
    return isinstance(node, (libcst.Name, libcst.Attribute, libcst.Subscript))


def _is_tensor(problem: Problem, region: Region) -> bool:
    """Whether what is kept here is a tensor as far as is known, and no list or object with the output in it."""
    here = [f for f in region.life if f.at.path == problem.at.path and f.at.line == problem.at.line]
    values = [_value(f) for f in here if isinstance(f, Keep)] or [
        _value(f) for f in here if isinstance(f, (Bind, Return))
    ]
    return _all_tensors([v for v in values if v is not None])


def _value(fact: Fact) -> Value | None:
    value = getattr(fact, "value", None)
    return value if isinstance(value, Value) else None


def _all_tensors(values: list[Value]) -> bool:
    return all(isinstance(o, (Tensor, Unknown)) for v in values for o in options(v))
