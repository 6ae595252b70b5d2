"""The backend makes itself known."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import harmonaize_torch
import pytest
import torch
import torch.distributed as dist

INSTALLED = any(one.metadata["Name"] == "harmonaize-torch" for one in importlib.metadata.distributions())


def said_by(program: str) -> str:
    """Runs a program of one line in a Python of its own, and returns what it printed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_registering_again_has_no_effect() -> None:
    before = dist.Backend._plugins["HARMONAIZE"]
    harmonaize_torch.register()
    assert dist.Backend._plugins["HARMONAIZE"] is before


def test_an_import_registers_for_cpu_tensors() -> None:
    said = said_by("import torch.distributed as dist, harmonaize_torch; print('HARMONAIZE' in dist.Backend._plugins)")
    assert said == "True"
    capability = getattr(dist.Backend, "backend_capability", {"harmonaize": ["cpu"]})
    assert capability["harmonaize"] == ["cpu"]


@pytest.mark.skipif(not INSTALLED, reason="the plugin is not installed by pip")
@pytest.mark.skipif(not hasattr(torch, "_import_device_backends"), reason="this PyTorch does not look for backends")
def test_an_import_of_torch_alone_registers() -> None:
    assert said_by("import torch.distributed as dist; print('HARMONAIZE' in dist.Backend._plugins)") == "True"
