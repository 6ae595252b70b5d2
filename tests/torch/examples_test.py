"""The examples that use PyTorch do what their documents say, with two ranks at the test's daemon."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import typing
import urllib.error
import urllib.request

import pytest
import torch
from ranks import BUILD, PATIENCE_SECONDS, Daemon

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"

HAS_FSDP2 = tuple(int(number) for number in torch.__version__.split(".")[:2]) >= (2, 7)

SMALL_TRAINING = ["--steps", "40", "--layers", "2", "--width", "64"]
SMALL_SERVICE = ["--layers", "2", "--width", "64", "--slots", "4"]


@contextlib.contextmanager
def started(daemon: Daemon, ranks: int, script: str, *options: str) -> typing.Iterator[subprocess.Popen[str]]:
    """An example that runs under `harmonaize run`, which ends its ranks when it is ended itself."""
    launcher = BUILD / "bin" / "harmonaize"
    if not launcher.exists():
        pytest.skip(f"there is no launcher in {BUILD}: build the target harmonaize, or set HARMONAIZE_BUILD")
    command = [str(launcher), "run", "-n", str(ranks), "--grace", "60", "--no-preload", "--no-prefix", "--"]
    command += [sys.executable, str(EXAMPLES / script), *options]
    environment = dict(os.environ, HARMONAIZE_SOCKET=str(daemon.socket), OMP_NUM_THREADS="1")
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()


def run(daemon: Daemon, ranks: int, script: str, *options: str) -> tuple[int, str]:
    """Runs an example to its end, and returns its exit status and what it printed."""
    with started(daemon, ranks, script, *options) as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, output


def numbers(pattern: str, output: str) -> list[float]:
    """Returns the numbers that the pattern finds in the output, where it has to match."""
    found = re.search(pattern, output)
    assert found, output
    return [float(number) for number in found.groups()]


def trained_losses(daemon: Daemon, *options: str) -> tuple[float, float]:
    """Trains on two ranks, checks what is said, and returns the loss before and after."""
    status, output = run(daemon, 2, "torch_fsdp/train.py", *SMALL_TRAINING, *options)
    assert status == 0, output
    before, after = numbers(r"2 ranks, 40 steps in .* loss ([\d.]+) before and ([\d.]+) after", output)
    (by_frequency,) = numbers(r"frequency of each character: loss ([\d.]+)", output)
    # With PyTorch 2.7 it learns less on CPUs, with any backend.
    assert after < before - 1, output
    assert by_frequency < before, output
    kept, total = numbers(r"rank 0 keeps (\d+) of (\d+) bytes", output)
    assert kept * 2 == total, output
    return before, after


@pytest.mark.skipif(not HAS_FSDP2, reason="FSDP2 on CPUs needs PyTorch 2.7")
def test_sharded_training_learns_the_same_as_with_gloo(daemon: Daemon) -> None:
    losses = trained_losses(daemon)
    assert losses == pytest.approx(trained_losses(daemon, "--backend", "gloo"), abs=0.005)


@pytest.mark.skipif(HAS_FSDP2, reason="this PyTorch has FSDP2 for CPUs")
def test_sharded_training_says_what_an_older_pytorch_lacks(daemon: Daemon) -> None:
    status, output = run(daemon, 2, "torch_fsdp/train.py")
    assert status == 1
    assert "needs fully_shard (FSDP2) of PyTorch 2.7 or later" in output
    assert "Traceback" not in output


def check_percentiles(name: str, output: str) -> None:
    """Checks that there are times, in their order."""
    times = numbers(rf"{name}: p50 ([\d.]+) ms, p90 ([\d.]+) ms, p99 ([\d.]+) ms", output)
    assert times == sorted(times), output
    assert times[0] > 0, output


def checksum(output: str) -> str:
    """Returns the checksum of all tokens."""
    found = re.search(r"checksum of the tokens: (\w{8})", output)
    assert found, output
    return found[1]


def test_split_decoder_generates_what_one_process_does(daemon: Daemon) -> None:
    options = [*SMALL_SERVICE, "--requests", "12", "--rate", "40", "--tokens", "16", "--check"]
    status, output = run(daemon, 2, "tensor_parallel_serving/serve.py", *options)
    assert status == 0, output
    assert "harmonaize: 2 ranks: 12 requests, 192 tokens" in output
    check_percentiles("first token", output)
    check_percentiles("next tokens", output)
    same, rounded, distinct = numbers(
        r"check: (\d+) of 192 tokens are those of one process, (\d+) differ by rounding, 0 are wrong \((\d+) ", output
    )
    assert same + rounded == 192, output
    assert distinct > 20, output
    if rounded == 0:
        _, alone = run(daemon, 1, "tensor_parallel_serving/serve.py", *options, "--backend", "gloo")
        assert checksum(alone) == checksum(output)


def test_heads_that_the_ranks_cannot_share_are_refused(daemon: Daemon) -> None:
    status, output = run(daemon, 2, "tensor_parallel_serving/serve.py", "--heads", "1")
    assert status == 1
    assert "1 heads cannot be split over 2 ranks: choose another --heads" in output
    assert "Traceback" not in output


def test_split_decoder_serves_http_until_it_is_ended(daemon: Daemon) -> None:
    with started(daemon, 2, "tensor_parallel_serving/serve.py", *SMALL_SERVICE, "--port", "0") as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("listening at http://127.0.0.1:"), said + process.communicate()[0]
        address = said.split()[-1]
        body = json.dumps({"prompt": "Once upon", "tokens": 7}).encode()
        with urllib.request.urlopen(address, body, PATIENCE_SECONDS) as answer:  # noqa: S310
            tokens = json.load(answer)["tokens"]
        assert len(tokens) == 7
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(address, b'{"prompt": "", "tokens": 7}', PATIENCE_SECONDS)  # noqa: S310
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in output
        assert process.returncode == 0, output
