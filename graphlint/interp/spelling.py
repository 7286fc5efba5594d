"""How expressions are spelled in messages: short, on one line."""

from __future__ import annotations

from graphlint.lower import tree


def spelled(node: tree.Expr, limit: int = 60) -> str:
    """How the source spells an expression, short enough for a message."""
    text = _spell(node)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _spell(node: tree.Expr) -> str:
    match node:
        case tree.Name(id=name):
            return name
        case tree.Attribute(value=value, name=name):
            return f"{_spell(value)}.{name}"
        case tree.Call(func=func, args=args):
            return f"{_spell(func)}({'...' if args else ''})"
        case tree.Subscript(value=value, index=index):
            return f"{_spell(value)}[{_spell(index)}]"
        case tree.Constant(value=value):
            return repr(value) if len(repr(value)) < 20 else "..."
        case tree.Slice(lower=lower, upper=upper):
            return f"{_spell(lower) if lower else ''}:{_spell(upper) if upper else ''}"
        case tree.TupleExpr(items=items):
            return ", ".join(_spell(i) for i in items[:4])
        case tree.BinOp(op=op, left=left, right=right):
            return f"{_spell(left)} {op} {_spell(right)}"
        case tree.UnaryOp(op=op, operand=operand):
            return f"{op}{' ' if op == 'not' else ''}{_spell(operand)}"
        case tree.BoolOp(op=op, values=values):
            return f" {op} ".join(_spell(v) for v in values)
        case tree.Compare(left=left, ops=ops, comparators=comparators):
            return _spell(left) + "".join(f" {o} {_spell(c)}" for o, c in zip(ops, comparators, strict=False))
        case tree.FString():
            return 'f"..."'
        case _:
            return "..."
