"""What the tests of the PyTorch plugin share: one daemon for a run of pytest."""

from __future__ import annotations

import pathlib
import tempfile
import typing

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: scripts/install-torch.sh installs it")
pytest.importorskip("harmonaize_torch", reason="the plugin is not installed: pip install ./plugins/torch")

from ranks import BUILD, Daemon, Jobs


@pytest.fixture(scope="session")
def daemon() -> typing.Iterator[Daemon]:
    """A daemon that all tests of the run use."""
    if not (BUILD / "bin" / "harmonaized").exists():
        pytest.skip(f"there is no daemon in {BUILD}: build the target harmonaized, or set HARMONAIZE_BUILD")
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        one = Daemon(pathlib.Path(name))
        yield one
        one.stop()


@pytest.fixture(scope="session")
def jobs(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> typing.Iterator[Jobs]:
    """Jobs at the daemon."""
    all_jobs = Jobs(daemon.socket, tmp_path_factory.mktemp("jobs"))
    yield all_jobs
    all_jobs.leave()
