"""Exports of stores are what the libraries of their formats read, bit for bit."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest

from checkpoint_stores import PARAMETERS, RANKS, STEP
from daemons import BUILD, PROGRAMS

HERE = pathlib.Path(__file__).resolve().parent
MAKE_STORE = BUILD / "tests" / "make_store"
HARMONAIZE = PROGRAMS / "harmonaize"
# Pythons that may have the readers: the one that is named, the one of scripts, and this one.
PYTHONS = [
    os.environ.get("HARMONAIZE_CHECKPOINT_PYTHON", ""),
    str(BUILD.parent / "checkpoint-venv" / "bin" / "python"),
    sys.executable,
]
# How stores are saved: the format of their objects, and whether each tensor is whole at one rank.
STORES = {
    "safetensors": ("safetensors", False),
    "safetensors-whole": ("safetensors", True),
    "dcp": ("dcp", False),
    "ucp": ("ucp", True),
}


@functools.cache
def python_with(*modules: str) -> str:
    """A Python that has these modules; skips the test where there is none."""
    command = ["-c", "".join(f"import {module};" for module in ("torch.distributed.checkpoint.format_utils", *modules))]
    for python in PYTHONS:
        if python and pathlib.Path(python).exists():
            tried = subprocess.run([python, *command], check=False, capture_output=True, timeout=200)
            if tried.returncode == 0:
                return python
    pytest.skip(f"no Python has PyTorch 2 and {', '.join(modules) or 'nothing else'}: name one by "
                "HARMONAIZE_CHECKPOINT_PYTHON")


def run(*words: str | pathlib.Path, status: int = 0) -> str:
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a store of each kind."""
    if not MAKE_STORE.exists():
        pytest.skip(f"there is no {MAKE_STORE}: build the target make_store, or set HARMONAIZE_BUILD")
    python = python_with()
    above = tmp_path_factory.mktemp("stores")
    for name, (form, is_whole) in STORES.items():
        run(python, HERE / "checkpoint_stores.py", "make", above / name, form, MAKE_STORE, *["whole"] * is_whole)
    return above


def exported(stores: pathlib.Path, name: str, form: str, *options: str) -> pathlib.Path:
    target = stores / "-".join((name, "as", form, *options))
    run(HARMONAIZE, "checkpoints", "export", stores / name, target, "--format", form, *options)
    return target


def linked(folder: pathlib.Path) -> int:
    """How many files share their bytes with the store."""
    return sum(file.stat().st_nlink > 1 for file in folder.rglob("*") if file.is_file())


def test_safetensors_are_read_by_safetensors(stores: pathlib.Path) -> None:
    python = python_with("safetensors.torch")
    words = [word for name in STORES for word in ("safetensors", exported(stores, name, "safetensors"))]
    run(python, HERE / "checkpoint_stores.py", "read", *words)
    assert linked(stores / "safetensors-whole-as-safetensors") > 0
    assert linked(stores / "safetensors-as-safetensors") == 0


def test_dcp_is_read_by_pytorch(stores: pathlib.Path) -> None:
    words = [word for name in STORES for word in ("dcp", exported(stores, name, "dcp"))]
    run(python_with(), HERE / "checkpoint_stores.py", "read", *words)
    # All but the pickle that says what is where.
    folder = stores / "dcp-as-dcp"
    assert linked(folder) == len(list(folder.iterdir())) - 1 >= RANKS


def test_ucp_has_the_files_that_deepspeed_reads(stores: pathlib.Path) -> None:
    words = [word for name in STORES for word in ("ucp-files", exported(stores, name, "ucp"))]
    run(python_with(), HERE / "checkpoint_stores.py", "read", *words)
    assert linked(stores / "ucp-as-ucp") == 3 * len(PARAMETERS)


def test_ucp_is_loaded_by_deepspeed(stores: pathlib.Path) -> None:
    python = python_with("deepspeed")
    run(python, HERE / "checkpoint_stores.py", "read", "ucp", exported(stores, "safetensors", "ucp", "--copy"))


def test_a_target_that_exists_is_left_alone(stores: pathlib.Path) -> None:
    target = stores / "photos"
    target.mkdir()
    answer = run(HARMONAIZE, "checkpoints", "export", stores / "dcp", target, "--format", "dcp", status=1)
    assert "exists" in answer
    assert list(target.iterdir()) == []
    assert not list(stores.glob("photos.tmp-*"))


def test_the_commands_tell_what_there_is(stores: pathlib.Path) -> None:
    listed = json.loads(run(HARMONAIZE, "checkpoints", "list", stores / "dcp", "--json"))["checkpoints"]
    assert [(one["step"], one["ranks"], one["format"], one["committed"]) for one in listed] == [
        (STEP, RANKS, "dcp", True)
    ]
    shown = json.loads(run(HARMONAIZE, "checkpoints", "show", stores / "dcp", "--json"))
    weight = next(one for one in shown["tensors"] if one["name"] == "module.0.weight")
    assert (weight["type"], weight["shards"], weight["ranks"]) == ("BF16", RANKS, list(range(RANKS)))
    assert "is whole" in run(HARMONAIZE, "checkpoints", "verify", stores / "dcp", "--all")


def test_damage_is_named(stores: pathlib.Path) -> None:
    run("cp", "-r", stores / "dcp", stores / "damaged")
    steps = stores / "damaged" / "steps"
    victim = max(steps.glob("*/objects/*"), key=lambda file: file.stat().st_size)
    victim.chmod(0o644)
    with victim.open("r+b") as file:
        file.seek(victim.stat().st_size // 2)
        file.write(b"\x55\xaa\x55")
    answer = run(HARMONAIZE, "checkpoints", "verify", stores / "damaged", status=1)
    assert "is damaged" in answer
    assert victim.name in answer
    # An export that has to read the shard does not come about.
    target = stores / "damaged-export"
    run(HARMONAIZE, "checkpoints", "export", stores / "damaged", target, "--format", "safetensors", status=1)
    assert not target.exists()
