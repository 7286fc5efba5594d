"""What is traced: a script with its arguments, or one callable with its inputs."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SHAPE = re.compile(r"^(?P<shape>\d+(x\d+)*|scalar)(?:\s+(?P<dtype>\w+))?(?:\s+(?P<device>\S+))?$")


class TargetError(Exception):
    """The target cannot be run as it was given; one line for the user."""


@dataclass(frozen=True, slots=True)
class Target:
    """`spec` is a file, or `package.module:callable`; `inputs` names a callable that makes the inputs."""

    spec: str
    arguments: tuple[str, ...] = ()
    inputs: str | None = None
    shapes: tuple[str, ...] = ()
    call: Any = None
    """A callable with its inputs, instead of a name: an object with `run()`."""

    @property
    def is_script(self) -> bool:
        return self.spec.endswith(".py") or Path(self.spec).is_file()

    def check(self) -> None:
        """Raises TargetError where the target is no file and names no callable."""
        if self.is_script:
            if not Path(self.spec).is_file():
                raise TargetError(f"no such file: {self.spec}")
            if self.inputs or self.shapes:
                raise TargetError("--inputs and --input go with a callable (`package.module:name`), not with a script")
        elif ":" not in self.spec:
            raise TargetError(f"{self.spec!r} is neither a file nor `package.module:callable`")
        for text in self.shapes:
            if _SHAPE.match(text.strip()) is None:
                raise TargetError(f'--input {text!r} is not like "4x128 int64 cuda"')

    def run(self) -> None:
        """Runs the script as Python would, or captures the callable and replays it."""
        if self.call is not None:
            self.call.run()
            return
        if self.is_script:
            path = os.path.abspath(self.spec)
            sys.argv = [self.spec, *self.arguments]
            sys.path.insert(0, os.path.dirname(path))
            runpy.run_path(self.spec, run_name="__main__")
            return
        sys.path.insert(0, os.getcwd())
        from graphlint.runtime.compare import capture_and_compare, reach

        function = load(self.spec)
        inputs: Sequence[Any] = (
            tuple(make_input(s) for s in self.shapes)
            if self.shapes
            else as_inputs(load(self.inputs)() if self.inputs else ())
        )
        reach(function, inputs)
        capture_and_compare(function, inputs)


def load(spec: str) -> Callable[..., Any]:
    """The object that `package.module:name.attribute` names.

    Raises:
        TargetError: nothing is there.
    """
    module, _, name = spec.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise TargetError(f"cannot load {spec}: {error}") from None
    return found  # type: ignore[no-any-return]


def as_inputs(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def make_input(text: str) -> Any:
    """A tensor like "4x128 int64 cuda" says; random for floats, zeros for the rest."""
    import torch

    match = _SHAPE.match(text.strip())
    assert match is not None
    shape = [] if match["shape"] == "scalar" else [int(n) for n in match["shape"].split("x")]
    dtype = getattr(torch, match["dtype"] or "float32")
    device = match["device"] or "cuda"
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype, device=device)
    return torch.zeros(shape, dtype=dtype, device=device)
