"""The small tree that the rest works on: what LibCST says, without whitespace, with spans resolved.

Every node has a `span`. Expressions and statements are plain slotted dataclasses; nothing here knows torch.
Heads and bodies of functions and classes are lowered on first use, so only code that a region reaches is ever parsed
by LibCST.
"""

from __future__ import annotations

from graphlint.lower.tree.definitions import Class, ClassHead, Function, FunctionHead
from graphlint.lower.tree.expressions import (
    Arg,
    Attribute,
    Await,
    BinOp,
    BoolOp,
    Call,
    Clause,
    Compare,
    Comprehension,
    Constant,
    DictExpr,
    Expr,
    FString,
    IfExp,
    Lambda,
    ListExpr,
    Name,
    NamedExpr,
    Node,
    Param,
    SetExpr,
    Slice,
    Starred,
    Subscript,
    TupleExpr,
    UnaryOp,
    Yield,
)
from graphlint.lower.tree.statements import (
    AnnAssign,
    Assert,
    Assign,
    AugAssign,
    Break,
    Case,
    Continue,
    Delete,
    ExprStmt,
    For,
    Global,
    Handler,
    If,
    Import,
    ImportFrom,
    Match,
    Nonlocal,
    Pass,
    Raise,
    Return,
    Stmt,
    Try,
    While,
    With,
    WithItem,
)

__all__ = [
    "AnnAssign", "Arg", "Assert", "Assign", "Attribute", "AugAssign", "Await", "BinOp", "BoolOp", "Break", "Call",
    "Case", "Class", "ClassHead", "Clause", "Compare", "Comprehension", "Constant", "Continue", "Delete",
    "DictExpr", "Expr", "ExprStmt", "FString", "For", "Function", "FunctionHead", "Global", "Handler", "If",
    "IfExp", "Import", "ImportFrom", "Lambda", "ListExpr", "Match", "Name", "NamedExpr", "Node", "Nonlocal",
    "Param", "Pass", "Raise", "Return", "SetExpr", "Slice", "Starred", "Stmt", "Subscript", "Try", "TupleExpr",
    "UnaryOp", "While", "With", "WithItem", "Yield",
]  # fmt: skip
