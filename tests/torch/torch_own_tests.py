"""Runs the tests of collectives and data parallelism that PyTorch ships against a backend, and writes how each ended.

    torch_own_tests.py --backend gloo --results gloo.json
    torch_own_tests.py --backend harmonaize --results harmonaize.json
    torch_own_tests.py --compare gloo.json harmonaize.json

PyTorch skips many tests for backends whose names it does not know. So Harmonaize is run in gloo's place: where the
tests ask for "gloo", they get it. With --compare the two are laid beside each other, and the exit status is 1 when a
test that gloo passes does not pass. A daemon has to listen (HARMONAIZE_SOCKET).
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import types
import typing
import unittest

RANKS = 3
# Bounds one test, in seconds: some wait for a group's whole timeout.
PATIENCE_SECONDS = 180


# Tests that cannot pass in gloo's place, and why.
EXPLAINED = {"test_ddp_logging_data_cpu": "compares the backend's name in C++ with gloo's"}


def take_gloos_place() -> None:
    """Makes "gloo" mean Harmonaize in this process, and in those that it forks. Its names in profiles stay its own."""
    import torch.distributed as dist  # noqa: PLC0415
    from harmonaize_torch import _registration  # noqa: PLC0415
    from torch.testing._internal.distributed import distributed_test as shipped  # noqa: PLC0415

    find = shipped.get_profiling_event

    def find_ours(name: str, *rest: typing.Any, **named: typing.Any) -> typing.Any:
        events = find(name.replace("gloo:", "harmonaize:"), *rest, **named)
        for event in events:
            event.name = event.name.replace("harmonaize:", "gloo:")
        return events

    shipped.get_profiling_event = find_ours  # type: ignore[assignment]

    def create(store: typing.Any, rank: int, size: int, timeout: datetime.timedelta) -> typing.Any:
        return _registration._create(store, rank, size, timeout)

    if hasattr(dist.Backend, "backend_type_map"):  # from 2.0 on
        # In C++, what has gloo's type is taken for gloo's class.
        dist.Backend.backend_type_map["gloo"] = dist.ProcessGroup.BackendType.CUSTOM
    if hasattr(dist.Backend, "_ensure_backend_registered"):
        dist.Backend._plugins["GLOO"] = dist.Backend._BackendPlugin(create, extended_api=False)
        return
    # Older versions name the class and the type where they make a group.
    if hasattr(dist.ProcessGroup, "BackendType"):
        setattr(dist.ProcessGroup.BackendType, "GLOO", dist.ProcessGroup.BackendType.CUSTOM)  # noqa: B010
    take_the_class(dist.distributed_c10d, create)


def take_the_class(module: typing.Any, create: typing.Callable[..., typing.Any]) -> None:
    """Makes groups of gloo's class Harmonaize's, but for those beside a group that check its calls."""

    class AnyBackend(type):
        def __instancecheck__(cls, instance: object) -> bool:
            del instance
            return True

    class Stand(metaclass=AnyBackend):
        def __new__(cls, *arguments: typing.Any, **named: typing.Any) -> typing.Any:
            return create(*arguments, **named)

    gloo, wrap = module.ProcessGroupGloo, module._create_process_group_wrapper

    def wrap_with_gloo(*arguments: typing.Any, **named: typing.Any) -> typing.Any:
        module.ProcessGroupGloo = gloo
        try:
            return wrap(*arguments, **named)
        finally:
            module.ProcessGroupGloo = Stand

    module.ProcessGroupGloo = Stand
    module._create_process_group_wrapper = wrap_with_gloo


def provide_expecttest() -> None:
    """Makes the package expecttest, from which the tests take a class, where Debian has none.

    The tests that are run here use nothing of that class but what it inherits.
    """
    if importlib.util.find_spec("expecttest") is not None:
        return
    package = types.ModuleType("expecttest")
    package.ACCEPT = False  # type: ignore[attr-defined]
    package.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules["expecttest"] = package


def make_case() -> type[unittest.TestCase]:
    """Returns PyTorch's class of tests, for processes that are forked: PyTorch is imported once."""
    import torch  # noqa: PLC0415
    from torch.testing._internal.distributed import distributed_test as shipped  # noqa: PLC0415

    class TestBackend(shipped.TestDistBackend, shipped.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return TestBackend


def run_in_child(case: type[unittest.TestCase], name: str, output: pathlib.Path) -> int:
    """Runs one test in a forked process, with what it starts in a group of its own. Returns the exit status."""
    child = os.fork()
    if child == 0:
        os.setsid()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        result = unittest.TextTestRunner(verbosity=0).run(case(name))
        if result.skipped:
            print("SKIPPED:", result.skipped[0][1].splitlines()[0])
        sys.stdout.flush()
        os._exit(0 if result.wasSuccessful() else 1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            with output.open("a") as said:
                said.write(f"\nnot done after {PATIENCE_SECONDS} s\n")
            return 1
        time.sleep(0.02)


def how_it_ended(case: type[unittest.TestCase], name: str, folder: pathlib.Path) -> dict[str, str | float]:
    """Runs one test, and returns what became of it."""
    begun = time.monotonic()
    status = run_in_child(case, name, folder / "output")
    said = (folder / "output").read_text(errors="replace")
    skipped = re.search(r"^SKIPPED: (.*)$", said, re.MULTILINE)
    if skipped:
        return {"ended": "skipped", "why": skipped[1]}
    if status == 0:
        return {"ended": "passed", "seconds": round(time.monotonic() - begun, 1)}
    faults = [line for line in said.splitlines() if re.search(r"(Error|Exception)\b.*:|not done after|signal", line)]
    return {"ended": "failed", "why": faults[-1].strip()[:400] if faults else said[-400:], "said": said[-6000:]}


def run_all(backend: str, results: pathlib.Path, pattern: str) -> None:
    """Runs all tests whose names match, and writes what became of each, as it goes."""
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        folder = pathlib.Path(name)
        os.environ.update(BACKEND="gloo", WORLD_SIZE=str(RANKS), TEMP_DIR=name, OMP_NUM_THREADS="1")
        provide_expecttest()
        case = make_case()
        if backend == "harmonaize":
            take_gloos_place()
        names = [one for one in unittest.TestLoader().getTestCaseNames(case) if re.search(pattern, one)]
        ended = json.loads(results.read_text()) if results.exists() else {}
        for one in names:
            ended[one] = how_it_ended(case, one, folder)
            print(f"{one}: {ended[one]['ended']} {ended[one].get('why', '')}", flush=True)
            results.write_text(json.dumps(ended, indent=1))


def compare(first: pathlib.Path, second: pathlib.Path) -> int:
    """Prints a table of both in Markdown, and returns 1 if the second fails what the first passes."""
    one, other = json.loads(first.read_text()), json.loads(second.read_text())
    names = sorted(name for name in one if name in other)
    print(f"| | {first.stem} | {second.stem} |\n|---|---:|---:|")
    for kind in ("passed", "failed", "skipped"):
        counts = [sum(results[name]["ended"] == kind for name in names) for results in (one, other)]
        print(f"| {kind} | {counts[0]} | {counts[1]} |")
    worse = [name for name in names if one[name]["ended"] == "passed" and other[name]["ended"] != "passed"]
    for name in worse:
        print(f"\n`{name}`: {other[name]['ended']}, {EXPLAINED.get(name, other[name].get('why', ''))}")
    return 1 if set(worse) - set(EXPLAINED) else 0


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["gloo", "harmonaize"])
    parser.add_argument("--results", type=pathlib.Path, help="where to write; what it has of other tests is kept")
    parser.add_argument("--pattern", default="", help="only tests whose names match")
    parser.add_argument("--compare", type=pathlib.Path, nargs=2)
    arguments = parser.parse_args()
    if arguments.compare:
        sys.exit(compare(*arguments.compare))
    elif arguments.backend and arguments.results:
        run_all(arguments.backend, arguments.results, arguments.pattern)
    else:
        parser.error("give --backend and --results, or --compare")


if __name__ == "__main__":
    main()
