"""What watchers noted, as observations: silent faults, each with what was seen between replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graphlint.runtime import events, frames
from graphlint.runtime.frames import Site
from graphlint.runtime.judge.observation import Observation
from graphlint.runtime.syntax import statement_at

Found = Iterator[tuple[str, Site | None, str]]
_JUDGES: dict[str, Callable[[dict[str, Any], Site | None], Found]] = {}


def on(
    *names: str,
) -> Callable[[Callable[[dict[str, Any], Site | None], Found]], Callable[[dict[str, Any], Site | None], Found]]:
    """Registers a judge for notes of these names. It gets the note's data and the line of the note's graph."""

    def add(function: Callable[[dict[str, Any], Site | None], Found]) -> Callable[[dict[str, Any], Site | None], Found]:
        for name in names:
            if name in _JUDGES:
                raise ValueError(f"two judges for {name}")
            _JUDGES[name] = function
        return function

    return add


def judge(run: list[events.Event]) -> Iterator[Observation]:
    captures = {e.graph: frames.in_user_code(e.at) for e in run if isinstance(e, events.CaptureBegin)}
    omitted = {
        (e.graph, e.data["text"])
        for e in run
        if isinstance(e, events.Note) and e.name == "key-omits" and not e.data.get("weak")
    }
    restarted = {e.graph for e in run if isinstance(e, events.Note) and e.name == "gradient-restarted"}
    for event in run:
        if isinstance(event, events.Note) and event.name == "padding-matters":
            site = captures.get(event.graph or 0)
            if site is not None:
                evidence = "what stands in the padding changes the result of the replay"
                yield Observation("prefill-capture", site, evidence, event.at, event.graph, weak=True)
        if isinstance(event, events.Note) and event.name == "replayed-for-others":
            lines = event.data["lines"]
            assert isinstance(lines, tuple)
            evidence = f"the graph was captured for `{event.data['text']}` = {event.data['old']!r}, and replayed for "
            for line in lines:
                yield Observation(
                    "graph-key", line, f"{evidence}{event.data['new']!r}", event.at, event.graph, weak=True
                )
        if not isinstance(event, events.Note) or event.name not in _JUDGES:
            continue
        if event.name == "number-changed" and (event.graph, event.data["text"]) in omitted:
            continue  # the graph was captured for that number, and its key sends others to it
        if event.name == "gradient-accumulates" and event.graph in restarted:
            continue
        data = {**event.data, "at": event.at}
        for rule, at, evidence in _JUDGES[event.name](data, captures.get(event.graph or 0)):
            if at is not None:
                weak = bool(event.data.get("weak"))
                memory = event.name == "empty-cache"
                weak = weak or event.name == "state-warmed"
                yield Observation(rule, at, evidence, event.at, event.graph, weak=weak, memory=memory)
                way: Any = data.get("way", ())
                for line in way:  # a finding may stand at any call that led there
                    yield Observation(rule, line, evidence, event.at, event.graph, weak=True)


@on("replayed-with-other-place")
def place(data: dict[str, Any], capture: Site | None) -> Found:
    text, site, kind = data["text"], data["site"], data["kind"]
    if data["gradient"]:
        if kind != "host":
            yield (
                "grad-lifetime",
                site,
                "`.grad` was cleared or replaced here, and the graph was replayed into the old buffer",
            )
        return
    if data["same"]:
        return
    if kind == "tensor":
        if data["item"] and data["other"] is not None:
            yield (
                "graph-key",
                site,
                f"`{text}` was replaced here by what another graph reads; replays of this graph use the old one",
            )
        if data["alive"] or not data["scratch"]:
            yield (
                "stale-input",
                site,
                f"`{text}` holds another tensor since this line; the replay read the one of the capture",
            )
        if not data["alive"]:
            yield "dangling-input", site, f"the tensor that `{text}` held was freed here, and the graph was replayed"
    elif not data["alive"]:
        yield "dangling-input", site, f"`{text}` let go of the graph's input here, and the graph was replayed"


@on("replayed-with-dead-input")
def dead(data: dict[str, Any], capture: Site | None) -> Found:
    how = "went away with the function's locals" if data["left"] else "was freed here"
    yield "dangling-input", data["site"], f"an input of the graph {how}, and the graph was replayed"


@on("number-changed")
def number(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "stale-scalar",
        data["site"],
        f"`{data['text']}` was {data['old']!r} at capture and is {data['new']!r} at replay",
    )


@on("optimizer-number-changed")
def optimizer_number(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "stale-scalar",
        data["site"],
        f"`{data['text']}` was {data['old']!r} at capture and is {data['new']!r} at replay",
    )


@on("optimizer-state-replaced")
def reloaded(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "stale-input",
        data["site"],
        "the optimizer put other tensors in place of its state here; the replay read those of the capture",
    )


@on("mode-flipped")
def mode(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "stale-scalar",
        data["site"],
        "train or eval was switched here after the capture; the replay ran the captured mode",
    )


@on("replayed-under-autocast")
def autocast(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "stale-scalar",
        data["site"],
        "the graph was captured without autocast and replayed inside it, which changes nothing",
    )


@on("random-baked")
def random(data: dict[str, Any], capture: Site | None) -> Found:
    yield "rng-misuse", data["site"], f"`{data['text']}(...)` drew once, at capture; every replay uses that number"


@on("seeded-alike")
def seeded(data: dict[str, Any], capture: Site | None) -> Found:
    yield "rng-misuse", frames.in_user_code(data["at"]), "seeding inside the capture had no effect"


@on("kept-output-read")
def kept(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "output-reuse",
        data["site"],
        f"`{data['text']}` kept the graph's output; a later replay wrote over it before it was read",
    )


@on("clobbered-output-read")
def clobbered(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "memory-pool",
        capture,
        "this graph's output was read after a replay of another graph of the pool wrote over it",
    )


@on("output-read-before-replay", "first-call-not-replayed")
def unreplayed(data: dict[str, Any], capture: Site | None) -> Found:
    yield "capture-misuse", capture, "the captured work was used before any replay; a capture runs nothing"


@on("captured-store-read")
def store(data: dict[str, Any], capture: Site | None) -> Found:
    read = data["read"]
    where = f", and line {read.line} reads it" if read is not None else ""
    if data["kind"] == "rebound":
        yield (
            "side-effect",
            data["site"],
            f"`{data['text']}` was rebound in the capture, once; replays read the old tensor",
        )
    else:
        yield (
            "side-effect",
            data["site"],
            f"`{data['text']}` was changed in the capture, once{where}; replays do not change it",
        )


@on("library-state-replaced")
def replaced(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "side-effect",
        data["site"],
        f"`{data['function']}` put another tensor in place of one that the graph reads, in the capture, once; "
        "replays read the old one, whose memory is free",
    )


@on("state-born-in-capture")
def born(data: dict[str, Any], capture: Site | None) -> Found:
    yield "lazy-state", data["site"], f"`{data['text']}` was made inside the capture; every replay makes it anew"


@on("memo-filled-before-capture")
def memo(data: dict[str, Any], capture: Site | None) -> Found:
    yield "lazy-state", data["site"], f"`{data['text']}` was made before the capture; replays do not compute it again"


@on("optimizer-state-born")
def optimizer_state(data: dict[str, Any], capture: Site | None) -> Found:
    yield "missing-warmup", capture, "the optimizer made its state inside the capture; every replay makes it anew"


@on("graphed-refused")
def graphed(data: dict[str, Any], capture: Site | None) -> Found:
    text = data["text"].splitlines()[0]
    if "autocast" in text:
        yield "autocast-cache", data["autocast"], text
    elif "hooks" in text or "sample_args" in text or "requires_grad" in text:
        yield "capture-misuse", frames.in_user_code(data["at"]), text


@on("graphed-keywords")
def keywords(data: dict[str, Any], capture: Site | None) -> Found:
    names = ", ".join(f"`{name}`" for name in data["names"])
    yield (
        "capture-misuse",
        frames.in_user_code(data["at"]),
        f"a graphed callable takes no keywords, and was given {names}",
    )


@on("pinned-read-in-flight")
def early(data: dict[str, Any], capture: Site | None) -> Found:
    yield "pinned-race", data["site"], "the host read the pinned buffer before the replay that writes it was over"


@on("state-warmed")
def warmed(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "warmup-side-effect",
        data["site"],
        "a warm-up call changed here what the graph reads, and nothing restored it",
    )


@on("optimizer-counts-on-host")
def counts(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "optimizer-in-capture",
        data["site"],
        "the step count stays on the host, so its decay stood still over the replays",
    )


@on("broadcast-into-input")
def broadcast(data: dict[str, Any], capture: Site | None) -> Found:
    yield "shape-mismatch-copy", data["site"], "a smaller tensor was broadcast over the whole static input"


@on("fraction-cut")
def cut(data: dict[str, Any], capture: Site | None) -> Found:
    yield "shape-mismatch-copy", data["site"], f"the copy into {data['dtype']} cut fractions off"


@on("stale-tail")
def tail(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "shape-mismatch-copy",
        data["site"],
        f"only {data['rows']} rows were refreshed; what earlier steps left behind them changed the result",
    )


@on("write-misses-read")
def misses(data: dict[str, Any], capture: Site | None) -> Found:
    yield "shape-mismatch-copy", data["site"], "the part that was written is not the part that the graph reads"


@on("replay-not-ordered")
def unordered(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "stream-escape",
        frames.in_user_code(data["at"]),
        "a static input was written on another stream, and the replay did not wait for it",
    )


@on("pinned-written-in-flight")
def pinned(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "pinned-race",
        data["site"],
        "the host wrote the pinned buffer while a replay that copies from it was under way",
    )


@on("cast-before-capture")
def cast(data: dict[str, Any], capture: Site | None) -> Found:
    what = "was freed" if data["gone"] else "is out of date"
    yield (
        "autocast-cache",
        data["site"],
        f"the graph reads a weight that autocast cast before the capture; the cast {what}",
    )


@on("statistics-moved")
def statistics(data: dict[str, Any], capture: Site | None) -> Found:
    yield "warmup-side-effect", data["site"], "warm-up calls changed the module's buffers, and nothing restored them"


@on("empty-cache")
def empty_cache(data: dict[str, Any], capture: Site | None) -> Found:
    yield "memory-pool", frames.in_user_code(data["at"]), "`empty_cache()` inside the capture gave nothing back"


@on("compile-skipped")
def skipped(data: dict[str, Any], capture: Site | None) -> Found:
    yield "compile-cudagraphs", frames.in_user_code(data["at"]), f"cudagraphs were skipped: {data['why']}"


@on("poisoned-access", "compile-stale-read")
def overwritten(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "compile-cudagraphs",
        frames.in_user_code(data["site"]),
        "the output of this call was read after a later call took its memory",
    )


@on("gradient-overwritten")
def gradient(data: dict[str, Any], capture: Site | None) -> Found:
    yield "grad-lifetime", data["site"], "`.grad` became the graph's own buffer, and the next replay wrote over it"


@on("gradient-accumulates")
def accumulates(data: dict[str, Any], capture: Site | None) -> Found:
    yield "grad-lifetime", data["site"], "`.grad` existed at capture, so every replay adds to it"


@on("branch-on-read")
def branch(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "tensor-control-flow",
        data["site"],
        "a value that was read from the device decided a branch inside the capture",
    )


@on("captured-differently")
def differently(data: dict[str, Any], capture: Site | None) -> Found:
    what = "did nothing" if data.get("weak") else "for the same inputs, returned something else"
    yield "capture-branch", data["site"], f"the function {what} while capturing"


@on("key-omits")
def omits(data: dict[str, Any], capture: Site | None) -> Found:
    values = f"captured with {data['old']!r}, replayed for {data['new']!r}"
    yield "graph-key", data["site"], f"the key leaves `{data['text']}` out: {values}"


@on("argument-ignored")
def ignored(data: dict[str, Any], capture: Site | None) -> Found:
    yield "stale-input", data["site"], f"the replay read the `{data['text']}` of the capture, not the one of this call"


@on("recreated-input")
def recreated(data: dict[str, Any], capture: Site | None) -> Found:
    yield (
        "stale-input",
        data["site"],
        "this line made the graph's input, and made another tensor since; the replay read the old one",
    )


__all__ = ["judge", "statement_at"]
