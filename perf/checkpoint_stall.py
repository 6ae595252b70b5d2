#!/usr/bin/env python3
"""How long saving a checkpoint stops a training, by PyTorch's ways and by Harmonaize's, in one run.

    checkpoint_stall.py [--megabytes 1000] [--tensors 300] [--ranks 1] [--saves 5] [--interval 60] [--json FILE]

Run it with a Python that has PyTorch (2.4 or later for all ways). Each way has ranks of its own, one way after the
other: all have the same state, as under DDP, take steps for so many seconds after each save, and change the state. A
step multiplies matrices with all processors of the rank.

"first" is the first save's call, and "later" the median of the later ones: the time for which the training stands
still, at the slowest rank. "wait" is the median of what asynchronous ways wait besides for the save before: it is 0
where there are enough steps between. "step" is the mean time of a step between saves, as a multiple of that of the same
ranks before the first one, and "whole" the same with the save and the wait before it, over the later saves: what saving
costs the training. "memory", "peer" and "storage" are the times to read the state back: by the same ranks; by a rank of
another host, which has none of it; and from files, which are in the system's cache then. Files are in a temporary
folder of --folder.

Two daemons that take each other for daemons of other hosts are started for each way, from HARMONAIZE_BUILD
(build/release).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import secrets
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

PLACES = ("memory", "peer", "storage")

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

    where = "store"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        from harmonaize import checkpoint
        from harmonaize.checkpoint.torch import communicator_of_group

        self.communicator = communicator_of_group()
        self.saver = checkpoint.Checkpointer(self.communicator, self.store(), keep=1)

    def store(self) -> typing.Any:
        return self.folder / self.where

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
            with checkpoint.open(communicator, self.store()) as saved:
                if saved.place != place:
                    raise AssertionError(f"it was read from {saved.place}")
                saved.read_into(state)
            seconds[place] = time.monotonic() - begin
        if self.is_first_rank():
            seconds["peer"] = read_at_peer(self.folder, state)
        return seconds


class OursAtProvider(Ours):
    """The same into the provider's store."""

    def store(self) -> typing.Any:
        from harmonaize import checkpoint

        return checkpoint.PROVIDER_STORE

    def read(self, state: State) -> dict[str, float]:
        """From the store alone: the daemon gives back what it has in memory first."""
        from harmonaize import checkpoint

        self.saver.close()
        begin = time.monotonic()
        with checkpoint.open(self.communicator, self.store()) as saved:
            if saved.place != "storage":
                raise AssertionError(f"it was read from {saved.place}")
            saved.read_into(state)
        return {"storage": time.monotonic() - begin}


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
    "harmonaize, provider's store": OursAtProvider,
    "harmonaize, dcp.async_save": OursByDcp,
}


# Reading at another host


def read_at_peer(folder: pathlib.Path, state: State) -> float:
    """Returns the seconds in which a rank of another host reads the job's checkpoint into a state like this one."""
    shapes = json.dumps({name: list(tensor.shape) for name, tensor in state.items()})
    (folder / "shapes.json").write_text(shapes)
    sockets = (os.environ["HARMONAIZE_PEER_SOCKET"], os.environ["HARMONAIZE_SOCKET"])
    readers = [
        subprocess.Popen(
            [sys.executable, __file__, "--reader", str(rank), "--folder", str(folder)],
            env={**os.environ, "HARMONAIZE_SOCKET": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, path in enumerate(sockets)
    ]
    said = [reader.communicate(timeout=_RUN_SECONDS)[0] for reader in readers]
    if any(reader.returncode != 0 for reader in readers):
        raise AssertionError("the checkpoint was not read at another host")
    return float(said[0])


def run_reader(rank: int, folder: pathlib.Path) -> None:
    """Rank 0 is at the host without the checkpoint, and reads it; rank 1 is where it lies, and links the hosts."""
    import torch

    from harmonaize import checkpoint, nccl

    path = folder / "reader.id"
    if rank == 0:
        path.with_suffix(".new").write_bytes(bytes(nccl.UniqueId.new()))
        path.with_suffix(".new").rename(path)
    while not path.exists():
        time.sleep(0.01)
    communicator = nccl.Communicator.init(nccl.UniqueId(path.read_bytes()), 2, rank)
    shapes = json.loads((folder / "shapes.json").read_text())
    state = {name: torch.zeros(shape) for name, shape in shapes.items()}
    communicator.barrier()
    begin = time.monotonic()
    with checkpoint.open(communicator) as saved:
        if rank == 0:
            if saved.place != "peer":
                raise AssertionError(f"it was read from {saved.place}")
            saved.read_into(state)
            print(time.monotonic() - begin, flush=True)
        communicator.barrier()
    communicator.destroy()


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

    def steps() -> tuple[int, float]:
        """Returns how many steps were taken, and their seconds."""
        begin = time.monotonic()
        count = 0
        while time.monotonic() - begin < options.interval:
            torch.mm(matrix, matrix)
            count += 1
        return count, time.monotonic() - begin

    steps()
    count, seconds = steps()
    alone = seconds / count
    way = WAYS[options.way](pathlib.Path(options.folder))
    waits: list[float] = []
    stalls: list[float] = []
    means: list[float] = []
    wholes: list[float] = []
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
        count, seconds = steps()
        means.append(seconds / count)
        wholes.append((waits[-1] + stalls[-1] + seconds) / count)
    way.finish()
    wanted = {name: float(tensor[0, 0]) for name, tensor in state.items()}
    for tensor in state.values():
        tensor.zero_()
    dist.barrier()
    reads = way.read(state)
    if reads and any(float(tensor[-1, -1]) != wanted[name] for name, tensor in state.items()):
        raise AssertionError("another state was read than was saved")
    dist.barrier()
    found = {"waits": waits, "stalls": stalls, "steps": means, "wholes": wholes, "alone": [alone], "reads": reads}
    print(json.dumps(found), flush=True)


# The run


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def daemon(folder: pathlib.Path, host: int, variable: str) -> typing.Iterator[None]:
    """A daemon whose socket the variable names."""
    own = folder / f"host{host}"
    own.mkdir()
    path = own / "d.sock"
    configuration = own / "provider.toml"
    configuration.write_text(
        f'[state]\npath = "{own}/state"\n[calibration]\nagain = false\n[checkpoint]\nstore = "{folder}/provider"\n'
        f'[cluster]\naddress = "127.0.0.{host}:0"\nkey_file = "{folder}/key"\n'
    )
    command = [str(BUILD / "bin" / "harmonaized"), "--socket", str(path), "--config", str(configuration)]
    with (own / "daemon.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        deadline = time.monotonic() + _START_SECONDS
        while not path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the daemon has not come up:\n{(own / 'daemon.log').read_text()}")
            time.sleep(0.05)
        os.environ[variable] = str(path)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)


@contextlib.contextmanager
def daemons(folder: pathlib.Path) -> typing.Iterator[None]:
    """The daemon of the ranks that save, and one of another host."""
    (folder / "provider").mkdir(mode=0o700)
    key = folder / "key"
    key.touch(0o600)
    key.write_text(secrets.token_hex(32))
    with daemon(folder, 1, "HARMONAIZE_SOCKET"), daemon(folder, 2, "HARMONAIZE_PEER_SOCKET"):
        yield


def run_way(options: argparse.Namespace, way: str, folder: pathlib.Path) -> dict[str, typing.Any] | str:
    """Returns what the slowest rank has measured, or why there is nothing."""
    own = folder / "".join(one for one in way if one.isalnum())
    own.mkdir()
    command = [sys.executable, __file__, "--way", way, "--folder", str(own)]
    command += [f"--{name}={getattr(options, name)}" for name in ("megabytes", "tensors", "ranks", "saves", "interval")]
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
            for what in ("waits", "stalls", "steps", "wholes", "alone")
        },
        "reads": {
            place: max(answer["reads"][place] for answer in answers if place in answer["reads"])
            for place in answers[0]["reads"]
        },
    }


def line(way: str, found: dict[str, typing.Any] | str, best: float) -> str:
    if isinstance(found, str):
        return f"{way:30} {found}"
    later = statistics.median(found["stalls"][1:])
    reads = "".join(f"{found['reads'].get(place, float('nan')) * 1e3:9.0f}" for place in PLACES)
    return (
        f"{way:30}{found['stalls'][0] * 1e3:9.1f}{later * 1e3:9.1f}{later / best:8.1f}"
        f"{statistics.median(found['waits'][1:]) * 1e3:9.1f}"
        f"{statistics.mean(found['steps'][1:]) / found['alone'][0]:8.2f}"
        f"{statistics.mean(found['wholes'][1:]) / found['alone'][0]:8.2f}{reads}"
    ).replace("nan", "  -")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the state (default: 1000)")
    parser.add_argument("--tensors", type=int, default=300, help="in so many tensors (default: 300)")
    parser.add_argument("--ranks", type=int, default=1, help="default: 1")
    parser.add_argument("--saves", type=int, default=5, help="default: 5")
    parser.add_argument("--interval", type=float, default=10, help="seconds of steps after each save (default: 10)")
    parser.add_argument(
        "--ways", default=";".join(WAYS), help=f"of these, separated by ';' (default: all): {';'.join(WAYS)}"
    )
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where files are written")
    parser.add_argument("--json", help="file for the numbers")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--reader", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reader is not None:
        run_reader(options.reader, pathlib.Path(options.folder))
        return
    if options.way is not None:
        run_rank(options)
        return
    if options.saves < 2:  # noqa: PLR2004
        parser.error("--saves has to be 2 or more: the first one is apart")
    results: dict[str, typing.Any] = {}
    for way in options.ways.split(";"):
        # Daemons that another way's ranks have linked would have copies at both hosts.
        with tempfile.TemporaryDirectory(prefix="harmonaize-", dir=options.folder) as name, daemons(pathlib.Path(name)):
            results[way] = run_way(options, way, pathlib.Path(name))
        print(f"{way}: {results[way]}", file=sys.stderr, flush=True)
    measured = {way: found for way, found in results.items() if not isinstance(found, str)}
    later = {way: statistics.median(found["stalls"][1:]) for way, found in measured.items()}
    size = f"{options.megabytes} MB in {options.tensors} tensors, {options.ranks} ranks"
    print(f"{size}; milliseconds, and ratios to the least stall")
    print(f"{'':30}{'first':>9}{'later':>9}{'ratio':>8}{'wait':>9}{'step':>8}{'whole':>8}" + "".join(f"{place:>9}" for place in PLACES))
    for way, found in results.items():
        print(line(way, found, min(later.values())))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"options": vars(options), "results": results}, indent=1))


if __name__ == "__main__":
    main()
