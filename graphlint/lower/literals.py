"""Values of literals as Python would give them, without running anything."""

from __future__ import annotations

import ast
import warnings

_PREFIX = "rRbBuUfFtT"


def number(text: str) -> int | float | complex | None:
    """`0x1F`, `1_000`, `1e-5`, `2j`; None if it is none of them."""
    try:
        if text[-1] in "jJ" and text[:2] not in ("0x", "0X"):
            return complex(text)
        return int(text, 0)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def string(text: str) -> str | bytes | None:
    """The value of one string or bytes literal, quotes and prefix included in `text`."""
    cut = 0
    while cut < len(text) and text[cut] in _PREFIX:
        cut += 1
    prefix = text[:cut].lower()
    quotes = 3 if text[cut : cut + 3] in ('"""', "'''") else 1
    if "\\" in text and "r" not in prefix:
        return _escaped(text)
    inner = text[cut + quotes : len(text) - quotes]
    if "\r" in inner:
        inner = inner.replace("\r\n", "\n").replace("\r", "\n")
    return inner.encode("utf-8", "replace") if "b" in prefix else inner


def template_text(text: str) -> str:
    """The literal text between two braces of an f-string, `{{` undone; escapes stay as written."""
    return text.replace("{{", "{").replace("}}", "}")


def _escaped(text: str) -> str | bytes | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, (str, bytes)) else None
