"""Work in forked processes: what a process of its own can compute while this one goes on.

A fork has all that its work needs and sends back plain data. Where the system cannot fork, or a fork fails, the work is
done here: the answer is the same.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """The result of some work, there already or to come from a fork."""

    def __init__(self, work: Callable[[], T], kind: type[T]) -> None:
        self.work: Callable[[], T] | None = work
        self.kind = kind
        self.result: T | None = None
        self.pid = self.reader = 0

    def start(self) -> bool:
        """Forks, if the system lets it."""
        import msgspec

        try:
            self.reader, writer = os.pipe()
        except OSError:
            return False
        try:
            self.pid = os.fork()
        except OSError:
            os.close(self.reader)
            os.close(writer)
            return False
        if self.pid:
            os.close(writer)
            return True
        status = 1
        try:
            assert self.work is not None
            data = memoryview(msgspec.json.encode(self.work()))
            while data:
                data = data[os.write(writer, data) :]
            status = 0
        except BaseException:
            pass  # the parent does it again, and says what went wrong
        finally:
            os._exit(status)

    def get(self) -> T:
        """Waits for the result.

        Raises: whatever the work raises.
        """
        if self.pid:
            self._receive()
        if self.work is not None:
            self.result, self.work = self.work(), None
        assert self.result is not None
        return self.result

    def _receive(self) -> None:
        import msgspec

        with os.fdopen(self.reader, "rb") as file:
            data = file.read()
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        if status == 0:
            with contextlib.suppress(msgspec.DecodeError):
                self.result, self.work = msgspec.json.decode(data, type=self.kind), None


class Forks:
    """At most `jobs` - 1 forks beside this process; `jobs` 1 is none."""

    def __init__(self, jobs: int) -> None:
        self.most = jobs - 1 if sys.platform.startswith("linux") else 0
        self.running: deque[Promise[object]] = deque()

    def promise(self, work: Callable[[], T], kind: type[T], *, worth: bool = True) -> Promise[T]:
        """`work`, begun in a fork if that is `worth` it, else when it is first asked for."""
        made = Promise(work, kind)
        if worth and self.most > 0:
            while len(self.running) >= self.most:
                self.running.popleft().get()
            if made.start():
                self.running.append(made)  # type: ignore[arg-type]
        if not made.pid:
            made.get()
        return made
