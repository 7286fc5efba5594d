"""What puts code that torch.compile compiles into CUDA graphs, by the text, and who is given it.

A setting may stand at a module's top level, `COMPILE = {"mode": "reduce-overhead"}`: what compiles with it captures.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.program.program import Program

#: torch.compile's own words stand in help texts and tables, too: they count where something is set or compiled.
WORDS = re.compile(
    r"""(?:mode|compile|=).*["'](?:reduce-overhead|max-autotune)["']|["'](?:reduce-overhead|max-autotune)["'].*compile"""
    r"""|triton\.cudagraphs|backend\s*=\s*["']cudagraphs"""
)
#: Calls that take their mode from an object, or all that they are told from a table.
_FROM_ELSEWHERE = re.compile(r"\btorch\.compile\s*\([^()]*(?:\([^()]*\)[^()]*)*(?:\*\*|\bmode\s*=\s*[A-Za-z_]\w*\.)")
#: In so many files the name of a setting is looked for.
FILES = 12


#: The value of a parameter that is not given another.
_DEFAULT = re.compile(r"""^\s*(?:async\s+)?def\s.*=\s*["'](?:reduce-overhead|max-autotune)["']""")


def is_default(match: re.Match[str]) -> bool:
    """True if a mode is the default of a parameter, on the line of the `def`."""
    start = match.string.rfind("\n", 0, match.start()) + 1
    return _DEFAULT.match(match.string[start : match.end()]) is not None


def users(program: Program, module: Module) -> Iterator[tuple[Module, int]]:
    """Calls of `compile`, by the text, that are given a name of the top level of `module` bound to such words."""
    starts, text = module.source.line_starts, module.source.text
    lines = dict.fromkeys(bisect_right(starts, match.start()) for match in WORDS.finditer(text))
    for name in dict.fromkeys(name for line in lines for name in module.bound_at(line)):
        given = re.compile(rf"\bcompile\s*\([^()]*(?:\([^()]*\)[^()]*)*\b{re.escape(name)}\b")
        for path in program.mentions(name, FILES):
            other = program.module(path)
            if other is None or (other is not module and name not in other.names() and "import *" not in _text(other)):
                # `settings.COMPILE`: the module is named instead.
                stem = module.name.rpartition(".")[2]
                if other is None or not re.search(rf"\b{re.escape(stem)}\.{re.escape(name)}\b", _text(other)):
                    continue
            for match in given.finditer(_text(other)):
                yield other, bisect_right(other.source.line_starts, match.start())


def in_fields(program: Program, module: Module) -> bool:
    """True if such words stand in a class whose users compile nothing themselves: its setting goes on through other
    objects."""
    starts = module.source.line_starts
    for match in WORDS.finditer(_text(module)):
        chain = list(module.enclosing_chain(bisect_right(starts, match.start())))
        if not chain or any(isinstance(d, tree.Function) for d in chain):
            continue
        users = [program.module(path) for path in program.mentions(chain[0].name, FILES)]
        if not any(re.search(r"\bcompile\s*\(", _text(user)) for user in users if user is not None):
            return True
    return False


def of_objects(program: Program) -> Iterator[tuple[Module, int]]:
    """Calls of `torch.compile` that a setting among the fields of a class may reach."""
    for path in program.holding(b"torch.compile("):
        module = program.module(path)
        for match in _FROM_ELSEWHERE.finditer(_text(module)) if module is not None else ():
            assert module is not None
            yield module, bisect_right(module.source.line_starts, match.start())


def _text(module: Module) -> str:
    return module.source.text
