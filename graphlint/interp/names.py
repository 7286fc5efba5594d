"""What a name stands for: globals of modules, imports across files, classes and their bases, annotations.

Modules are never run as a whole unless they are the root: a global is evaluated when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.config import Config
from graphlint.interp import descriptors, making, registries
from graphlint.interp.objects import ClassValue, FunctionValue, ModuleValue, Scope
from graphlint.knowledge.names import CONSTANTS, canonical
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.program.program import Program
from graphlint.source import SourceError
from graphlint.value import Const, Device, External, Host, Unknown, Value, join

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
_HOST_TYPES = {"int": "number", "float": "number", "bool": "bool", "str": "string", "bytes": "string"}


def _last_name(node: tree.Expr) -> str:
    if isinstance(node, tree.Subscript):
        node = node.value
    return node.id if isinstance(node, tree.Name) else node.name if isinstance(node, tree.Attribute) else ""


def _named(function: FunctionValue, names: frozenset[str]) -> bool:
    full = f"{function.scope.module.name}.{function.name}"
    return any(full == n or full.endswith(f".{n}") for n in names)


class Names:
    """Name resolution over one program, for one machine. Globals are live: code that runs may rebind them."""

    def __init__(self, program: Program, config: Config | None = None, default_device: Device = "cpu") -> None:
        self.program = program
        self.default_device: Device = default_device
        self.scopes: dict[str, Scope] = {}
        self.evaluating: set[tuple[str, str]] = set()
        config = config or Config()
        self.capture_managers = frozenset(config.capture_context_managers)
        self.capture_wrappers = {w.name: (w.copies_inputs, w.clones_outputs) for w in config.capture_wrappers}
        self.guards = frozenset(config.capturing_guards)
        self.negative_guards = frozenset(config.not_capturing_guards)
        self.eager_decorators = frozenset(config.eager_decorators)

    def is_guard(self, function: FunctionValue) -> bool:
        """A function that the user says is true while capturing."""
        return bool(self.guards) and _named(function, self.guards)

    def is_negative_guard(self, function: FunctionValue) -> bool:
        """A function that the user says is false while capturing."""
        return bool(self.negative_guards) and _named(function, self.negative_guards)

    def is_manager(self, function: FunctionValue) -> bool:
        """A function that the user says returns a capturing context manager."""
        return bool(self.capture_managers) and _named(function, self.capture_managers)

    def module_scope(self, module: Module) -> Scope:
        key = str(module.path)
        if key not in self.scopes:
            self.scopes[key] = Scope(module, is_module=True)
        return self.scopes[key]

    # ----------------------------------------------------------------------------------------- lookup

    def lookup(self, m: Machine, scope: Scope, name: str) -> Value | None:
        """The value of `name` as seen from `scope`; None if nothing binds it."""
        current: Scope | None = scope
        if name in scope.globals:
            current = self.module_scope(scope.module)
        first = True
        while current is not None:
            if current.is_module:
                return self.global_(m, current.module, name)
            if (first or not current.class_scope) and name in current.variables:
                return current.variables[name]
            first = False
            current = current.parent
        return self.global_(m, scope.module, name)

    def global_(self, m: Machine, module: Module, name: str) -> Value | None:
        """A module's global, evaluated on first use; a builtin if the module does not bind it."""
        scope = self.module_scope(module)
        if name in scope.variables:
            return scope.variables[name]
        key = (str(module.path), name)
        if key in self.evaluating:
            return Unknown(name)
        self.evaluating.add(key)
        try:
            value = self._evaluate_global(m, module, scope, name)
        finally:
            self.evaluating.discard(key)
        if value is not None:
            scope.variables[name] = value
            registries.fill(m, module, name, value)
        return value

    def _evaluate_global(self, m: Machine, module: Module, scope: Scope, name: str) -> Value | None:
        try:
            bindings = module.bindings(name)
        except SourceError:
            return Unknown(name)
        values: list[Value] = []
        for statement in bindings:
            # `a, b = None, None` is run for one of its names: another that is bound elsewhere too is not settled by it.
            others = [n for n in _assigned(statement) if n != name and n not in scope.variables]
            with m.quiet():
                value = self.bind_statement(m, statement, scope, name)
            for other in others:
                if len(module.bindings(other)) > 1:
                    scope.variables.pop(other, None)
            if value is not None:
                values.append(value)
        if values:
            plain = [v for v in values if not (isinstance(v, Const) and v.value is None)]
            if len(plain) == len(values) and isinstance(values[-1], (Const, Host)):
                return values[-1]
            return join(*(plain or values))
        for star in module.star_imports():
            target = self.program.find(self.program.resolve_relative(module, star.module, star.level), module)
            if target is not None and target is not module:
                found = self.global_(m, target, name) if name in target.names() else self._star(m, target, name, 3)
                if found is not None:
                    return found
        if name in ("__name__", "__file__"):
            return Const(module.name) if name == "__name__" else Host(kind="string")
        return External(f"builtins.{name}") if name in _BUILTINS else None

    def _star(self, m: Machine, module: Module, name: str, depth: int) -> Value | None:
        if depth == 0:
            return None
        for star in module.star_imports():
            target = self.program.find(self.program.resolve_relative(module, star.module, star.level), module)
            if target is not None and name in target.names():
                return self.global_(m, target, name)
            if target is not None and (found := self._star(m, target, name, depth - 1)) is not None:
                return found
        return None

    def bind_statement(self, m: Machine, statement: tree.Stmt, scope: Scope, name: str) -> Value | None:
        """Runs one top-level statement for the sake of `name`."""
        if isinstance(statement, tree.Import):
            for dotted, alias in statement.names:
                if (alias or dotted.split(".")[0]) == name:
                    return self.imported_module(dotted if alias else dotted.split(".")[0], scope.module)
            return None
        if isinstance(statement, tree.ImportFrom):
            for original, alias in statement.names:
                if (alias or original) == name:
                    return self.imported_name(m, statement, original, scope.module)
            return None
        m.run_in(scope, (statement,))
        return scope.variables.get(name)

    # ---------------------------------------------------------------------------------------- imports

    def imported_module(self, dotted: str, importer: Module) -> Value:
        module = self.program.find(dotted, importer)
        return ModuleValue(module=module) if module is not None else External(canonical(dotted))

    def imported_name(self, m: Machine, statement: tree.ImportFrom, name: str, importer: Module) -> Value:
        base = self.program.resolve_relative(importer, statement.module, statement.level)
        module = self.program.find(base, importer)
        if module is not None and module is not importer:
            found = self.module_attribute(m, module, name)
            if found is not None:
                return found
            return Unknown(name)
        submodule = self.program.find(f"{base}.{name}", importer)
        if submodule is not None:
            return ModuleValue(module=submodule)
        full = canonical(f"{base}.{name}")
        return Const(CONSTANTS[full]) if full in CONSTANTS else External(full)

    def module_attribute(self, m: Machine, module: Module, name: str) -> Value | None:
        """`module.name`: a global of it, what it re-exports, or a submodule."""
        scope = self.module_scope(module)
        if name in scope.variables:
            return scope.variables[name]
        if name in module.names():
            value = self.global_(m, module, name)
            if value is not None:
                return value
        submodule = self.program.find(f"{module.name}.{name}", module)
        if submodule is not None:
            return ModuleValue(module=submodule)
        target = self.program.import_target(module, name)
        if isinstance(target, tuple):
            if target[0] is not module:
                return self.global_(m, target[0], target[1])
        elif isinstance(target, str):
            return External(canonical(target))
        value = self._star(m, module, name, 3)
        return value

    # ---------------------------------------------------------------------------------------- classes

    def load(self, m: Machine, cls: ClassValue) -> ClassValue:
        """Resolves bases and runs the class body on first use."""
        if cls.loaded:
            return cls
        cls.loaded = True
        with m.quiet():
            m.path = str(cls.module.path)
            for base in cls.node.bases:
                value = m.eval_in(cls.scope, base)
                cls.bases.append(value)
            scope = Scope(cls.module, cls.attrs, cls.scope, class_scope=True)
            m.run_in(scope, cls.node.body)
        for value in cls.attrs.values():
            if isinstance(value, FunctionValue) and value.owner is None:
                value.owner = cls
        self._linearize(m, cls)
        with m.quiet():
            descriptors.named(m, cls)
        return cls

    def _linearize(self, m: Machine, cls: ClassValue) -> None:
        # Depth first, duplicates kept at their last place: the C3 order for every hierarchy that is not contrived.
        order: list[ClassValue] = [cls]
        for base in cls.bases:
            if isinstance(base, ClassValue) and base is not cls:
                self.load(m, base)
                for ancestor in base.mro or [base]:
                    if ancestor in order:
                        order.remove(ancestor)
                    order.append(ancestor)
                cls.external_bases += [n for n in base.external_bases if n not in cls.external_bases]
                cls.dataclass = cls.dataclass or base.dataclass
            elif isinstance(base, External):
                cls.external_bases.append(base.name)
        cls.mro = order

    def class_attribute(self, m: Machine, cls: ClassValue, name: str) -> tuple[Value, ClassValue] | None:
        """The first class in the method resolution order that has `name`."""
        self.load(m, cls)
        for ancestor in cls.mro:
            self.load(m, ancestor)
            if name in ancestor.attrs:
                value = ancestor.attrs[name]
                if isinstance(value, FunctionValue) and value.undecorated:
                    value = ancestor.attrs[name] = m.decorate(value)
                return value, ancestor
        return None

    def subclasses(self, m: Machine, cls: ClassValue, limit: int = 3) -> list[ClassValue]:
        """The project's classes that derive from `cls`, itself left out; empty if there are more than `limit`."""
        found: dict[str, ClassValue] = {}
        queue = [cls]
        while queue:
            base = queue.pop()
            files = self.program.subclassing(base.name, limit + 1)
            if len(files) > limit:
                return []
            for path in files:
                module = self.program.module(path)
                for definition in module.definitions() if module is not None else ():
                    if not isinstance(definition, tree.Class) or "." in definition.qualname:
                        continue
                    if not any(_last_name(b) == base.name for b in definition.bases):
                        continue
                    assert module is not None
                    value = self.global_(m, module, definition.name)
                    if isinstance(value, ClassValue) and value is not cls and value.name not in found:
                        self.load(m, value)
                        if base in value.mro:
                            found[value.name] = value
                            queue.append(value)
            if len(found) > limit:
                return []
        return list(found.values())

    def is_module_class(self, m: Machine, cls: ClassValue) -> bool:
        """True for a subclass of torch.nn.Module."""
        self.load(m, cls)
        return any(b.startswith(("torch.nn.", "torch.jit.ScriptModule", "lightning", "pytorch_lightning"))
                   or b.endswith(("Module", "PreTrainedModel")) for b in cls.external_bases)  # fmt: skip

    # ------------------------------------------------------------------------------------ annotations

    def annotated(self, m: Machine, annotation: tree.Expr | None, scope: Scope, depth: int = 0) -> Value | None:
        """A value of the annotated type: tensor, abstract instance, host scalar, container; None if unknown."""
        if annotation is None or depth > 4:
            return None
        if isinstance(annotation, tree.Constant):
            if isinstance(annotation.value, str):
                parsed = m.parse_annotation(annotation.value)
                return self.annotated(m, parsed, scope, depth + 1) if parsed is not None else None
            return None
        if isinstance(annotation, tree.BinOp) and annotation.op == "|":
            return self._either(m, (annotation.left, annotation.right), scope, depth)
        if isinstance(annotation, tree.Subscript):
            return self._generic(m, annotation, scope, depth)
        if not isinstance(annotation, (tree.Name, tree.Attribute)):
            return None
        with m.quiet():
            value = m.eval_in(scope, annotation)
        made = self.of_type(m, value)
        if made is None and isinstance(annotation, tree.Name) and not isinstance(value, ClassValue):
            alias = self._alias(scope.module, annotation.id)
            return self.annotated(m, alias[0], self.module_scope(alias[1]), depth + 1) if alias is not None else None
        return made

    def _alias(self, module: Module, name: str, depth: int = 3) -> tuple[tree.Expr, Module] | None:
        """What a name for a type stands for, `Bounds = tuple[tuple[int, int], ...]`, and the module that says so."""
        try:
            bound = module.bindings(name)
        except SourceError:
            return None
        if len(bound) != 1 or depth == 0:
            return None
        if isinstance(bound[0], tree.ImportFrom):
            target = self.program.find(self.program.resolve_relative(module, bound[0].module, bound[0].level), module)
            original = next((old for old, new in bound[0].names if (new or old) == name), name)
            return self._alias(target, original, depth - 1) if target is not None else None
        value = getattr(bound[0], "value", None)
        return (value, module) if isinstance(value, (tree.Subscript, tree.BinOp)) else None

    def of_type(self, m: Machine, value: Value) -> Value | None:
        """An instance of the type that `value` is."""
        if isinstance(value, ClassValue):
            return making.abstract_instance(m, value)
        if isinstance(value, External):
            short = value.name.removeprefix("builtins.")
            if short in _HOST_TYPES:
                return Host(source="param", kind=_HOST_TYPES[short])
            if value.name in ("torch.Tensor", "torch.nn.Parameter", "torch.FloatTensor", "torch.LongTensor"):
                return m.tensor(kind="unknown")
            if short in ("list", "tuple", "dict", "set") or not value.name.startswith("torch."):
                return None
            if value.name == "torch.device":
                return Host(source="param", kind="device")
            last = value.name.rpartition(".")[2]
            if last[:1].isupper():
                instance = m.instance_of(value, None)
                instance.complete = False
                return instance
        return None

    def _either(self, m: Machine, parts: tuple[tree.Expr, ...], scope: Scope, depth: int) -> Value | None:
        values: list[Value] = []
        for part in parts:
            if isinstance(part, tree.Constant) and part.value is None:
                continue
            value = self.annotated(m, part, scope, depth + 1)
            if value is None:
                return None
            values.append(value)
        return join(*values) if values else None

    def _generic(self, m: Machine, annotation: tree.Subscript, scope: Scope, depth: int) -> Value | None:
        with m.quiet():
            base = m.eval_in(scope, annotation.value)
        items = annotation.index.items if isinstance(annotation.index, tree.TupleExpr) else (annotation.index,)
        if isinstance(base, ClassValue):
            return making.abstract_instance(m, base)
        name = base.name.rpartition(".")[2] if isinstance(base, External) else ""
        if name in ("Optional", "Union"):
            return self._either(m, items, scope, depth)
        if name in ("Annotated", "Final", "ClassVar"):
            return self.annotated(m, items[0], scope, depth + 1)
        if name in ("list", "List", "Sequence", "Iterable", "Iterator", "Collection", "set", "Set", "Deque", "deque"):
            return m.sequence("list", [], self.annotated(m, items[0], scope, depth + 1) or Unknown())
        if name in ("tuple", "Tuple"):
            if len(items) == 2 and isinstance(items[1], tree.Constant) and items[1].value is ...:
                return m.sequence("tuple", [], self.annotated(m, items[0], scope, depth + 1) or Unknown())
            return m.sequence("tuple", [self.annotated(m, i, scope, depth + 1) or Unknown() for i in items])
        if name in ("dict", "Dict", "Mapping", "DefaultDict", "defaultdict", "OrderedDict") and len(items) == 2:
            return m.mapping(rest=self.annotated(m, items[1], scope, depth + 1) or Unknown())
        if name == "type" or name == "Type":
            with m.quiet():
                return m.eval_in(scope, items[0])
        return None


def _assigned(statement: tree.Stmt) -> list[str]:
    """The names that an assignment to a tuple or list of names binds; empty for any other statement."""
    targets = statement.targets if isinstance(statement, tree.Assign) else ()
    found: list[str] = []
    for target in targets:
        if isinstance(target, (tree.TupleExpr, tree.ListExpr)):
            found += [item.id for item in target.items if isinstance(item, tree.Name)]
    return found
