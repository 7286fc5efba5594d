"""Inside the traced process: installs the witness, runs the program, judges what was seen."""

from __future__ import annotations

import sys
import traceback

import torch

from graphlint.runtime.process import TimeLimit
from graphlint.runtime.spec import Result, Spec
from graphlint.runtime.target import TargetError


def work(spec: Spec) -> Result:
    """Runs `spec.target` under its back end."""
    torch.set_num_threads(1)
    result = Result(torch=str(torch.__version__))
    from graphlint.runtime.emulate.install import emulated

    with emulated(spec.version, spec.survey):
        run_target(spec, result)
    return result


def run_target(spec: Spec, result: Result) -> None:
    """Runs the program; what it raises is shown as Python would, and kept."""
    try:
        spec.target.run()
    except SystemExit as error:
        result.exit = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except TimeLimit:
        result.outcome, result.exit = "hang", 124
    except TargetError as error:
        print(f"graphlint: {error}", file=sys.stderr)
        result.outcome, result.exit, result.detail = "error", 2, str(error)
    except BaseException as error:
        traceback.print_exc()
        text = str(error).splitlines()
        result.outcome, result.exit = "error", 130 if isinstance(error, KeyboardInterrupt) else 1
        result.detail = f"{type(error).__name__}: {text[0] if text else ''}"
