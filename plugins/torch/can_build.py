"""Says whether harmonaize_torch can be built for this Python: status 0, or 1 with what is missing.

PyTorch is not imported, which would take seconds.
"""

import importlib.util
import pathlib
import shutil
import sys
import sysconfig


def missing() -> str:
    """Returns what is missing, or "" if all is there."""
    for package in ("torch", "setuptools"):
        if importlib.util.find_spec(package) is None:
            return f"the package {package}"
    if shutil.which("ninja") is None:
        return "ninja"
    python = pathlib.Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").exists():
        return f"{python}/Python.h (Debian: python3-dev)"
    spec = importlib.util.find_spec("torch")
    torch = pathlib.Path(spec.origin or "").parent / "include"
    if not (torch / "torch" / "extension.h").exists():
        return f"PyTorch's headers below {torch} (Debian: libtorch-dev)"
    folders = (torch, python, pathlib.Path("/usr/include"))
    if not any((folder / "pybind11" / "pybind11.h").exists() for folder in folders):
        return "pybind11's headers (Debian: pybind11-dev)"
    return ""


if __name__ == "__main__":
    what = missing()
    if what:
        print(what)
    sys.exit(bool(what))
