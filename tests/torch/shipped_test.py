"""Some of the tests that PyTorch ships, with Harmonaize in gloo's place: torch_own_tests.py runs all of them."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from ranks import Daemon

# One of each kind, of those that gloo passes with PyTorch 1.13 and with 2.15.
CHOSEN = (
    r"^test_(all_gather(_coalesced_simple|_complex|_group|_object_subgroup)?"
    r"|all_reduce_(coalesced_sum|full_group_max|min|product|sum|sum_async|sum_complex)"
    r"|barrier_(group|timeout_full_group)|broadcast(_group|_object_list)?|gather(_checks|_group|_object)?|get_future"
    r"|irecv|isend|monitored_barrier_(failure_order|gloo)|reduce_(group_min|product|sum)"
    r"|scatter(_checks|_full_group|_object_list)?|send_recv(_any_source|_with_tag)?)$"
)
FEWEST = 28


def test_chosen_tests_of_pytorch_pass(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    results = tmp_path / "results.json"
    script = pathlib.Path(__file__).with_name("torch_own_tests.py")
    command = [sys.executable, str(script), "--backend", "harmonaize", "--results", str(results), "--pattern", CHOSEN]
    subprocess.run(command, env={**os.environ, "HARMONAIZE_SOCKET": str(daemon.socket)}, check=True)
    ended = json.loads(results.read_text())
    failed = {name: result["why"] for name, result in ended.items() if result["ended"] == "failed"}
    assert not failed
    assert sum(result["ended"] == "passed" for result in ended.values()) >= FEWEST
