"""Builds harmonaize_torch against the PyTorch of this Python, and the Harmonaize that is installed.

Harmonaize is found where HARMONAIZE_HOME says, and else by pkg-config. A build folder of Harmonaize's
sources serves as well: HARMONAIZE_HOME names it, and HARMONAIZE_INCLUDE the folder of the headers.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import setuptools
import torch
from torch.utils import cpp_extension

LIBRARY = "libharmonaize-preload.so"
# Files that are compiled beside each other. Each costs the time of PyTorch's headers once.
BATCHES = 4
HERE = pathlib.Path(__file__).resolve().parent


def ask_pkg_config(variable: str) -> pathlib.Path:
    """Returns a folder that harmonaize.pc names."""
    command = ["pkg-config", f"--variable={variable}", "harmonaize"]
    if shutil.which("pkg-config") is None:
        sys.exit("Harmonaize was not found: set HARMONAIZE_HOME to where it is installed, or install pkg-config")
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if found.returncode != 0:
        sys.exit(f"Harmonaize was not found: set HARMONAIZE_HOME to where it is installed ({found.stderr.strip()})")
    return pathlib.Path(found.stdout.strip())


def find_harmonaize() -> "tuple[pathlib.Path, pathlib.Path]":
    """Returns the folder of the headers, and that of the library."""
    home = os.environ.get("HARMONAIZE_HOME")
    if not home:
        return ask_pkg_config("includedir"), ask_pkg_config("libdir")
    include = pathlib.Path(os.environ.get("HARMONAIZE_INCLUDE", f"{home}/include"))
    if not (include / "harmonaize.h").exists():
        sys.exit(f"HARMONAIZE_HOME is {home}, and there is no {include}/harmonaize.h")
    libraries = sorted(pathlib.Path(home).glob(f"lib*/{LIBRARY}")) + sorted(
        pathlib.Path(home).glob(f"lib*/*/{LIBRARY}")
    )
    if not libraries:
        sys.exit(f"HARMONAIZE_HOME is {home}, and there is no {LIBRARY} below its lib")
    return include, libraries[0].parent


def include_root() -> pathlib.Path:
    """Returns the folder to which the includes of the sources are relative: the project's, or one that looks so
    where the package's folder was copied elsewhere.
    """
    project = HERE.parents[1]
    if project / "plugins" / "torch" == HERE:
        return project
    stand_in = HERE / "build" / "include"
    (stand_in / "plugins").mkdir(parents=True, exist_ok=True)
    if not (stand_in / "plugins" / "torch").is_symlink():
        (stand_in / "plugins" / "torch").symlink_to(HERE)
    return stand_in


def standard_of_torch() -> str:
    """The C++ standard that this PyTorch's headers need."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return "c++20" if (major, minor) >= (2, 10) else "c++17"


def batches() -> "list[str]":
    """Returns files that include all sources, some each: most of a compilation is PyTorch's headers."""
    sources = sorted((HERE / "source").glob("*.cc"))
    made = HERE / "build" / "batches"
    made.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(BATCHES):
        text = "".join(f'#include "plugins/torch/source/{one.name}"\n' for one in sources[number::BATCHES])
        file = made / f"batch_{number}.cc"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        files.append(str(file.relative_to(HERE)))
    return files


include_folder, library_folder = find_harmonaize()
extension = cpp_extension.CppExtension(
    "harmonaize_torch._native",
    sources=batches(),
    include_dirs=[str(include_root()), str(include_folder)],
    define_macros=[("HARMONAIZE_NO_CUDA", "1"), ("HARMONAIZE_LIBRARY_FOLDER", f'"{library_folder}"')],
    extra_compile_args=[
        f"-std={standard_of_torch()}",
        "-O2",
        "-g0",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Wno-implicit-fallthrough",
        "-Wno-deprecated-declarations",
    ],
    libraries=["dl"],
)
setuptools.setup(ext_modules=[extension], cmdclass={"build_ext": cpp_extension.BuildExtension})
