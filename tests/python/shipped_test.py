"""The package installs without a network, and what it installs is whole."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "python"


def test_pip_installs_it_offline(tmp_path: pathlib.Path) -> None:
    for module in ("pip", "setuptools", "wheel"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"this Python has no {module}")
    # pip builds beside the sources.
    sources, target = tmp_path / "sources", tmp_path / "target"
    shutil.copytree(PACKAGE, sources, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation"]
    command += ["--no-deps", "--disable-pip-version-check", "--root-user-action=ignore"]
    done = subprocess.run(
        [*command, "--target", str(target), str(sources)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    installed = files_in(target / "harmonaize")
    assert installed == files_in(PACKAGE / "harmonaize")
    assert {"py.typed", "nccl/library.py", "elastic/training.py"} <= installed
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(target)!r}); import harmonaize"]
    assert subprocess.run(command, check=False).returncode == 0


def files_in(folder: pathlib.Path) -> set[str]:
    """The files of a package, without what Python has compiled."""
    return {
        str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file() and "__pycache__" not in str(file)
    }


def test_it_starts_no_threads_and_needs_no_other_package() -> None:
    program = (
        f"import sys, threading; sys.path.insert(0, {str(PACKAGE)!r}); import harmonaize.elastic; "
        "names = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names); "
        "print(sorted(name for name in names if not name.startswith('_')), threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['harmonaize'] 1"
