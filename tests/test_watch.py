"""`--watch` with real files and the real watcher."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import CAPTURE, environment, rule_folder

pytest.importorskip("watchfiles", reason="the extra `watch` is not installed")


class Watched:
    """A running `graphlint --watch`, its lines as they come."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "graphlint", ".", "--watch", "-f", "concise", "-q",
             "--rule-folder", "../own_rules", "--select", "host-read"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(folder.parent),
        )  # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def round(self) -> list[str]:
        """The lines up to the next "watching"."""
        found: list[str] = []
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            line = self.lines.get(timeout=60)
            if "watching for changes" in line:
                return found
            found.append(line.rstrip())
        raise AssertionError(found)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Watched, Path]]:
    rule_folder(tmp_path)
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "step.py").write_text(CAPTURE)
    running = Watched(folder)
    yield running, folder
    running.process.kill()
    running.process.wait()


def test_each_change_is_checked_and_a_broken_configuration_does_not_end_it(watched: tuple[Watched, Path]) -> None:
    running, folder = watched
    assert running.round()[0].startswith("step.py:8:11: error USR001[host-read]")
    time.sleep(1)
    (folder / "step.py").write_text("# moved\n" + CAPTURE)
    assert running.round()[0].startswith("step.py:9:11: error USR001[host-read]")
    (folder / "graphlint.toml").write_text("slect = 1\n")
    assert "did you mean `select`" in running.round()[0]
    os.unlink(folder / "graphlint.toml")
    assert running.round()[0].startswith("step.py:9:11")
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(timeout=30) == 130
