"""Collections before the capture, a reset before the next one, a replay after the first."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Enter
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location


def fix(problem: Problem, region: Region) -> Fix | None:
    text = edits.text(problem.at).strip()
    if text.endswith("gc.collect()") or text == "collect()":
        if problem.function == region.function:
            made = edits.move(problem.at, region.at)
            return edits.fix("collect before the capture, not in it", *made, safe=True)
        torch = edits.torch_name(problem.at.path)
        asked = edits.wrap(problem.at, [f"if not {torch}.cuda.is_current_stream_capturing():"]) if torch else None
        return edits.fix("collect in eager runs only", asked, safe=False)
    if problem.message.startswith("swallows a failed capture"):
        return _raised(problem)
    if problem.message.endswith("inside a capture, which breaks the capture"):
        same = problem.function == region.function
        return edits.fix("drop it before the capture", *edits.move(problem.at, region.at), safe=False) if same else None
    if problem.message.startswith("`make_graphed_callables` refuses modules with hooks"):
        return _hooked_after(problem, region)
    if problem.message.startswith("a graphed callable takes positional tensors only"):
        return _positional(problem, region)
    graph = edits.graph_text(region.at)
    if graph is None:
        return None
    if problem.message.startswith("captures into a graph object that holds a graph"):
        # One that was made here may have been kept, for replays of the old graph.
        made_here = edits.makes_graph(region.at)
        if made_here is None:
            return None
        line = made_here if graph.isidentifier() else f"{graph}.reset()"
        return edits.fix("begin with an empty graph", edits.before(region.at, line), safe=False)
    if problem.message.startswith("`capture_begin()` without `capture_end()`"):
        left = next((n.at for n in problem.notes if n.message == "left here"), None)
        ended = edits.before(left, f"{graph}.capture_end()") if left is not None else None
        return edits.fix("end the capture on this path, too", ended, safe=False)
    if problem.message.startswith("`capture_begin()` on the default stream"):
        return _on_a_side_stream(region, graph)
    if problem.message.startswith("`capture_end()` outside the stream block"):
        return _ended_inside(problem, region)
    if problem.message.startswith(("the call that captures does not replay", "the graph's output is used before")):
        return edits.fix(
            "replay once after the capture, which runs nothing by itself",
            edits.after_block(region.at, f"{graph}.replay()"),
            safe=False,
        )
    return None


def _raised(problem: Problem) -> Fix | None:
    """A handler that does nothing, or only tells, raises again."""
    title = "let the error out: the graph holds nothing"
    first = edits.first_inside(problem.at)
    if first is None:
        return None
    inside = [first, *edits.rest_of_body(first)]
    if [edits.text(at) for at in inside] == ["pass"]:
        return edits.fix(title, edits.rewrite(first, "raise"), safe=False)
    if edits.text(inside[-1]).startswith(("return", "raise", "continue", "break")):
        return None
    return edits.fix(title, edits.after(inside[-1], "raise"), safe=False)


def _on_a_side_stream(region: Region, graph: str) -> Fix | None:
    """From `capture_begin()` to `capture_end()`, where nothing but simple statements stands between."""
    torch = edits.torch_name(region.at.path)
    rest = edits.rest_of_body(region.at)
    end = next((at for at in rest if edits.text(at) == f"{graph}.capture_end()"), None)
    if torch is None or end is None:
        return None
    made = edits.wrap_lines(region.at, end, f"with {torch}.cuda.stream({torch}.cuda.Stream()):")
    return edits.fix("capture on a side stream", made, safe=False)


def _ended_inside(problem: Problem, region: Region) -> Fix | None:
    """`capture_end()` moves to the end of the stream block that it stands behind."""
    block = next((h for h in edits.headers(region.at) if edits.text(h).startswith("with ")), None)
    moved = edits.lines(problem.at)
    behind = edits.behind_block(block) if block is not None else None
    if block is None or len(moved) != 1 or behind is None or behind.span.line != problem.at.span.line:
        return None
    made = (edits.delete(problem.at), edits.append_to_block(block, moved[0]))
    return edits.fix("end it on the stream where it began", *made, safe=False)


def _hooked_after(problem: Problem, region: Region) -> Fix | None:
    hook = next((n.at for n in problem.notes if n.message == "hook registered here"), None)
    whole = edits.statement(region.at)
    moved = edits.lines(hook) if hook is not None else []
    if hook is None or whole is None or hook.path != region.at.path or edits.headers(hook) != edits.headers(region.at):
        return None
    owner = moved[0].partition(".register")[0] if moved else ""
    if edits.text(Location(region.at.path, whole.span)).partition("=")[0].strip() != owner:
        return None
    made = (edits.delete(hook), edits.after(region.at, *moved))
    return edits.fix("register the hook on what is graphed", *made, safe=False)


def _positional(problem: Problem, region: Region) -> Fix | None:
    """Keywords that stand in the order of the callable's parameters lose their names."""
    import libcst

    call = edits.expression(problem.at)
    depth = min((len(f.chain) for f in region.captured if isinstance(f, Enter)), default=0)
    entered = next((f for f in region.captured if isinstance(f, Enter) and len(f.chain) == depth), None)
    if not isinstance(call, libcst.Call) or entered is None:
        return None
    names = [name for name in entered.given if name != "self"]
    given = [a.keyword.value if a.keyword is not None else None for a in call.args]
    if any(a.star for a in call.args) or any(n is not None and n != m for n, m in zip(given, names, strict=False)):
        return None
    new = f"{edits.code(call.func)}({', '.join(edits.code(a.value) for a in call.args)})"
    return edits.fix("give it by position", edits.replace(problem.at, new), safe=True)
