"""How deep source text nests, told before LibCST's recursive parser sees it: too deep ends the process, not the parse.

The bound is read off the tokens: each open bracket adds a level, and so does each operator, trailer and prefix in a
row of operands. It is never below the depth of the tree.
"""

from __future__ import annotations

import re

#: Python's own tokenizer refuses more open brackets than this.
MAX_BRACKETS = 200
#: Levels of one expression, brackets and operators together, or arms of one if/elif chain.
MAX_DEPTH = 600

_TOKEN = re.compile(
    r"""(?P<skip>\#[^\r\n]*|\\\r?\n)
    |(?P<string>(?:\b[a-zA-Z]{1,2})?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
        |\"(?:[^\\\"\r\n]|\\.)*\"|'(?:[^\\'\r\n]|\\.)*'))
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<end>[\r\n;])
    |(?P<comma>,)
    |(?P<keep>\b(?:lambda|for|elif)\b)
    |(?P<step>\b(?:and|or|not|if|else|in|is|await|yield)\b|\*\*|//|<<|>>|->|:=|[-+*/%@&|^~<>.=])
    """,
    re.VERBOSE | re.DOTALL,
)
_FEW = re.compile(r"[(\[{.+\-*/%&|^~@]|\b(?:not|if|and|or|lambda|for|else|await|elif)\b|[\"']\s*[\"']")


def too_deep(text: str) -> bool:
    """True if the text nests deeper than MAX_BRACKETS or MAX_DEPTH."""
    if text.count("(") + text.count("[") + text.count("{") <= MAX_BRACKETS and len(text) <= MAX_DEPTH * 2:
        return False
    return _scan(text)


def _scan(text: str) -> bool:
    """Walks the tokens. `levels` holds (steps that a comma ends, steps that stay) of each open bracket."""
    steps = keeps = total = strings = elifs = 0
    levels: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "step":
            steps += 1
        elif kind == "string":
            strings += 1
            if strings > MAX_DEPTH:
                return True
            continue
        elif kind == "open":
            levels.append((steps, keeps))
            total += steps + keeps + 1
            steps = keeps = 0
            if len(levels) > MAX_BRACKETS:
                return True
        elif kind == "close":
            if levels:
                steps, keeps = levels.pop()
                total -= steps + keeps + 1
                steps += 1
        elif kind == "comma":
            steps = 0
        elif kind == "keep":
            if match.group() == "elif":
                elifs += 1
            keeps += 1
        elif kind == "end":
            if not levels:
                steps = keeps = strings = 0
            continue
        else:
            continue
        strings = 0
        if total + steps + keeps > MAX_DEPTH:
            return True
    return elifs > MAX_DEPTH and _longest_elif_chain(text) > MAX_DEPTH


def _longest_elif_chain(text: str) -> int:
    chains: dict[str, int] = {}
    longest = 0
    for match in re.finditer(r"^([ \t\f]*)(elif|[^\s#])", text, re.MULTILINE):
        indent, word = match.groups()
        if word == "elif":
            chains[indent] = chains.get(indent, 0) + 1
            longest = max(longest, chains[indent])
        else:
            chains[indent] = 0
    return longest
