#!/usr/bin/env python3
"""How long saving a checkpoint stops a training, by PyTorch's ways and by Harmonaize's, in one run.

    checkpoint_stall.py [--megabytes 1000] [--tensors 300] [--ranks 1] [--saves 5] [--steps 20] [--json FILE]

Run it with a Python that has PyTorch (2.4 or later for all ways). Each way has ranks of its own, one way after the
other: all have the same state, as under DDP, take so many steps after each save, and change the state. A step
multiplies matrices with all processors of the rank.

"first" is the first save's call, and "later" the median of the later ones: the time for which the training stands
still, at the slowest rank. "wait" is the median of what asynchronous ways wait besides for the save before: it is 0
where there are enough steps between. "step" is the mean time of a step between saves, as a multiple of that of the same
ranks before the first one. "memory" and "storage" are the times to read the state back; PyTorch's is in the system's
cache then. Files are in a temporary folder of --folder.

A daemon is started for the run, from HARMONAIZE_BUILD (build/release), unless HARMONAIZE_SOCKET names one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("HARMONAIZE_BUILD", ROOT / "build" / "release"))
sys.path.insert(0, str(ROOT / "plugins" / "python"))

# Bounds the start of a daemon, in seconds, and each way's run.
_START_SECONDS = 60
_RUN_SECONDS = 1800
# Rows and columns of the matrices that a step multiplies: some 10 ms for a processor.
_MATRIX = 700

State = dict[str, typing.Any]


class Way:
    """A way to save. `save` returns when the training may go on."""

    group: typing.Any = None

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.step = 0

    def save(self, state: State) -> None:
        raise NotImplementedError

    def wait_before(self) -> None:
        """Waits for what has to be over before the next save."""

    def finish(self) -> None:
        """Waits until the last save is stored."""

    def read(self, state: State) -> dict[str, float]:
        """Reads the last save into the state. Returns the seconds by place."""
        begin = time.monotonic()
        self.load(state)
        return {"storage": time.monotonic() - begin}

    def load(self, state: State) -> None:
        raise NotImplementedError

    def next_path(self) -> pathlib.Path:
        """Returns where the next save goes, and removes the one before the last."""
        self.step += 1
        if self.is_first_rank():
            shutil.rmtree(self.folder / f"step-{self.step - 2}", ignore_errors=True)
        return self.folder / f"step-{self.step}"

    @staticmethod
    def is_first_rank() -> bool:
        return os.environ["RANK"] == "0"


class TorchSave(Way):
    def save(self, state: State) -> None:
        import torch

        path = self.next_path()
        if self.is_first_rank():
            path.mkdir(parents=True)
            torch.save(state, path / "state.pt")
        torch.distributed.barrier()

    def load(self, state: State) -> None:
        import torch

        loaded = torch.load(self.folder / f"step-{self.step}" / "state.pt", weights_only=True)
        for name, tensor in state.items():
            tensor.copy_(loaded[name])


class DcpSave(Way):
    def save(self, state: State) -> None:
        import torch.distributed.checkpoint as dcp

        dcp.save(state, storage_writer=dcp.FileSystemWriter(self.next_path()))

    def load(self, state: State) -> None:
        import torch.distributed.checkpoint as dcp

        dcp.load(state, storage_reader=dcp.FileSystemReader(self.folder / f"step-{self.step}"))


class DcpAsync(DcpSave):
    """dcp.async_save as it is."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.future: typing.Any = None
        self.options = self.make_options()

    def make_options(self) -> dict[str, typing.Any]:
        return {}

    def writer(self) -> typing.Any:
        import torch.distributed.checkpoint as dcp

        return dcp.FileSystemWriter(self.next_path())

    def save(self, state: State) -> None:
        import torch.distributed.checkpoint as dcp

        answer = dcp.async_save(state, storage_writer=self.writer(), process_group=self.group, **self.options)
        self.future = getattr(answer, "upload_completion", answer)

    def wait_before(self) -> None:
        self.finish()

    def finish(self) -> None:
        if self.future is not None:
            self.future.result()


class DcpAsyncStager(DcpAsync):
    """With PyTorch's DefaultStager and shared memory: pinned memory needs CUDA."""

    def make_options(self) -> dict[str, typing.Any]:
        from torch.distributed.checkpoint import staging

        options = staging.StagingOptions(
            use_pinned_memory=False, use_shared_memory=True, use_async_staging=False, use_non_blocking_copy=False
        )
        return {"async_stager": staging.DefaultStager(options)}


class Ours(Way):
    """harmonaize.checkpoint.Checkpointer."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        from harmonaize import checkpoint
        from harmonaize.checkpoint.torch import communicator_of_group

        self.communicator = communicator_of_group()
        self.saver = checkpoint.Checkpointer(self.communicator, folder / "store", keep=1)

    def save(self, state: State) -> None:
        self.step += 1
        self.saver.save(self.step, state, replicated=True)

    def finish(self) -> None:
        self.saver.wait(self.step, "storage", _RUN_SECONDS)

    def read(self, state: State) -> dict[str, float]:
        from harmonaize import checkpoint

        seconds = {}
        for place, communicator in (("memory", self.communicator), ("storage", None)):
            begin = time.monotonic()
            with checkpoint.open(communicator, self.folder / "store") as saved:
                if saved.place != place:
                    raise AssertionError(f"it was read from {saved.place}")
                saved.read_into(state)
            seconds[place] = time.monotonic() - begin
        return seconds


class OursByDcp(Ours):
    """dcp.async_save with our StorageWriter."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        from harmonaize.checkpoint.torch import StorageWriter

        self.saver.close()
        self.writer = StorageWriter(folder / "store", keep=1)
        self.future: typing.Any = None

    def save(self, state: State) -> None:
        import torch.distributed.checkpoint as dcp

        self.step += 1
        self.writer.step = self.step
        self.future = dcp.async_save(state, storage_writer=self.writer, process_group=self.group)

    def wait_before(self) -> None:
        self.finish()

    def finish(self) -> None:
        if self.future is not None:
            self.future.result()


WAYS: dict[str, type[Way]] = {
    "torch.save": TorchSave,
    "dcp.save": DcpSave,
    "dcp.async_save": DcpAsync,
    "dcp.async_save, stager": DcpAsyncStager,
    "harmonaize": Ours,
    "harmonaize, dcp.async_save": OursByDcp,
}


# A rank


def make_state(megabytes: int, tensors: int) -> State:
    import torch

    rows = max(1, megabytes * 1_000_000 // 4 // tensors // 256)
    return {f"layer{one}.weight": torch.full((rows, 256), float(one)) for one in range(tensors)}


def run_rank(options: argparse.Namespace) -> None:
    """Runs one way, and prints what was measured."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // options.ranks))
    dist.init_process_group("gloo")
    # PyTorch's thread communicates while the ranks do.
    Way.group = dist.new_group(backend="gloo")
    state = make_state(options.megabytes, options.tensors)
    matrix = torch.rand(_MATRIX, _MATRIX)

    def steps() -> float:
        begin = time.monotonic()
        for _ in range(options.steps):
            torch.mm(matrix, matrix)
        return (time.monotonic() - begin) / options.steps

    steps()
    alone = statistics.mean(steps() for _ in range(2))
    way = WAYS[options.way](pathlib.Path(options.folder))
    waits: list[float] = []
    stalls: list[float] = []
    means: list[float] = []
    for _ in range(options.saves):
        for tensor in state.values():
            tensor.add_(1)
        dist.barrier()
        begin = time.monotonic()
        way.wait_before()
        waits.append(time.monotonic() - begin)
        begin = time.monotonic()
        way.save(state)
        stalls.append(time.monotonic() - begin)
        means.append(steps())
    way.finish()
    wanted = {name: float(tensor[0, 0]) for name, tensor in state.items()}
    for tensor in state.values():
        tensor.zero_()
    dist.barrier()
    reads = way.read(state)
    if reads and any(float(tensor[-1, -1]) != wanted[name] for name, tensor in state.items()):
        raise AssertionError("another state was read than was saved")
    dist.barrier()
    print(json.dumps({"waits": waits, "stalls": stalls, "steps": means, "alone": [alone], "reads": reads}), flush=True)


# The run


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def daemon(folder: pathlib.Path) -> typing.Iterator[None]:
    """A daemon for the run, unless there is one."""
    if "HARMONAIZE_SOCKET" in os.environ:
        yield
        return
    path = folder / "d.sock"
    configuration = folder / "provider.toml"
    configuration.write_text(f'[state]\npath = "{folder}/state"\n[calibration]\nagain = false\n')
    command = [str(BUILD / "bin" / "harmonaized"), "--socket", str(path), "--config", str(configuration)]
    with (folder / "daemon.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        deadline = time.monotonic() + _START_SECONDS
        while not path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the daemon has not come up:\n{(folder / 'daemon.log').read_text()}")
            time.sleep(0.05)
        os.environ["HARMONAIZE_SOCKET"] = str(path)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)


def run_way(options: argparse.Namespace, way: str, folder: pathlib.Path) -> dict[str, typing.Any] | str:
    """Returns what the slowest rank has measured, or why there is nothing."""
    own = folder / way.replace(" ", "").replace(",", "-")
    own.mkdir()
    command = [sys.executable, __file__, "--way", way, "--folder", str(own)]
    command += [f"--{name}={getattr(options, name)}" for name in ("megabytes", "tensors", "ranks", "saves", "steps")]
    common = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(options.ranks),
    }
    common.setdefault("HARMONAIZE_HOME", str(BUILD))
    common["HARMONAIZE_JOB"] = own.name
    processes = [
        subprocess.Popen(
            command, env={**common, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(options.ranks)
    ]
    answers = []
    for process in processes:
        said, errors = process.communicate(timeout=_RUN_SECONDS)
        if process.returncode != 0:
            return (errors.strip().splitlines() or ["it was killed"])[-1]
        answers.append(json.loads(said.splitlines()[-1]))
    shutil.rmtree(own, ignore_errors=True)
    return {
        **{
            what: [max(times) for times in zip(*(answer[what] for answer in answers), strict=True)]
            for what in ("waits", "stalls", "steps", "alone")
        },
        "reads": {place: max(answer["reads"][place] for answer in answers) for place in answers[0]["reads"]},
    }


def line(way: str, found: dict[str, typing.Any] | str, best: float) -> str:
    if isinstance(found, str):
        return f"{way:28} {found}"
    later = statistics.median(found["stalls"][1:])
    reads = "".join(f"{found['reads'].get(place, float('nan')) * 1e3:9.0f}" for place in ("memory", "storage"))
    return (
        f"{way:28}{found['stalls'][0] * 1e3:9.1f}{later * 1e3:9.1f}{later / best:8.1f}"
        f"{statistics.median(found['waits'][1:]) * 1e3:9.1f}"
        f"{statistics.mean(found['steps'][1:]) / found['alone'][0]:8.2f}{reads}"
    ).replace("nan", "  -")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the state (default: 1000)")
    parser.add_argument("--tensors", type=int, default=300, help="in so many tensors (default: 300)")
    parser.add_argument("--ranks", type=int, default=1, help="default: 1")
    parser.add_argument("--saves", type=int, default=5, help="default: 5")
    parser.add_argument("--steps", type=int, default=50, help="steps after each save (default: 50)")
    parser.add_argument(
        "--ways", default=";".join(WAYS), help=f"of these, separated by ';' (default: all): {';'.join(WAYS)}"
    )
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where files are written")
    parser.add_argument("--json", help="file for the numbers")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way is not None:
        run_rank(options)
        return
    if options.saves < 2:  # noqa: PLR2004
        parser.error("--saves has to be 2 or more: the first one is apart")
    results: dict[str, typing.Any] = {}
    with tempfile.TemporaryDirectory(prefix="harmonaize-", dir=options.folder) as name, daemon(pathlib.Path(name)):
        for way in options.ways.split(";"):
            results[way] = run_way(options, way, pathlib.Path(name))
            print(f"{way}: {results[way]}", file=sys.stderr, flush=True)
    measured = {way: found for way, found in results.items() if not isinstance(found, str)}
    later = {way: statistics.median(found["stalls"][1:]) for way, found in measured.items()}
    size = f"{options.megabytes} MB in {options.tensors} tensors, {options.ranks} ranks"
    print(f"{size}; milliseconds, and ratios to the least stall")
    print(f"{'':28}{'first':>9}{'later':>9}{'ratio':>8}{'wait':>9}{'step':>8}{'memory':>9}{'storage':>9}")
    for way, found in results.items():
        print(line(way, found, min(later.values())))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"options": vars(options), "results": results}, indent=1))


if __name__ == "__main__":
    main()
