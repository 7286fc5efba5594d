"""Inside the traced process: installs the witness, runs the program, judges what was seen."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.allowing import _ALLOWED, allowed
from graphlint.runtime.emulate.install import emulated
from graphlint.runtime.emulate.machine import Machine, TooLarge
from graphlint.runtime.judge import noted, refused, whole
from graphlint.runtime.judge.observation import Observation
from graphlint.runtime.process import TimeLimit
from graphlint.runtime.spec import VALUES, Result, Spec
from graphlint.runtime.summary import summarise
from graphlint.runtime.target import TargetError
from graphlint.runtime.watch.branches import Capturing, Reads
from graphlint.runtime.watch.gradients import Gradients
from graphlint.runtime.watch.inputs import Inputs
from graphlint.runtime.watch.journal import Journal
from graphlint.runtime.watch.keys import Keys
from graphlint.runtime.watch.leaves import Leaves
from graphlint.runtime.watch.modes import Captures, Modes
from graphlint.runtime.watch.outputs import OutputWatch
from graphlint.runtime.watch.places import Places
from graphlint.runtime.watch.rehearsals import Rehearsals
from graphlint.runtime.watch.remade import RemadeInputs
from graphlint.runtime.watch.scalars import Scalars
from graphlint.runtime.watch.scratch import Scratch
from graphlint.runtime.watch.state import State
from graphlint.runtime.watch.stores import Stores

WATCHERS = (
    Leaves,
    Scratch,
    Places,
    Stores,
    Scalars,
    OutputWatch,
    State,
    Inputs,
    Modes,
    Captures,
    Reads,
    Capturing,
    Gradients,
    RemadeInputs,
    Keys,
    Rehearsals,
)

#: Those that need no values.
WITHOUT_VALUES = tuple(w for w in WATCHERS if w not in (Capturing, Gradients, RemadeInputs))


def work(spec: Spec) -> Result:
    """Runs `spec.target` under its back end."""
    result = Result(torch=str(torch.__version__), device="emulated")
    if spec.backend == "cuda":
        return _on_gpu(spec, result)
    result.values = not spec.fake
    with watched(spec) as (machine, journal):
        run_target(spec, result)
    conclude(machine, journal, result)
    return result


@contextmanager
def watched(spec: Spec) -> Iterator[tuple[Machine, Journal]]:
    """An emulated device with everything that watches the program on it."""
    torch.set_num_threads(1)
    # the tracer's own objects must not make the garbage collector run where the program alone would not
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
    gc.freeze()  # what is there now holds nothing of the program's: looking for holders of its tensors skips it
    gc.collect()  # nearly nothing to do, and its counters stand at zero: collections come where they come in any run
    with emulated(spec.version, spec.survey, bool(spec.fake)) as machine:
        machine.most = VALUES if spec.fake is None else None
        journal = Journal(machine)
        for kind in WITHOUT_VALUES if spec.fake else WATCHERS:
            journal.watchers.append(kind(machine, journal))
        with journal:
            yield machine, journal


def _on_gpu(spec: Spec, result: Result) -> Result:
    with watched_on_gpu() as (observer, journal):
        run_target(spec, result)
    result.device = torch.cuda.get_device_name()
    observer.finish()
    conclude(observer, journal, result)
    return result


@contextmanager
def watched_on_gpu() -> Iterator[tuple[Any, Journal]]:
    """The real device, with what observes captures on it."""
    from graphlint.runtime.cuda.observe import observed
    from graphlint.runtime.cuda.outline import Outline
    from graphlint.runtime.cuda.timing import Timing

    with observed() as observer:
        journal = observer.journal = Outline(observer)
        journal.watchers = [Timing(observer, journal)]
        with journal:
            yield observer, journal


def conclude(machine: Any, journal: Journal, result: Result) -> None:
    """Judges the run and fills the result in."""
    run = machine.events
    observations = [
        o
        for o in judge(run)
        if allowed(o.rule, [(s.path, s.line) for s in (o.at, *o.chain)], known_codes().get(o.rule, "")) is None
    ]
    result.observations = [
        {
            "rule": o.rule,
            "path": o.at.path,
            "line": o.at.line,
            "function": o.at.function,
            "evidence": o.evidence,
            "graph": o.graph,
            "refusal": o.refusal,
            "weak": o.weak,
            "memory": o.memory,
            "chain": [[s.path, s.line, s.function] for s in o.chain[:8]],
        }
        for o in observations
    ]
    result.executed = {path: sorted(lines) for path, lines in journal.executed.items()}
    result.refused = any(isinstance(e, events.Refusal) for e in run)
    rehearsals = next((w for w in journal.watchers if isinstance(w, Rehearsals)), None)
    summarise(run, machine, result, rehearsals)


def known_codes() -> dict[str, str]:
    from graphlint.registry import load_rules

    return {name: rule.code for name, rule in load_rules().by_name.items()} if _ALLOWED else {}


def judge(run: list[events.Event]) -> list[Observation]:
    """All judges' observations, each once."""
    found: dict[tuple[str, frames.Site], Observation] = {}
    for one in (*refused.judge(run), *noted.judge(run), *whole.judge(run)):
        known = found.get((one.rule, one.at))
        if known is None or (known.weak and not one.weak):
            found[one.rule, one.at] = one
    return list(found.values())


def run_target(spec: Spec, result: Result) -> None:
    """Runs the program; what it raises is shown as Python would, and kept."""
    try:
        try:
            spec.target.run()
        finally:
            if spec.target.call is None:
                _await_threads()
    except SystemExit as error:
        result.exit = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except TimeLimit:
        result.outcome, result.exit = "hang", 124
    except TooLarge:
        result.outcome, result.exit = "too-large", 1
    except TargetError as error:
        print(f"graphlint: {error}", file=sys.stderr)
        result.outcome, result.exit, result.detail = "error", 2, str(error)
    except BaseException as error:
        if spec.target.call is None:
            _show(error)
        text = str(error).splitlines()
        result.outcome, result.exit = "error", 130 if isinstance(error, KeyboardInterrupt) else 1
        result.detail = f"{type(error).__name__}: {text[0] if text else ''}"


def _await_threads() -> None:
    """A script's threads go on when it has run to its end, and Python waits for them; executors end theirs."""
    for finish in reversed(getattr(threading, "_threading_atexits", ())):
        finish()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _show(error: BaseException) -> None:
    """Prints the traceback without graphlint's own frames at its top."""
    trace = error.__traceback__
    while trace is not None and not frames.is_user(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace or error.__traceback__)
