"""What Python asks of an object behind its syntax: `float(x)` is `x.__float__()`, `a + b` is `a.__add__(b)`.

Only methods that the project wrote are run: a package's are many, and say little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp import attributes
from graphlint.interp.objects import ClassValue, FunctionValue
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Tensor, Value, join, options

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

TEXT = ("__str__", "__repr__")
FORMAT = ("__format__", *TEXT)
NUMBER = ("__float__", "__index__")
#: What a builtin function of one object asks it for, in this order.
BUILTINS = {
    "float": NUMBER, "int": ("__int__", "__index__", "__trunc__"), "complex": ("__complex__", *NUMBER), "str": TEXT,
    "repr": ("__repr__",), "ascii": ("__repr__",), "bytes": ("__bytes__",), "abs": ("__abs__",), "hash": ("__hash__",),
    "round": ("__round__",), "reversed": ("__reversed__",),
}  # fmt: skip
#: And what functions of `math` and `operator` ask for.
MATH = {
    "math.floor": ("__floor__", *NUMBER), "math.ceil": ("__ceil__", *NUMBER), "math.trunc": ("__trunc__",),
    "operator.index": ("__index__",), "math.gcd": ("__index__",), "math.lcm": ("__index__",),
}  # fmt: skip
_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNARY = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}


def own_method(m: Machine, value: Value, names: tuple[str, ...]) -> tuple[str, Value] | None:
    """The first of the methods `names` that the object's class has, bound, if the project wrote it."""
    if not isinstance(value, Instance) or not isinstance(value.cls, ClassValue):
        return None
    for name in names:
        found = m.names.class_attribute(m, value.cls, name)
        if found is not None:
            method, owner = found
            if not isinstance(method, FunctionValue) or not method.scope.module.in_project:
                return None
            return name, attributes.bind_to(m, method, value, owner, Span(0, 0, 0, 0))
    return None


def asked(m: Machine, value: Value, names: tuple[str, ...], args: tuple[Value, ...], span: Span) -> Value | None:
    """What the object says when it is asked; None if it has none of these methods, or may be a tensor, too."""
    methods = [found for o in options(value) if (found := own_method(m, o, names)) is not None]
    if not methods:
        return None
    if len(methods) == 1:
        name, method = methods[0]
        answer = m.call(method, args, {}, span, name)
    else:
        with m.condition():
            answer = join(*(m.call(method, args, {}, span, name) for name, method in methods))
    unsaid = isinstance(answer, External) and answer.name == "builtins.NotImplemented"
    return None if unsaid or any(isinstance(o, Tensor) for o in options(value)) else answer


def tells_fields(value: Instance) -> bool:
    """True if its text is the one that `@dataclass` writes, of all fields, for a class of the project."""
    cls = value.cls
    if not isinstance(cls, ClassValue) or not cls.generates_init or not cls.module.in_project:
        return False
    given = [a for d in cls.node.decorators if isinstance(d, tree.Call) for a in d.args]
    hidden = any(a.keyword == "repr" for a in given)
    bodies = [s.value for c in cls.mro for s in c.node.body if isinstance(s, tree.AnnAssign)]
    return not hidden and not any(isinstance(b, tree.Call) and any(a.keyword == "repr" for a in b.args) for b in bodies)


def builtin(m: Machine, name: str, args: tuple[Value, ...], span: Span) -> Value | None:
    """`float(x)` and the like; None if the object has nothing to say to it."""
    if not args:
        return None
    if name == "format":
        answer = asked(m, args[0], FORMAT[:1], args[1:] or (Const(""),), span)
        return answer if answer is not None else asked(m, args[0], TEXT, (), span)
    methods = BUILTINS.get(name)
    return asked(m, args[0], methods, args[1:], span) if methods is not None else None


def binary(m: Machine, op: str, left: Value, right: Value, span: Span) -> Value | None:
    """`left op right` where one of them is an object that has a method for it."""
    if op not in _OPERATORS:
        return None
    if (answer := asked(m, left, (f"__{_OPERATORS[op]}__",), (right,), span)) is not None:
        return answer
    return asked(m, right, (f"__r{_OPERATORS[op]}__",), (left,), span)


def in_place(m: Machine, op: str, left: Value, right: Value, span: Span) -> Value | None:
    """`left op= right` where the object has a method for that."""
    return asked(m, left, (f"__i{_OPERATORS[op]}__",), (right,), span) if op in _OPERATORS else None


def unary(m: Machine, op: str, value: Value, span: Span) -> Value | None:
    return asked(m, value, (_UNARY[op],), (), span) if op in _UNARY else None


def compare(m: Machine, op: str, left: Value, right: Value, span: Span) -> Value | None:
    """`left op right` where one of them is an object that has a method for it."""
    if op not in _COMPARISONS:
        return None
    if (answer := asked(m, left, (f"__{_COMPARISONS[op]}__",), (right,), span)) is not None:
        return answer
    return asked(m, right, (f"__{_COMPARISONS[_MIRRORED[op]]}__",), (left,), span)
