"""The command line: `graphlint [check] PATHS`, `trace`, `baseline`, `explain`, `rules`, `config`, `new-rule`, `lsp`.

Exit status: 0 nothing to report, 1 findings, 2 wrong use or graphlint's own failure, 130 interrupted.
click alone would end crashes, interrupts and closed pipes with 1, which here means findings; `main` sorts them out.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn

import click

from graphlint import __version__
from graphlint.baseline import BaselineError
from graphlint.config_keys import ConfigError
from graphlint.registry import RuleError

COMMANDS = {
    "check": "graphlint.commands.check:check",
    "baseline": "graphlint.commands.baseline:baseline",
    "config": "graphlint.commands.config:config",
    "explain": "graphlint.commands.explain:explain",
    "rule": "graphlint.commands.explain:explain",
    "rules": "graphlint.commands.rules:rules",
    "new-rule": "graphlint.commands.new_rule:new_rule",
    "trace": "graphlint.runtime.cli_trace:trace_command",
    "lsp": "graphlint.commands.lsp:lsp",
}
_HIDDEN = {"rule"}
#: What a command needs that is not installed with the linter, and the extra that brings it.
_NEEDS = {"trace": ("torch", "trace"), "lsp": ("pygls", "lsp")}


class ClosedPipe(Exception):
    """The reader of standard output went away. Not an OSError: click would end that with 1, "findings"."""


class Group(click.Group):
    """Loads a command when it is called; anything that is no command is a path for `check`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if name not in _HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = COMMANDS.get(cmd_name)
        if where is None:
            return None
        if cmd_name in _NEEDS and cmd_name in sys.argv[1:2]:
            _require(cmd_name)
        module, _, name = where.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        texts = {
            "check": "Report what breaks under a CUDA graph (the default: `graphlint src/`).",
            "baseline": "Write the findings of today down, so that only new ones are reported.",
            "config": "Show what configuration holds, and where each value comes from.",
            "explain": "Explain a rule, or an error text that you met.",
            "rules": "List all rules.",
            "new-rule": "Start a rule's folder with the next free code and failing examples.",
            "trace": "Run a script, emulated or on a GPU, and prove the findings (extra `trace`).",
            "lsp": "Serve editors (extra `lsp`).",
        }
        with formatter.section("Commands"):
            formatter.write_dl([(name, texts[name]) for name in self.list_commands(ctx)])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {"--help", "-h", "--version", "-V"}
        if not args or (args[0] not in COMMANDS and args[0] not in known):
            args = ["check", *args]
        return super().parse_args(ctx, args)


def _require(command: str) -> None:
    from importlib.util import find_spec

    module, extra = _NEEDS[command]
    if find_spec(module) is None:
        raise click.UsageError(
            f"`graphlint {command}` needs {module}, which is not installed here: pip install 'torch-graphlint[{extra}]'"
        )


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", message="graphlint %(version)s")
def cli() -> None:
    """Finds what breaks under a CUDA graph in PyTorch code, without running it."""


def main() -> NoReturn:
    """Runs the command line for a caller in Python.

    Raises:
        SystemExit: always, with the exit status.
    """
    sys.exit(_status())


def script() -> NoReturn:
    """The entry point of both scripts: the process ends here."""
    leave(_status())


def _status() -> int:
    # An analysis makes millions of small objects that all live until its end: looking through them for cycles as
    # often as Python does by default costs a fifth of the time.
    gc.set_threshold(100_000, 20, 100)
    gc.freeze()
    return guarded(_run)


def leave(status: int) -> NoReturn:
    """Ends this process. After a check it does so at once: freeing millions of objects one by one, for a system that
    takes the memory back as a whole, costs a twentieth of the time. Code of users was not run in this process then:
    what it may have left to be done at the end is none of ours to skip."""
    if "graphlint.commands.check" not in sys.modules or "torch" in sys.modules:
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _run() -> int:
    result = cli.main(standalone_mode=False)
    return result if isinstance(result, int) else 0


def guarded(run: Callable[[], int]) -> int:
    """The exit status of `run`, whatever happens in it."""
    try:
        status = run()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return 130
    except (ClosedPipe, BrokenPipeError):
        return closed_pipe()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        say(f"error: {error.format_message()}")
        if context is not None and isinstance(error, click.UsageError):
            say(f"try `{context.command_path} --help`")
        return 2
    except (ConfigError, RuleError, BaselineError) as error:
        say(f"error: {error}")
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except MemoryError:
        say("error: out of memory")
        return 2
    except Exception:
        return crash()


def say(text: str) -> None:
    """One line on standard error, harmless to a terminal."""
    from graphlint.report.view import harmless

    try:
        sys.stderr.write(f"graphlint: {harmless(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # closed, or never there


def closed_pipe() -> int:
    """The reader went away (`| head`): end quietly, with what a shell shows for SIGPIPE."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 141


def crash() -> int:
    import platform
    import traceback

    from graphlint.report.view import harmless

    text = "".join(harmless(line) + "\n" for line in traceback.format_exc().splitlines())
    sys.stderr.write(text)
    say(
        f"this is a fault of graphlint {__version__} (Python {platform.python_version()}), not of your code; "
        "please report it with the lines above"
    )
    return 2
