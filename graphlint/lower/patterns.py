"""Patterns of `match` statements: which values they compare with and which names they bind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from graphlint.lower import tree
from graphlint.lower.expressions import ExpressionLowerer


@dataclass(slots=True)
class Pattern:
    """What one `case` pattern says. `irrefutable`: it matches whatever comes."""

    values: list[tree.Expr] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    irrefutable: bool = False


class PatternLowerer(ExpressionLowerer):
    """Walks patterns at the cursor."""

    def pattern(self, node: Any) -> Pattern:
        found = Pattern()
        found.irrefutable = self._pattern(node, found)
        return found

    def _pattern(self, node: Any, found: Pattern) -> bool:
        """Collects into `found`; True if this pattern matches anything."""
        cursor = self.cursor
        # A value pattern's parentheses are those of its expression.
        lpar = () if isinstance(node, (cst.MatchValue, cst.MatchSingleton)) else getattr(node, "lpar", ())
        for _ in lpar:
            cursor.take("(")
        sure = False
        if isinstance(node, (cst.MatchValue, cst.MatchSingleton)):
            found.values.append(self.expr(node.value))
        elif isinstance(node, cst.MatchAs):
            sure = self._as(node, found)
        elif isinstance(node, cst.MatchOr):
            for index, element in enumerate(node.patterns):
                if index:
                    cursor.take("|")
                sure = self._pattern(element.pattern, found) or sure
        elif isinstance(node, cst.MatchSequence):
            bracket = isinstance(getattr(node, "lbracket", None), cst.LeftSquareBracket)
            if bracket:
                cursor.take("[")
            self._sequence(node.patterns, found)
            if bracket:
                cursor.take("]")
        elif isinstance(node, cst.MatchMapping):
            self._mapping(node, found)
        elif isinstance(node, cst.MatchClass):
            self.expr(node.cls)
            cursor.take("(")
            self._sequence(node.patterns, found)
            for keyword in node.kwds:
                cursor.take(keyword.key.value)
                cursor.take("=")
                self._pattern(keyword.pattern, found)
                self._comma(keyword)
            cursor.take(")")
        else:
            cursor.take(cst.Module(()).code_for_node(node).strip())
        for _ in lpar:
            cursor.take(")")
        return sure

    def _comma(self, node: Any) -> None:
        if type(node.comma) is cst.Comma:
            self.cursor.take(",")

    def _as(self, node: cst.MatchAs, found: Pattern) -> bool:
        sure = True
        if node.pattern is not None:
            sure = self._pattern(node.pattern, found)
            self.cursor.take("as")
        if node.name is not None:
            self.cursor.take(node.name.value)
            if node.name.value != "_":
                found.names.append(node.name.value)
        else:
            self.cursor.take("_")
        return sure

    def _sequence(self, nodes: Iterable[Any], found: Pattern) -> None:
        for node in nodes:
            if isinstance(node, cst.MatchStar):
                self.cursor.take("*")
                self.cursor.take("_" if node.name is None else node.name.value)
                if node.name is not None and node.name.value != "_":
                    found.names.append(node.name.value)
            else:
                self._pattern(node.value, found)
            self._comma(node)

    def _mapping(self, node: cst.MatchMapping, found: Pattern) -> None:
        cursor = self.cursor
        cursor.take("{")
        for element in node.elements:
            self.expr(element.key)
            cursor.take(":")
            self._pattern(element.pattern, found)
            self._comma(element)
        if node.rest is not None:
            cursor.take("**")
            cursor.take(node.rest.value)
            found.names.append(node.rest.value)
            if node.trailing_comma is not None:
                cursor.take(",")
        cursor.take("}")
