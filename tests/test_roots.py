"""Where an analysis starts: callers are found by name, and names mean what the file around them says."""

from __future__ import annotations

from pathlib import Path

from graphlint.interp.roots import Climber
from graphlint.interp.sites import Root, sites
from graphlint.program.program import Program
from tests.test_program import program

RUNNER = """\
import torch
class Runner:
    def capture(self, step):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            step()
"""


def roots(made: Program, path: Path) -> set[Root]:
    climber = Climber(made)
    return {root for site in sites(made, ()) if site.module.path == path for root in climber.roots(site)}


def test_another_file_s_class_of_the_same_name_is_not_called(tmp_path: Path) -> None:
    own = f"{RUNNER}def main():\n    Runner().capture(print)\n"
    made = program(tmp_path, {"one.py": own, "two.py": own})
    assert {root.path.name for root in roots(made, tmp_path / "one.py")} == {"one.py"}


def test_a_file_that_imports_the_class_calls_it(tmp_path: Path) -> None:
    use = "from one import Runner\ndef serve():\n    Runner().capture(print)\n"
    made = program(tmp_path, {"one.py": RUNNER, "use.py": use})
    assert Root(tmp_path / "use.py", "serve") in roots(made, tmp_path / "one.py")


def test_a_class_derived_elsewhere_is_followed(tmp_path: Path) -> None:
    use = "from one import Runner\nclass Server(Runner):\n    pass\ndef serve():\n    Server().capture(print)\n"
    made = program(tmp_path, {"one.py": RUNNER, "use.py": use})
    assert Root(tmp_path / "use.py", "serve") in roots(made, tmp_path / "one.py")


CAPTURE = """\
import torch
def capture(step):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph
"""


def test_a_common_name_is_followed_where_it_is_imported(tmp_path: Path) -> None:
    files = {
        "graphs.py": CAPTURE,
        "one.py": "from graphs import (\n    capture,\n)\ndef serve():\n    capture(print)\n",
        "two.py": "import graphs\ndef serve():\n    graphs.capture(print)\n",
        "other.py": "# not graphs\ndef serve(camera):\n    camera.capture(print)\n",
    }
    found = roots(program(tmp_path, files), tmp_path / "graphs.py")
    assert {root.path.name for root in found} == {"one.py", "two.py", "graphs.py"}
