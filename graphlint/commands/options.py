"""What the command line chooses: options that several commands share, and the paths with the configuration of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphlint.cli import say
from graphlint.config import Config, load
from graphlint.config_keys import ConfigError, read_version

if TYPE_CHECKING:
    pass


FORMATS = ("text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "rdjson")


@dataclass(slots=True)
class Group:
    """Paths that one configuration holds for."""

    config: Config
    paths: list[Path] = field(default_factory=list)


def _names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    return tuple(part.strip() for text in value for part in text.split(",") if part.strip()) or None


def _version(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    return None if value is None else read_version("--torch-version", value)


def read_reports(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for text in value:
        name, _, path = text.partition("=")
        if name not in FORMATS or not path:
            raise click.BadParameter(f"`{text}` is not FORMAT=PATH with a format of {', '.join(FORMATS)}")
        found.append((name, path))
    return found


_OPTIONS: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
    click.argument("paths", nargs=-1),
    click.option(
        "--select", multiple=True, callback=_names, metavar="RULES", help="Only these rules (names or codes)."
    ),
    click.option("--ignore", multiple=True, callback=_names, metavar="RULES", help="Not these rules."),
    click.option("--extend-select", multiple=True, callback=_names, metavar="RULES", help="These rules, too."),
    click.option("--per-file-ignores", multiple=True, metavar="GLOB:RULES", help="Not these rules in these files."),
    click.option(
        "--exclude", multiple=True, callback=_names, metavar="GLOBS", help="Leave out, instead of the default."
    ),
    click.option("--extend-exclude", multiple=True, callback=_names, metavar="GLOBS", help="Leave out, too."),
    click.option("--force-exclude", is_flag=True, default=None, help="Leave out excluded files that are named, too."),
    click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Whether to skip git-ignored files."),
    click.option("--config", "configs", multiple=True, metavar="FILE|KEY=VALUE", help="A configuration file or value."),
    click.option("--isolated", is_flag=True, help="Ignore all configuration files."),
    click.option("--torch-version", callback=_version, metavar="X.Y", help="Report what fails on this version."),
    click.option("--python", metavar="PATH", help="The interpreter or environment whose packages are read."),
    click.option("--rule-folder", multiple=True, metavar="FOLDER", help="Rules of your own; their code is run."),
    click.option("--stdin-filename", metavar="NAME", help="The name of what `-` reads."),
    click.option("--cache/--no-cache", default=True, help="Whether to use .graphlint_cache."),
    click.option("--jobs", "-j", type=click.IntRange(0), default=0, help="Processes; 0 is one for each core."),
]


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that checks files."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def groups(paths: Sequence[Path], options: Mapping[str, Any]) -> list[Group]:
    """Paths by the configuration that holds for them.

    Raises:
        ConfigError: a configuration cannot be used.
    """
    from graphlint.scope import marked_root, missing_packages

    files = [text for text in options["configs"] if "=" not in text or os.path.exists(text)]
    pairs = [text for text in options["configs"] if text not in files]
    if len(files) > 1:
        raise ConfigError("more than one configuration file was given")
    overrides = _overrides(options)
    found: dict[Path | None, Group] = {}
    seen: dict[Path, Path | None] = {}
    for path in paths:
        start = path if path.is_dir() else path.parent
        if files or options["isolated"]:
            start = Path.cwd()
        loaded = load(
            start,
            file=Path(os.path.abspath(files[0])) if files else None,
            isolated=options["isolated"],
            overrides=overrides,
            pairs=pairs,
            seen=seen,
        )
        config = loaded.config
        if config.file not in found:
            if config.file is None:
                from dataclasses import replace

                config = replace(config, root=marked_root(start) or Path.cwd())
            if (problem := missing_packages(config)) is not None:
                if overrides["python"]:
                    raise ConfigError(problem)
                say(f"warning: {problem}; calls of installed packages are not followed")
            found[config.file] = Group(config)
        found[config.file].paths.append(path)
    return list(found.values())


def cores() -> int:
    """How many processes this one may keep busy; more than eight gain nothing."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        count = os.cpu_count() or 1
    return min(count, 8)


def _overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("select", "ignore", "extend_select", "exclude", "extend_exclude", "force_exclude", "respect_gitignore")
    values = {name: options[name] for name in names}
    values["torch_version"] = options["torch_version"]
    values["python"] = os.path.abspath(options["python"]) if options["python"] else None
    if options["per_file_ignores"]:
        pairs = []
        for text in options["per_file_ignores"]:
            glob, colon, rules = text.rpartition(":")
            if not colon:
                raise ConfigError(f"--per-file-ignores: `{text}` is not GLOB:RULES")
            pairs.append((glob, tuple(r.strip() for r in rules.split(",") if r.strip())))
        values["per_file_ignores"] = tuple(pairs)
    if options["rule_folder"]:
        values["rule_folder"] = tuple(os.path.abspath(p) for p in options["rule_folder"])
    return values
