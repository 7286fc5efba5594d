"""How Python spelled what a frame is doing: an implicit bool, `float(...)`, a format ... read from its byte code."""

from __future__ import annotations

import dis
import re
from functools import lru_cache
from types import CodeType, FrameType

from graphlint.runtime.syntax import file_of

_TRUTH = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT", "CONTAINS_OP")
_BUILTINS = frozenset({"any", "all", "min", "max", "sorted", "filter"})


@lru_cache(maxsize=512)
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    return {i.offset: i for i in dis.get_instructions(code)}


def spelling(frame: FrameType, lasti: int | None = None, line: int | None = None) -> str:
    """ "bool" for every implicit truth test, else the name of what is called ("item", "float", "print"), "format",
    "index" or ""."""
    found = _instructions(frame.f_code).get(frame.f_lasti if lasti is None else lasti)
    if found is None:
        return ""
    name = found.opname
    if name.startswith(_TRUTH):
        return "bool"
    if name.startswith(("FORMAT", "BUILD_STRING", "CONVERT")):
        return "format"
    if name.startswith(("BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "BUILD_SLICE", "STORE_SLICE")):
        return "index"
    if name == "BINARY_OP" and found.argrepr in ("%", "[]"):
        return "format" if found.argrepr == "%" else "index"
    if name.startswith(("CALL", "PRECALL")):
        called = _callee(frame, found, line or frame.f_lineno)
        return "bool" if called in _BUILTINS else called
    return ""


def _callee(frame: FrameType, instruction: dis.Instruction, number: int) -> str:
    lines = file_of(frame.f_code.co_filename).text
    if not 0 < number <= len(lines):
        return ""
    positions = getattr(instruction, "positions", None)
    if positions is not None and positions.lineno and positions.col_offset is not None and positions.end_lineno:
        if positions.lineno == positions.end_lineno:
            text = (
                lines[positions.lineno - 1]
                .encode()[positions.col_offset : positions.end_col_offset]
                .decode(errors="replace")
            )
        else:
            text = lines[positions.lineno - 1].encode()[positions.col_offset :].decode(errors="replace")
        return _name(text)
    match = re.search(r"\b(bool|float|int|any|all|min|max|sorted|print|range|str|repr)\(", lines[number - 1])
    return match[1] if match else ""


def _name(call: str) -> str:
    """The name of the function that a call's text calls: what stands before its last opening bracket at depth 0."""
    depth, place = 0, len(call) - 1
    while place >= 0:
        if call[place] in ")]}":
            depth += 1
        elif call[place] in "([{":
            depth -= 1
            if depth == 0:
                break
        place -= 1
    head = call[: max(place, 0)] if place > 0 else call.split("(")[0]
    match = re.search(r"(\w+)\s*$", head)
    return match[1] if match else ""
