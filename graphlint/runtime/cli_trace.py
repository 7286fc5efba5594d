"""`graphlint trace`: runs a script and says what its captures did."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from graphlint.runtime.target import Target, TargetError

NO_TORCH = (
    "torch is not installed here: install torch-graphlint where your torch is, "
    "or `pip install 'torch-graphlint[trace]'`"
)
_CHECK_FORMATS = ("concise", "github", "gitlab", "jsonl", "junit", "rdjson", "sarif")


@click.command("trace", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--backend",
    type=click.Choice(["auto", "emulate", "cuda"]),
    default="auto",
    help="Where it runs: on a GPU, emulated on the CPU, or on a GPU if there is one.",
)
@click.option(
    "--output-format", "-f", type=click.Choice(["text", "json", *_CHECK_FORMATS]), default="text", help="How to print."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to a file.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page to look at, too.")
@click.option("--timeout", type=float, default=600.0, show_default=True, help="Seconds that one run may take.")
@click.option("--torch-version", metavar="X.Y", help="Follow this torch version where versions differ (emulated).")
@click.option(
    "--fake/--no-fake",
    default=None,
    help="Tensors without values, for models that do not fit (emulated).  [default: above 1 GiB of device memory]",
)
@click.option("--inputs", metavar="MODULE:CALLABLE", help="What makes the inputs of a callable.")
@click.option(
    "--input", "shapes", multiple=True, metavar="SHAPE", help='An input of a callable, like "4x128 int64 cuda".'
)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour.")
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def trace_command(**options: Any) -> int:
    """Run TARGET (a script, or `package.module:callable`) with ARGUMENTS, and report what its captures did.

    Exit status: 0 nothing confirmed, 1 findings confirmed or the run failed, 2 wrong use.
    """
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asking for a GPU must not spoil the fork
    try:
        import torch
    except ImportError:
        raise click.UsageError(NO_TORCH) from None
    target = Target(options["target"], tuple(options["arguments"]), options["inputs"], tuple(options["shapes"]))
    try:
        target.check()
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    from graphlint.config_keys import read_version
    from graphlint.runtime.session import trace
    from graphlint.runtime.spec import Spec

    backend = options["backend"]
    if backend == "auto":
        backend = "cuda" if torch.cuda.is_available() else "emulate"
    elif backend == "cuda" and not torch.cuda.is_available():
        raise click.UsageError("--backend cuda: torch sees no CUDA device here; `--backend emulate` needs none")
    version = read_version("torch-version", options["torch_version"]) if options["torch_version"] else None
    to_stdout = options["output"] is None
    spec = Spec(
        target,
        backend,
        version=version or (2, 11),
        output_to=2 if to_stdout else None,
        fake=options["fake"],
    )
    traced = trace(spec, options["timeout"], _progress())
    _write(traced, options, to_stdout)
    return 1 if traced.confirmed or traced.first.exit else 0


def _progress() -> Any:
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: print(f"graphlint: {text} ...", file=sys.stderr)


def _write(traced: Any, options: Any, to_stdout: bool) -> None:
    from graphlint import __version__
    from graphlint.report.view import View
    from graphlint.runtime.session import as_json

    color = options["color"] == "always" or (options["color"] == "auto" and to_stdout and sys.stdout.isatty())
    view = View(cwd=os.getcwd(), version=__version__, rules=traced.registry.by_name, color=color)
    text = render(traced, options["output_format"], view, as_json(traced, view))
    if to_stdout:
        sys.stdout.write(text)
    else:
        options["output"].write_text(text, encoding="utf-8")
    if options["html"] is not None:
        from graphlint.runtime.page import page

        options["html"].write_text(page(traced, as_json(traced, view)), encoding="utf-8")


def render(traced: Any, form: str, view: Any, data: dict[str, Any]) -> str:
    """The report in one of the formats."""
    import json

    if form == "json":
        return json.dumps(data, indent=2) + "\n"
    if form == "text":
        from graphlint.runtime.text import render as as_text

        return as_text(traced, view)
    from importlib import import_module

    from graphlint.engine import Report

    report = Report(tuple(traced.findings), errors=traced.static.errors, targets=traced.static.targets)
    return str(import_module(f"graphlint.report.{form}").render(report, view))
