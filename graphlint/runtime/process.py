"""Runs a traced program in a process of its own, with a time limit; what it saw outlives it."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, replace
from pathlib import Path

from graphlint.runtime.spec import VALUES, Result, Spec


class TimeLimit(BaseException):
    """The time is up; raised inside the traced program so that what it saw can be written."""


class Child:
    """A traced program that has been started. It is forked: torch, once loaded, need not be loaded again."""

    def __init__(self, spec: Spec) -> None:
        handle, name = tempfile.mkstemp(prefix="graphlint-", suffix=".json")
        os.close(handle)
        self.path = Path(name)
        sys.stdout.flush()
        sys.stderr.flush()
        self.begun = time.monotonic()
        self.started: subprocess.Popen[bytes] | None = None
        if spec.backend == "cuda":
            self.started = _spawn(spec, self.path)
            self.number = self.started.pid
            return
        self.number = os.fork()
        if self.number == 0:
            code = 70
            try:
                code = _child(spec, self.path)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)

    def result(self, limit: float) -> Result:
        """Waits, at most until `limit` seconds after the start, and reads what the program's process wrote."""
        try:
            status, hung = _wait(self.number, limit - (time.monotonic() - self.begun))
            if self.started is not None:
                self.started.returncode = status
            return _read(self.path, status, hung, limit)
        finally:
            self.path.unlink(missing_ok=True)


def _spawn(spec: Spec, path: Path) -> subprocess.Popen[bytes]:
    """A fresh process: a CUDA context does not survive a fork, and a failed capture can poison it."""
    from graphlint.runtime.child import encode

    command = [sys.executable, "-m", "graphlint.runtime.child", encode(replace(spec, output_to=None)), str(path)]
    out = subprocess.DEVNULL if spec.quiet else spec.output_to
    error = subprocess.DEVNULL if spec.quiet else None
    home = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), home)))
    return subprocess.Popen(command, stdout=out, stderr=error, env={**os.environ, "PYTHONPATH": search})


def write(result: Result, path: Path) -> None:
    """Writes a result as a whole or not at all."""
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(result), default=str), encoding="utf-8")
    temporary.replace(path)


def run(spec: Spec, limit: float) -> Result:
    """Runs `spec` in a process of its own; after `limit` seconds it is stopped."""
    return finished(Child(spec), spec, limit)


def finished(child: Child, spec: Spec, limit: float) -> Result:
    """What a started program saw; one that is too large is run again without values."""
    result = child.result(limit)
    if result.outcome != "too-large":
        return result
    if not spec.quiet:
        print(
            f"graphlint: more than {VALUES >> 30} GiB on the device: once more, without values (--no-fake keeps them)",
            file=sys.stderr,
        )
    return Child(replace(spec, fake=True)).result(limit)


def _wait(child: int, limit: float) -> tuple[int, bool]:
    end, asked, hung = time.monotonic() + limit, False, False
    pause = 0.005
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, hung
        now = time.monotonic()
        if now > end and not asked:
            os.kill(child, signal.SIGTERM)
            asked = hung = True
            end = now + 5
        elif now > end:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            return status, True
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)


def _read(path: Path, status: int, hung: bool, limit: float) -> Result:
    try:
        result = Result(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        result = Result(outcome="crash", detail="the process died before it could say what it saw")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            result.detail = f"killed by {signal.Signals(number).name}"
            if number == signal.SIGKILL and not hung:
                result.outcome, result.detail = "memory", "killed, most likely out of memory"
    if hung:
        result.outcome, result.detail = "hang", f"not done after {limit:g} s"
    return result


def end_at_the_limit() -> None:
    """The parent's SIGTERM ends the program, not what was seen of it."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise TimeLimit

    signal.signal(signal.SIGTERM, stop)


def _child(spec: Spec, path: Path) -> int:
    end_at_the_limit()
    if spec.quiet:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    elif spec.output_to is not None:
        os.dup2(spec.output_to, 1)
        if spec.errors_to is not None:
            os.dup2(spec.errors_to, 2)
    if (
        faulthandler.is_enabled()
    ):  # not to where it wrote before the fork: a crash of the program is an outcome, and told
        faulthandler.enable(2)
    from graphlint.runtime.worker import work

    result = work(spec)
    write(result, path)
    sys.stdout.flush()
    sys.stderr.flush()
    return result.exit
