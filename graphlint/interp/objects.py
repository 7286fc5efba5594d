"""Values that only the interpreter makes: functions, classes and modules read from source, and what binds them.

Glossary:
    function   a `def` or lambda with the scope that it closes over.
    class      a `class` statement; its `attrs` are live (class attributes can be rebound).
    method     a function bound to a receiver, or a name of an external object's method.
    scope      the variables of one call (or of a module), with the scope around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.value import External, Value, ids


@dataclass(eq=False, slots=True)
class Scope:
    """Variables of one activation. `variables` is journalled by the machine, so branches can be undone and joined."""

    module: Module
    variables: dict[str, Value] = field(default_factory=dict)
    parent: Scope | None = None
    is_module: bool = False
    class_scope: bool = False
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    id: int = field(default_factory=lambda: next(ids))


@dataclass(eq=False, slots=True)
class FunctionValue(Value):
    node: tree.Function | tree.Lambda = field(kw_only=True)
    scope: Scope = field(kw_only=True)
    owner: ClassValue | None = None
    binding: str = "function"
    """function, staticmethod, classmethod or property."""
    wraps: tuple[Value, ...] = ()
    """External context managers used as decorators: `@torch.no_grad()`, `@torch.autocast(...)`."""
    context_manager: bool = False
    opaque: bool = False
    """A kernel language's body (triton, cute, warp, numba), or code that is taken out of the capture: not entered."""
    memo: bool = False
    undecorated: bool = False
    """Decorators are applied when a method is first asked for: most never are."""

    @property
    def name(self) -> str:
        return self.node.qualname if isinstance(self.node, tree.Function) else "<lambda>"


@dataclass(eq=False, slots=True)
class ClassValue(Value):
    node: tree.Class = field(kw_only=True)
    module: Module = field(kw_only=True)
    scope: Scope = field(kw_only=True)
    bases: list[Value] = field(default_factory=list)
    attrs: dict[str, Value] = field(default_factory=dict)
    mro: list[ClassValue] = field(default_factory=list)
    external_bases: list[str] = field(default_factory=list)
    dataclass: bool = False
    """Whether it, or a class that it derives from, is decorated as a dataclass."""
    generates_init: bool = False
    """Whether it is decorated itself."""
    loaded: bool = False
    id: int = field(default_factory=lambda: next(ids))

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(eq=False, slots=True)
class ModuleValue(Value):
    module: Module = field(kw_only=True)


@dataclass(eq=False, slots=True)
class BoundMethod(Value):
    receiver: Value = field(kw_only=True)
    function: FunctionValue = field(kw_only=True)


@dataclass(eq=False, slots=True)
class ExternalMethod(Value):
    """A method that is not read: of a tensor, a container, a string, a torch object."""

    receiver: Value = field(kw_only=True)
    name: str = ""


@dataclass(eq=False, slots=True)
class Partial(Value):
    function: Value = field(kw_only=True)
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class SuperValue(Value):
    receiver: Value = field(kw_only=True)
    after: ClassValue = field(kw_only=True)


CALLABLE = (FunctionValue, ClassValue, BoundMethod, ExternalMethod, Partial, External)


class Raised(Exception):
    """The linted code raises on every path from here: a `raise` statement, reached for sure."""


class BudgetSpent(Exception):
    """The work allowed for one root is used up."""
