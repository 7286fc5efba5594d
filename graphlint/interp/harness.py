"""One root, run on a machine of its own, and the harness after it: how users would call what captured."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from graphlint import queries
from graphlint.fact import CaptureBegin, Replay
from graphlint.interp import again, attributes, capture, making
from graphlint.interp.escape import escaping
from graphlint.interp.machine import Machine
from graphlint.interp.objects import BoundMethod, BudgetSpent, ClassValue, FunctionValue
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.region import Region
from graphlint.source import Span
from graphlint.value import Const, Instance, Unknown, Value, join, options

#: A root that has not captured anything after so many ticks is given up; one that has may go on.
EXPLORE_BUDGET = 10_000
MAX_METHODS = 30
_NOWHERE = Span(1, 1, 1, 1)


class Run:
    """One root, and the harness after it."""

    def __init__(
        self, machine: Machine, module: Module, site_classes: dict[tuple[Path, str], list[str]], harness: int
    ) -> None:
        self.m, self.module, self.site_classes, self.harness = machine, module, site_classes, harness
        self.ceiling = 0
        self.returned: Value | None = None
        self.receivers: list[Value] = []

    def start(self, function: str, configured: bool) -> None:
        m = self.m
        scope = m.names.module_scope(self.module)
        if not function:
            scope.variables["__name__"] = Const("__main__")
            m.complete = True
            m.run_in(scope, self.module.body())
            self._tell_outlived()
            m.complete, m.way = False, None
            self._uncalled()
            capture.never_entered(m)
            return
        callee = self._resolve(function)
        if callee is None:
            return
        try:
            if configured:
                self._as_region(callee)
            else:
                self.returned = m.run_frame(scope, lambda: m.call(callee, (), {"*": Unknown()}, _NOWHERE, function))
                self._tell_outlived()
        except BudgetSpent:
            m.budget = m.ticks
        m.way = None
        m.budget = m.with_capture = m.ticks + self.harness
        self.ceiling = m.ticks + 2 * self.harness
        m.reset_control()
        self._uncalled()
        if again.waits(m):
            self._call(callee, function)
        self._harness(function)

    def _resolve(self, function: str) -> Value | None:
        """The callable that a qualified name stands for; a method is bound to an object of its class."""
        m = self.m
        parts = function.split(".")
        scope = m.names.module_scope(self.module)
        with m.quiet():
            value = m.names.global_(m, self.module, parts[0])
        receiver: Value | None = None
        for part in parts[1:]:
            value = next((o for o in options(value) if isinstance(o, ClassValue)), None) if value is not None else None
            if not isinstance(value, ClassValue):
                return None
            m.run_frame(scope, partial(m.names.load, m, value))
            found = m.names.class_attribute(m, value, part)
            if found is None:
                return None
            self.receivers.append(value)
            receiver, value = value, found[0]
        if isinstance(value, FunctionValue) and isinstance(receiver, ClassValue) and value.binding != "staticmethod":
            if value.binding == "classmethod":
                return BoundMethod(receiver=receiver, function=value)
            concrete = m.run_frame(scope, lambda: m.names.subclasses(m, receiver)) or [receiver]
            bound: list[Value] = []
            for cls in concrete:
                made = m.run_frame(scope, partial(making.abstract_instance, m, cls))
                if isinstance(made, Instance):
                    m.run_frame(scope, partial(making.build, m, made, EXPLORE_BUDGET // 2))
                found = m.names.class_attribute(m, cls, parts[-1])
                if found is not None and isinstance(found[0], FunctionValue):
                    bound.append(BoundMethod(receiver=made, function=found[0]))
            return join(*bound) if bound else None
        return value

    def _as_region(self, callee: Value) -> None:
        """A configured root: its body is captured code, its parameters are unknown."""
        m = self.m
        inner = callee.function if isinstance(callee, BoundMethod) else callee
        if not isinstance(inner, FunctionValue) or not isinstance(inner.node, tree.Function):
            return
        m.path = str(inner.scope.module.path)
        region = Region("root", m.location(inner.node.span), inner.name, m.settings, warm=True)
        m.open_region(region, inner.node.span)
        try:
            m.run_frame(
                m.names.module_scope(self.module), lambda: m.call(callee, (), {"*": Unknown()}, _NOWHERE, inner.name)
            )
        finally:
            while m.region_stack:
                m.close_region(inner.node.span)

    def _uncalled(self) -> None:
        """Compiled functions and wrappers that the root made and never called: they capture what they hold too."""
        m = self.m
        scope = m.names.module_scope(self.module)
        for instance in list(m.instances):
            kind = instance.attrs.get("$kind")
            wrapped = isinstance(kind, Const) and kind.value == "cudagraphs" and "$function" in instance.attrs
            if (
                wrapped
                or instance.external in m.names.capture_wrappers
                or instance.external.endswith("CudaGraphModule")
            ) and (instance.id not in m.graph_regions):
                m.path = instance.made.path if instance.made else m.path
                span = instance.made.span if instance.made else _NOWHERE
                m.run_frame(scope, partial(m.call, instance, (), {"*": Unknown()}, span, "compiled"))

    def _alive(self) -> set[int]:
        """The ids of the objects that somebody can still use."""
        m = self.m
        return escaping(self.returned, [*m.abstract.values(), *self.receivers], m.names.scopes.values(), m.life)

    def _tell_outlived(self) -> None:
        """Marks the captures whose graph nobody can replay any more."""
        alive = self._alive() if self.m.regions else set()
        for region in self.m.regions:
            mine = {g.id for g in queries.graphs(region.graph)}
            region.outlived = not mine or bool(mine & alive)

    def _harness(self, function: str) -> None:
        """Runs what the users of a capturing object would call: the capture first (a counter may put it off for a few
        calls), then everything else, twice."""
        m = self.m
        alive = self._alive()
        for instance in list(m.made):
            if instance.id not in alive:
                continue
            first, rest = self._methods(instance)
            if not first:
                continue
            known, given = len(m.regions), self._given(instance, first)
            first, rest = [f for f in first if f[0] not in given], [f for f in rest if f[0] not in given]
            m.budget = m.with_capture = min(m.ticks + self.harness, self.ceiling)
            for round_ in (0, 1, 1):
                if len(m.regions) == known and not (round_ == 0 and self._used(instance, first)):
                    for name, method in first:
                        self._use(instance, name, method, round_)
            for round_ in (0, 1):
                for name, method in [*first, *rest][:MAX_METHODS]:
                    if round_ or (instance.id, id(method.node)) not in m.used:
                        self._use(instance, name, method, round_)
            if m.ticks >= self.ceiling:
                return

    def _given(self, instance: Instance, capturing: list[tuple[str, FunctionValue]]) -> set[str]:
        """The methods that only capture and that the program calls itself: what it gives them tells more than a call
        with arguments that are not known."""
        captured: set[str] = set()
        replayed: set[str] = set()
        for fact in self.m.life:
            if isinstance(fact, (CaptureBegin, Replay)) and (not fact.maybe or isinstance(fact, Replay)):
                (captured if isinstance(fact, CaptureBegin) else replayed).update(f.function for f in fact.chain)
        return {
            name
            for name, method in capturing
            if (instance.id, id(method.node)) in self.m.used and method.name in captured - replayed
        }

    def _used(self, instance: Instance, methods: list[tuple[str, FunctionValue]]) -> bool:
        return any((instance.id, id(method.node)) in self.m.used for _, method in methods)

    def _use(self, instance: Instance, name: str, method: FunctionValue, round_: int) -> None:
        """Calls a method as somebody would, with unknown arguments."""
        bound = attributes.bind_to(
            self.m,
            method,
            instance,
            method.owner or instance.cls,  # type: ignore[arg-type]
            _NOWHERE,
        )
        self._call(bound, name, round_)

    def _call(self, callee: Value, name: str, round_: int = 1) -> None:
        m = self.m
        m.loops = ((-1, round_),)
        limit, m.budget = m.budget, min(m.budget, m.ticks + self.harness // 3)
        try:
            m.run_frame(m.names.module_scope(self.module), lambda: m.call(callee, (), {"*": Unknown()}, _NOWHERE, name))
        except BudgetSpent:
            m.reset_control()
        m.budget = limit
        m.loops = ()

    def _methods(self, instance: Instance) -> tuple[list[tuple[str, FunctionValue]], list[tuple[str, FunctionValue]]]:
        """The methods of an object whose class captures: the capturing ones, and the others; empty if none captures."""
        cls = instance.cls
        if not isinstance(cls, ClassValue):
            return [], []
        capturing: set[str] = set()
        for ancestor in cls.mro or [cls]:
            capturing |= set(self.site_classes.get((ancestor.module.path, ancestor.node.qualname), ()))
        if not capturing:
            return [], []
        first: list[tuple[str, FunctionValue]] = []
        rest: list[tuple[str, FunctionValue]] = []
        for ancestor in cls.mro or [cls]:
            for name in list(ancestor.attrs):
                found = self.m.names.class_attribute(self.m, cls, name)
                value = found[0] if found is not None else None
                if isinstance(value, FunctionValue) and value.binding == "function" and name != "__init__":
                    if any(n == name for n, _ in first + rest):
                        continue
                    (first if name in capturing else rest).append((name, value))
        return first, rest
