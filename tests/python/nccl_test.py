"""NCCL's operations on arrays, and what they refuse."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys

import pytest

from daemons import HERE, Daemon
from elastic_jobs import elastic_job
from harmonaize import nccl

PLUGIN = HERE.parents[1] / "plugins" / "python"


def test_operations_on_arrays_and_what_they_refuse(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed: pip install numpy, or Debian's python3-numpy")
    with elastic_job(daemon, tmp_path, "nccl", 3, [str(HERE / "nccl_rank.py")]) as job:
        assert [job.ends(rank) for rank in (0, 2)] == ["right", "right"]


def test_a_library_that_is_not_there_is_named_with_the_way_out() -> None:
    program = f"import sys; sys.path.insert(0, {str(PLUGIN)!r}); from harmonaize import nccl; nccl.library()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HARMONAIZE_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    if "LibraryError" not in last:
        pytest.skip("a Harmonaize is installed where the loader looks")
    assert "/nowhere/lib/libharmonaize-preload.so" in last
    assert "set HARMONAIZE_HOME" in last


def test_errors_go_between_processes() -> None:
    error = nccl.RemoteError("ncclAllReduce", nccl.Result.REMOTE_ERROR, "rank 1 died\x1b")
    same = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(same), same.call, same.result, str(same)) == (
        nccl.RemoteError,
        "ncclAllReduce",
        nccl.Result.REMOTE_ERROR,
        "ncclAllReduce: rank 1 died?",
    )


def test_an_id_has_its_length_and_shows_no_secret() -> None:
    with pytest.raises(ValueError, match="has 128 bytes, not 3"):
        nccl.UniqueId(b"abc")
    assert repr(nccl.UniqueId(b"x" * 128)) == "<UniqueId>"
