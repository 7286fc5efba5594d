"""How deep source text nests, told before LibCST's recursive parser sees it: too deep ends the process, not the parse.

The bound is read off the tokens: each open bracket adds a level, and so does each operator, trailer and prefix in a
row of operands. It is never below the depth of the tree.
"""

from __future__ import annotations

import re

#: Python's own tokenizer refuses more open brackets than this.
MAX_BRACKETS = 200
#: Levels of one expression, brackets and operators together; arms of an if/elif chain.
MAX_DEPTH = 600
#: String literals in a row, which LibCST nests too.
MAX_STRINGS = 1500

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\f]+|\#[^\r\n]*|\\\r?\n)
    |(?P<string>\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
        |\"(?:[^\\\"\r\n]|\\.)*\"|'(?:[^\\'\r\n]|\\.)*')
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<end>[\r\n;])
    |(?P<comma>,)
    |(?P<step>(?:and|or|not|if|else|in|is|await|yield)\b|\*\*|//|<<|>>|->|:=|[-+*/%@&|^~<>.])
    |(?P<keep>(?:lambda|for|elif)\b)
    |\w+
    """,
    re.VERBOSE | re.DOTALL,
)
#: Text of which each step of a row holds at least one.
_SIGNS = (*"([{.+-*/%@&|^~<>", " and", " or ", " or\n", ")or", "not", " if", "lambda", "for", "await", "elif", " else")


def too_deep(text: str) -> bool:
    """True if the text nests deeper than MAX_BRACKETS or MAX_DEPTH."""
    brackets = text.count("(") + text.count("[") + text.count("{")
    if brackets <= MAX_BRACKETS and sum(map(text.count, _SIGNS)) + text.count("'") + text.count('"') <= MAX_DEPTH:
        return False
    return _scan(text)


def _scan(text: str) -> bool:
    """Walks the tokens. `levels` holds (steps that a comma ends, steps that stay) outside of each open bracket."""
    steps = keeps = total = strings = elifs = 0
    levels: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        if kind == "string":
            strings += 1
            if strings > MAX_STRINGS:
                return True
            continue
        if kind == "end":
            if not levels:
                steps = keeps = strings = 0
            continue
        if kind is None:  # a word, or the prefix of a string
            continue
        strings = 0
        if kind == "step":
            steps += 1
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
        else:
            elifs += match.group() == "elif"
            keeps += 1
        if total + steps + keeps > MAX_DEPTH:
            return True
    return elifs > MAX_DEPTH and _longest_elif_chain(text) > MAX_DEPTH


def _longest_elif_chain(text: str) -> int:
    """Counts `elif` lines of one indentation with nothing else at it in between."""
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
