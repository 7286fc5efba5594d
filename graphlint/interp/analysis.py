"""From a program to its Regions: roots are run one by one, each with a fresh machine and a budget of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from graphlint import queries
from graphlint.config import Config
from graphlint.fact import CaptureBegin, Replay
from graphlint.interp import again, attributes, capture, making
from graphlint.interp.effort import Way
from graphlint.interp.escape import escaping
from graphlint.interp.machine import Machine
from graphlint.interp.names import Names
from graphlint.interp.objects import BoundMethod, BudgetSpent, ClassValue, FunctionValue
from graphlint.interp.roots import MAX_CALLERS, Climber, Related, is_script, is_test
from graphlint.interp.sites import Root, Site, sites
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.program.program import Program
from graphlint.region import Region, Settings
from graphlint.source import SourceError, Span
from graphlint.value import Const, Device, Instance, Unknown, Value, join

#: A root that has not captured anything after so many ticks is given up; one that has may go on.
EXPLORE_BUDGET = 10_000
ROOT_BUDGET = 40_000
#: Beyond so many ticks in all, roots are kept short.
PROJECT_BUDGET = 150_000
HARNESS_BUDGET = 24_000
MAX_METHODS = 30
#: After so many roots from which a site was not captured, functions that lead to it by name are not tried.
MAX_VAIN = 2
_NOWHERE = Span(1, 1, 1, 1)
#: Stands between an analysis and the run of a root: it may answer with the regions of an earlier, equal run.
Memo: TypeAlias = "Callable[[Root, Callable[[], list[Region]]], list[Region]]"


@dataclass(slots=True)
class Analysis:
    """Regions of every root, in the order they were found; errors are one line for each file."""

    regions: list[Region] = field(default_factory=list)
    errors: dict[Path, str] = field(default_factory=dict)


def analyse(
    program: Program,
    config: Config,
    settings: Settings,
    targets: Collection[str] | None = None,
    memo: Memo | None = None,
) -> Analysis:
    """Finds every capture of the project's files and what it runs.

    targets: absolute paths of the files that are asked about; captures that cannot concern them are left out.
    memo: keeps regions of roots between analyses; a root's regions depend on the program and the configuration only.
    """
    return _Analyser(program, config, settings, memo).run(targets)


class _Analyser:
    def __init__(self, program: Program, config: Config, settings: Settings, memo: Memo | None = None) -> None:
        self.program, self.config, self.settings, self.memo = program, config, settings, memo
        self.analysis = Analysis()
        self.climber = Climber(program)
        self.done: dict[Root, list[Region]] = {}
        self.left = PROJECT_BUDGET
        self.site_classes: dict[tuple[Path, str], list[str]] = {}
        self.way = Way()
        self._changing: set[Path] | None = None

    def run(self, targets: Collection[str] | None = None) -> Analysis:
        more = (*self.config.capture_context_managers, *(w.name for w in self.config.capture_wrappers))
        found = list(sites(self.program, more))
        for site in found:
            owner, _, method = site.function.rpartition(".")
            if owner and isinstance(site.module.definition(owner), tree.Class):
                self.site_classes.setdefault((site.module.path, owner), []).append(method)
        related = Related(self.program, targets) if targets is not None else None
        wanted = [s for s in found if related is None or related.concerns(s, self.climber.roots(s))]
        for site in wanted:
            self.climber.roots(site)
        self.way = Way((str(r.path), r.function) for r in self.climber.passed)
        # What was asked about, and what is not a test, comes first: the work that a project may cost is spent on it.
        asked = set(targets or ())
        for site in sorted(wanted, key=lambda s: (str(s.module.path) not in asked, is_test(s.module.path))):
            self._site(site)
        for root in self.config.capture_roots:
            self._configured(root)
        self.analysis.errors |= self.program.errors
        return self.analysis

    def _site(self, site: Site) -> None:
        roots = self.climber.roots(site)
        seen: list[Region] = []
        vain = 0
        for root in roots[:-1]:
            if root.function and vain >= MAX_VAIN and not seen:
                break
            found = [r for r in self._root(root) if _covers(r, site)]
            vain += not found
            seen += found
        # A direct caller that no root led through is a root of its own: each application is a capture of its own.
        for caller in site.callers[:MAX_CALLERS]:
            if caller.function and not any(_leads_through(r, caller, self.program) for r in seen):
                seen += [r for r in self._root(caller) if _covers(r, site)]
        if not seen:
            seen = [r for r in self._root(roots[-1]) if _covers(r, site)]
        if seen and not any(r.reaches for r in seen) and any(r.unresolved for r in seen):
            self._further(site)

    def _further(self, site: Site) -> None:
        """What is captured came in as an argument that nobody on the way filled in: the callers' callers may."""
        tried = 0
        for caller in site.callers:
            # A module's own code has no callers.
            for upper in self.climber.callers(caller) if caller.function else ():
                if tried < MAX_CALLERS and upper.function and upper not in self.done:
                    tried += 1
                    if any(r.reaches for r in self._root(upper) if _covers(r, site)):
                        return

    def _root(self, root: Root, configured: bool = False) -> list[Region]:
        if root in self.done:
            return self.done[root]
        self.done[root] = []
        if self.memo is None:
            regions = self._run(root, configured)
        else:
            regions = self.memo(root, lambda: self._run(root, configured))
        self.done[root] = regions
        self.analysis.regions += regions
        return regions

    def _run(self, root: Root, configured: bool) -> list[Region]:
        module = self.program.module(root.path)
        if module is None:
            return []
        names = Names(self.program, self.config, self._default_device(root))
        # A project with many captures spends less on each: the first roots may take all they need, later ones share.
        # A script says all of what it does, so it may be explored further than a function whose callers are unknown.
        most = EXPLORE_BUDGET if root.function else 3 * EXPLORE_BUDGET
        explore = min(most, max(EXPLORE_BUDGET // 6, self.left // 5))
        machine = Machine(names, self.settings, explore, min(ROOT_BUDGET, max(ROOT_BUDGET // 6, self.left // 4)))
        machine.path = str(root.path)
        if not configured:
            machine.way = self.way
        try:
            _Run(machine, module, self.site_classes, min(HARNESS_BUDGET, max(4_000, self.left // 6))).start(
                root.function, configured
            )
        except BudgetSpent:
            pass
        except SourceError as error:
            self.analysis.errors.setdefault(root.path, str(error))
        except RecursionError:
            self.analysis.errors.setdefault(root.path, "nested too deeply to be followed")
        self.left = max(0, self.left - machine.ticks)
        return _few(machine.regions)

    def _default_device(self, root: Root) -> Device:
        if self.config.assume_device in ("cuda", "cpu"):
            return "cuda" if self.config.assume_device == "cuda" else "cpu"
        changing = self._changing_device()
        # What another script or test sets for itself is not set in this one.
        apart = bool(changing) and self._runs_alone(root.path)
        return "?" if any(p == root.path or not (apart and self._runs_alone(p)) for p in changing) else "cpu"

    def _changing_device(self) -> set[Path]:
        """The files that name what changes the default device."""
        if self._changing is None:
            words = ("set_default_device", "set_default_tensor_type")
            self._changing = {path for word in words for path in self.program.mentions(word)}
        return self._changing

    def _runs_alone(self, path: Path) -> bool:
        return is_test(path) or is_script(self.program.source(path).text)

    def _configured(self, text: str) -> None:
        """A root that the user names: `package.module.function` or `package.module:Class.method`."""
        dotted, _, inside = text.partition(":")
        parts = dotted.split(".")
        candidates = (
            [(dotted, inside)]
            if inside
            else [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)]
        )
        for name, function in candidates:
            module = self.program.find(name)
            if module is not None and module.definition(function) is not None:
                self._root(Root(module.path, function), configured=True)
                return


def _few(regions: list[Region]) -> list[Region]:
    """Loops capture the same place again and again: three of each tell all that there is."""
    seen: dict[object, int] = {}
    kept: list[Region] = []
    for region in regions:
        key = (region.kind, region.at, region.applied_at)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 3:
            kept.append(region)
    return kept


def _covers(region: Region, site: Site) -> bool:
    """True if `region` begins at (or was made at) one of the site's lines."""
    path = str(site.module.path)
    places = [p for p in (region.at, region.applied_at) if p is not None]
    return any(p.path == path and any(abs(p.line - n) <= 1 for n in site.lines) for p in places)


def _leads_through(region: Region, caller: Root, program: Program) -> bool:
    """True if the way to `region` went through `caller`, or `caller` made the object that captured."""
    begun = next((f for f in region.life if isinstance(f, CaptureBegin) and f.begun is region), None)
    if begun is not None and any(frame.function == caller.function for frame in begun.chain):
        return True
    if region.applied_at is None or region.applied_at.path != str(caller.path):
        return False
    module = program.module(caller.path)
    definition = module.definition(caller.function) if module is not None else None
    return definition is not None and definition.lines[0] <= region.applied_at.line <= definition.lines[1]


class _Run:
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
            value = next((o for o in _options(value) if isinstance(o, ClassValue)), None)
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


def _options(value: Value | None) -> tuple[Value, ...]:
    from graphlint.value import options

    return options(value) if value is not None else ()
