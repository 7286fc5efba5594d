"""One trace from the outside: runs the program in a process of its own, checks its files, and joins both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphlint.config import Config, load
from graphlint.engine import Report, check
from graphlint.finding import Finding
from graphlint.registry import Registry, load_rules
from graphlint.runtime.imported import imported
from graphlint.runtime.process import Child, finished, run
from graphlint.runtime.spec import Result, Spec
from graphlint.runtime.verdict import Seen, join

Say = Callable[[str], None]


@dataclass(slots=True)
class Traced:
    """All that a report shows. `outcome` is "ok", "capture-error", "wrong-result", "stale-result", "crash", "hang" or
    "memory"; `first` is what the program's own process saw, `static` what the linter says."""

    spec: Spec
    first: Result
    findings: list[Finding] = field(default_factory=list)
    static: Report = field(default_factory=Report)
    registry: Registry = field(default_factory=lambda: Registry(()))
    outcome: str = "ok"
    detail: str = ""
    files: tuple[str, ...] = ()

    @property
    def confirmed(self) -> list[Finding]:
        return [f for f in self.findings if f.verdict == "confirmed"]


#: Rules whose confirmed findings mean that a replay used old data rather than computed something wrong.
_STALE = frozenset(
    {"stale-input", "stale-scalar", "stream-escape", "autocast-cache", "grad-lifetime", "graph-key", "rng-misuse"}
)


def trace(spec: Spec, limit: float = 600.0, say: Say = lambda text: None, config: Config | None = None) -> Traced:
    """Runs `spec`, once as it is and, where a capture was refused, once more to the end, and joins the linter's
    findings.

    Raises:
        ConfigError, RuleError: from reading the project's configuration.
    """
    return collect(spec, limit, say, config, lint=True)


def collect(
    spec: Spec, limit: float = 600.0, say: Say = lambda text: None, config: Config | None = None, lint: bool = False
) -> Traced:
    """As `trace`; without `lint` only what the run shows."""
    say("running")
    _preload(spec)
    if spec.backend == "cuda" and spec.target.call is not None:
        from graphlint.runtime.worker import work

        static, registry = Report(), load_rules()
        first = work(spec)  # a callable and its tensors live in this process
    else:
        child = Child(spec)
        static, registry = _lint(spec, config) if lint else (Report(), load_rules())
        first = finished(child, spec, limit)
    results = [first]
    if spec.backend == "cuda" and spec.target.call is None:
        say("running emulated, for what a GPU does not tell")
        results.append(run(replace(spec, backend="emulate", quiet=True), limit))
    again = (spec.backend == "emulate" or spec.target.call is None) and results[-1].values
    if again and results[-1].refused and results[-1].outcome not in ("crash", "hang"):
        say("running once more, past what the capture refused")
        results.append(run(replace(spec, backend="emulate", survey=True, quiet=True), limit))
    seen = list(dict.fromkeys(_seen(spec, results)))
    executed: dict[str, set[int]] = {}
    for result in results:
        for path, lines in result.executed.items():
            executed.setdefault(path, set()).update(lines)
    replayed = any(region["replays"] for result in results for region in result.regions)
    rules = {**registry.by_name}
    blind = None
    if spec.backend == "cuda" and not any(region["replays"] for result in results[1:] for region in result.regions):
        blind = "faults that raise no error are seen emulated, and that run got to no replay"
        blind += f": {results[1].detail or results[1].outcome}" if len(results) > 1 else ""
    findings = without_suppressed(
        join(static.findings, static.suppressed, seen, executed, rules, replayed, blind), registry, static.findings
    )
    traced = Traced(spec, first, findings, static, registry)
    traced.files = tuple(sorted(executed))
    traced.outcome, traced.detail = _outcome(traced)
    return traced


def _preload(spec: Spec) -> None:
    """Optimizers import dynamo when they step, which takes seconds: once before the forks instead of in each run."""
    path = _path(spec)
    if spec.backend == "emulate" and path is not None and path.is_file():
        text = path.read_bytes()
        if b"optim" in text or b"_dynamo" in text:
            import torch._dynamo  # noqa: F401


def _seen(spec: Spec, results: Sequence[Result]) -> Iterator[Seen]:
    """What the runs showed. Where a GPU ran, it has the last word on what a capture refuses: an emulated refusal counts
    only if a capture of the GPU's failed, or was left open, too."""
    failed = results[0].refused or not all(region["captured"] for region in results[0].regions)
    for result in results:
        for data in result.observations:
            one = Seen.of(data)
            if spec.backend == "cuda" and result is not results[0]:
                if data["refusal"] and not failed:
                    continue
                one = replace(one, evidence=f"emulated: {one.evidence}")
            yield one


def without_suppressed(findings: list[Finding], registry: Registry, static: Sequence[Finding]) -> list[Finding]:
    """Leaves out what only the run showed and a comment in the file silences."""
    from graphlint.source import Source, SourceError
    from graphlint.suppress import apply, directives

    known = {(f.rule, f.at) for f in static}
    files = {}
    for path in {f.at.path for f in findings if (f.rule, f.at) not in known}:
        try:
            files[path] = directives(Source.read(Path(path)))
        except SourceError:
            continue
    kept = apply([f for f in findings if (f.rule, f.at) not in known], files, registry.known).kept
    return [f for f in findings if (f.rule, f.at) in known or f in kept]


def _lint(spec: Spec, config: Config | None) -> tuple[Report, Registry]:
    start = Path(os.path.abspath(spec.target.spec)).parent if spec.target.is_script else Path.cwd()
    config = config if config is not None else load(start).config
    config = replace(config, torch_version=config.torch_version or spec.version)
    registry = load_rules([config.resolve(p) for p in config.rule_folder])
    path = _path(spec)
    if path is None:
        return Report(), registry
    return check(imported(path, start), config, registry=registry), registry


def _path(spec: Spec) -> Path | None:
    if spec.target.is_script:
        return Path(os.path.abspath(spec.target.spec))
    name = spec.target.spec.partition(":")[0].replace(".", "/")
    for path in (Path(f"{name}.py"), Path(name) / "__init__.py"):
        if path.is_file():
            return Path(os.path.abspath(path))
    return None


def _outcome(traced: Traced) -> tuple[str, str]:
    first = traced.first
    if first.outcome in ("crash", "hang", "memory"):
        return first.outcome, first.detail
    for region in first.regions:
        if region["error"] is not None:
            return "capture-error", region["error"]["text"]
    confirmed = traced.confirmed
    refused = next((o for o in first.observations if o["refusal"]), None)
    if refused is not None and confirmed:
        return "capture-error", refused["evidence"]
    costly = {o["evidence"] for o in first.observations if o["memory"]}
    for finding in confirmed:
        if finding.rule == "compile-cudagraphs" or finding.evidence in costly:
            continue
        outcome = "stale-result" if finding.rule in _STALE else "wrong-result"
        return outcome, finding.evidence
    if confirmed and confirmed[0].rule == "compile-cudagraphs":
        return ("capture-error" if first.outcome == "error" else "wrong-result"), confirmed[0].evidence
    if confirmed:
        return "memory", confirmed[0].evidence
    return "ok", first.detail


def as_json(traced: Traced, view: Any) -> dict[str, Any]:
    """The report as `check` writes it, with what the run adds."""
    from graphlint.report.json import finding_object

    def place(path: str) -> str:
        return str(view.path(path)) if path else ""

    regions = []
    for region in traced.first.regions:
        shown = {**region, "path": place(region["path"])}
        if shown["error"] is not None:
            error = shown["error"]
            shown["error"] = {"text": error["text"], "path": place(error["path"]), "line": error["line"]}
        regions.append(shown)
    return {
        "version": view.version,
        "findings": [finding_object(f, view) for f in traced.findings],
        "regions": regions,
        "errors": [{"path": view.path(e.path), "message": e.message} for e in traced.static.errors],
        "trace": {
            "backend": traced.spec.backend,
            "torch": traced.first.torch,
            "device": traced.first.device,
            "outcome": traced.outcome,
            "detail": traced.detail,
            "exit": traced.first.exit,
            "values": traced.first.values,
        },
    }


def confirm(paths: Sequence[Path], config: Config | None = None, limit: float = 600.0) -> Report:
    """Checks scripts and asks the tracer: the linter's findings with their verdicts, and what only the runs showed.

    Raises:
        ModuleNotFoundError: torch is not installed.
    """
    import torch  # noqa: F401  (loaded before the forks; missing, it is said at once)

    from graphlint.runtime.target import Target

    report = Report()
    for path in paths:
        traced = trace(Spec(Target(str(path)), output_to=2), limit, config=config)
        report = report.merged(replace(traced.static, findings=tuple(traced.findings)))
    return report
