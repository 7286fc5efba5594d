"""Side streams are forked from the capture and joined to it again; replays wait for what fills their inputs."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Write
from graphlint.finding import Edit, Fix, Problem
from graphlint.region import Region
from graphlint.source import Location


def fix(problem: Problem, region: Region) -> Fix | None:
    if problem.message.startswith("replays without waiting"):
        return _awaited(problem, region)
    if problem.message.startswith("this forward runs before the capture"):
        return _inside(problem, region)
    stream, torch = edits.stream_text(problem.at), edits.torch_name(problem.at.path)
    if stream is None or torch is None:
        return None
    if any("default_stream(" in value for value in edits.assigned(problem.at.path, stream)):
        # The default stream cannot take part in a capture, joined or not.
        return None
    waits = f"{stream}.wait_stream({torch}.cuda.current_stream())"
    if problem.message.startswith("this warm-up does not wait"):
        return edits.fix("let the warm-up wait for its inputs", edits.before(problem.at, waits), safe=True)
    join = f"{torch}.cuda.current_stream().wait_stream({stream})"
    made: list[Edit | None] = []
    forked = edits.previous(problem.at)
    if forked is None or not edits.text(forked).startswith((f"{stream}.wait_stream(", f"{stream}.wait_event(")):
        made.append(edits.before(problem.at, waits))
    if not edits.stands_after_block(problem.at, join):
        made.append(edits.after_block(problem.at, join))
    return edits.fix("fork the side stream from the capture and join it", *made, safe=False)


def _awaited(problem: Problem, region: Region) -> Fix | None:
    """The stream of the write is waited for before the replay where that function can name it, else after the write."""
    place = next((n.at for n in problem.notes if n.message.startswith("written here")), None)
    write = next((f for f in region.after if isinstance(f, Write) and f.at == place), None)
    if place is None or write is None:
        return None
    block = next((h for h in edits.headers(place) if edits.stream_text(h) is not None), None)
    stream = edits.stream_text(block) if block is not None else None
    torch = edits.torch_name(problem.at.path)
    if block is None or stream is None or torch is None:
        return None
    title = "wait for the stream that fills the input"
    line = f"{torch}.cuda.current_stream().wait_stream({stream})"
    if write.function == problem.function or (stream.startswith("self.") and _class(write.function, problem.function)):
        return edits.fix(title, edits.before(problem.at, line), safe=True)
    if edits.torch_name(block.path) != torch:
        return None
    return edits.fix(title, edits.after_block(block, line), safe=False)


def _class(one: str, other: str) -> bool:
    """Whether two methods belong to one class."""
    return one.rpartition(".")[0] == other.rpartition(".")[0] != ""


def _inside(problem: Problem, region: Region) -> Fix | None:
    """The statement becomes the first of the capture, if it stands right before it."""
    first = edits.first_inside(region.at)
    around, outer = edits.headers(region.at), edits.headers(problem.at)
    tried = around[: len(around) - len(outer)]
    same = [*tried, *outer] == around and all(edits.text(header) == "try:" for header in tried)
    if first is None or problem.function != region.function or not same:
        return None
    between: Location | None = region.at
    while between is not None and (between := edits.previous(between)) is not None:
        code = edits.text(between)
        if between.span.line == problem.at.span.line:
            return edits.fix("compute it inside the capture", *edits.move(problem.at, first), safe=False)
        if not code.endswith(("CUDAGraph()", "synchronize()", "zero_grad(set_to_none=True)", "try:")):
            return None
    return None
