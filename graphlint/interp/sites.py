"""Where captures are: the functions and modules whose text uses a capture interface.

Glossary:
    site   a function that may capture, or a module's own code.
    root   what is run; "" is the module's own code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from graphlint.interp import compile_settings
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.program.program import Program

SITE = re.compile(
    r"\bgraph[ \t]*\((?!s\))|capture_begin|make_graphed_callables|accelerator\.Graph|capture_to_graph|CudaGraphModule"
    r"|(?<=cuda\.)graph\b(?!\w|\.)|(?<=[xn]pu\.)graph\b(?!\w|\.)|(?<=module\.)graph\b(?!\w|\.)"
)
_RECEIVER = re.compile(r"[\w.\])]*\.$")
#: Names under which a device's module goes: `device_module.graph(...)` may capture, `networkx.graph(...)` does not.
_DEVICE_MODULE = re.compile(r"cuda|xpu|npu|musa|mlu|hpu|sdaa|supa|gpu|torch|graphs|module|device|backend|accel|\bdev")
#: Engine arguments about graphs, and the calls that take them.
_ENGINE_WORDS = re.compile(r"cudagraph_|_cudagraph|full_cuda_graph|cuda_graph_sizes|_len_to_capture")
_ENGINE = re.compile(r"\b(?:LLM|EngineArgs|AsyncEngineArgs|CompilationConfig)\s*\(")


@dataclass(frozen=True, slots=True, order=True)
class Root:
    """`function` is the qualified name of what is run, "" for the module's own code."""

    path: Path
    function: str


@dataclass(slots=True)
class Site:
    """`lines` are where the capture interface is named."""

    module: Module
    function: str
    lines: list[int]
    callers: list[Root] = field(default_factory=list)
    """The functions that call the site, or make the object that does, directly."""


def sites(program: Program, more: tuple[str, ...]) -> Iterator[Site]:
    """Every function and module that names a capture interface."""
    own = [re.escape(m.rpartition(".")[2]) for m in more]
    pattern = re.compile("|".join([SITE.pattern, *own])) if more else SITE
    told: set[tuple[Path, str]] = set()
    handed: list[tuple[Module, int]] = []
    fields = False
    for path in program.capture_files(tuple(m.rpartition(".")[2] for m in more)):
        module = program.module(path)
        if module is None:
            continue
        text = module.source.text
        patterns = [pattern]
        if "compile" in text:
            patterns.append(compile_settings.WORDS)
        else:  # a setting for others to compile with
            handed += compile_settings.users(program, module)
        if "vllm" in text and _ENGINE_WORDS.search(text) is not None:
            patterns.append(_ENGINE)
        fields = fields or compile_settings.in_fields(program, module)
        named: dict[int, re.Match[str]] = {}
        for match in (m for p in patterns for m in p.finditer(text)):
            number = bisect_right(module.source.line_starts, match.start())
            # `def __init__(self, net, mode="reduce-overhead")`: who calls it without a mode compiles with that.
            default = match.re is compile_settings.WORDS and compile_settings.is_default(match)
            if (default or not _only_words(module, number)) and not _other_graph(module, match):
                named.setdefault(number, match)
        found: dict[str, list[int]] = {}
        for number in sorted(named):
            found.setdefault(owner(module, number), []).append(number)
        for function, lines in found.items():
            told.add((module.path, function))
            yield Site(module, function, lines)
        if "" in found and "compile" in text:
            handed += compile_settings.users(program, module)
    if fields:
        handed += compile_settings.of_objects(program)
    for module, line in handed:
        function = owner(module, line)
        if (module.path, function) not in told:
            told.add((module.path, function))
            yield Site(module, function, [line])


def _only_words(module: Module, number: int) -> bool:
    """True where a capture is spoken of, imported or defined under its own name, not begun."""
    return module.source.lines[number - 1].lstrip().startswith(
        ("#", "import ", "from ", "def ")
    ) or module.in_docstring(number)


def _other_graph(module: Module, named: re.Match[str]) -> bool:
    """True for `receiver.graph(...)` of something that is no device's module: a loss, dgl, networkx."""
    line = module.source.line_starts[bisect_right(module.source.line_starts, named.start()) - 1]
    found = _RECEIVER.search(named.string[line : named.start()]) if named.group().startswith("graph") else None
    receiver = found.group()[:-1] if found is not None else ""
    last = receiver.rpartition(".")[2]
    if not receiver or _DEVICE_MODULE.search(last):
        return False
    if "." in receiver:
        return True
    imported = [b for b in module.origins(receiver) if isinstance(b, (tree.Import, tree.ImportFrom))]
    own = any(isinstance(b, tree.ImportFrom) and b.level for b in imported)
    return bool(imported) and not own and not any("torch" in _source(b, receiver) for b in imported)


def _source(statement: tree.Import | tree.ImportFrom, name: str) -> str:
    """Where an import takes `name` from."""
    if isinstance(statement, tree.ImportFrom):
        return statement.module
    return next((dotted for dotted, alias in statement.names if name in (alias, dotted.partition(".")[0])), "")


def owner(module: Module, line: int) -> str:
    """The outermost function around a line, with its classes; "" for the module's own code."""
    chain = list(module.enclosing_chain(line))
    outermost_first = sorted(chain, key=lambda d: d.lines[0] - d.lines[1])
    for definition in outermost_first:
        if isinstance(definition, tree.Function):
            return definition.qualname
    return outermost_first[-1].qualname if outermost_first else ""
