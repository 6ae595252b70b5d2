#!/usr/bin/env python3
"""A rank of a training that is killed now and then: it saves its state, and goes on with the newest that is left when
it is started again. Rank 0 writes lines of JSON. See --help."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import time
import typing

import numpy as np
from elastic_trainer import MOMENTUM, Perceptron, Teacher

import harmonaize
from harmonaize import checkpoint, nccl
from harmonaize.documents import parse_time

# The step after which a training is saved for the first time, whatever is advised: that tells what a save costs.
FIRST_SAVE = 20
# Seconds between two tries to hear of advice, which a daemon refuses while it knows nothing of the job.
LISTEN_AGAIN_SECONDS = 0.5


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first parameters and of the samples")
    parser.add_argument("--batch", type=int, default=8, help="samples of a rank and step")
    parser.add_argument("--step-ms", type=float, default=100,
                        help="pause of a step, which stands for an accelerator's time")
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--averaged", type=int, default=100,
                        help="newest parameters that the state has, for their average; 100 make 31 MB")
    parser.add_argument("--folder", type=pathlib.Path,
                        help="write the state there while all ranks wait; without it, save in memory and at a peer")
    parser.add_argument("--storage-mbps", type=float, default=32,
                        help="MB a second that the folder's storage takes and gives (default: 32)")
    parser.add_argument("--every", type=float, default=0,
                        help="seconds from one save to the next; 0: when it is advised")
    return parser.parse_args()


class MemorySaver:
    """Saves in the memory of the hosts, and at a peer."""

    def __init__(self, communicator: nccl.Communicator) -> None:
        self._communicator = communicator
        self._saver: checkpoint.Checkpointer | None = None

    def save(self, step: int, state: dict[str, typing.Any]) -> None:
        """Saves a step's state, the same on all ranks. The daemon takes the time itself."""
        if self._saver is None:
            self._saver = checkpoint.Checkpointer(self._communicator)
        self._saver.save(step, state, replicated=True)

    def restore(self, state: dict[str, typing.Any]) -> tuple[int, str] | None:
        """Fills the state from what is left; returns the step and the place, or None if nothing is."""
        try:
            with checkpoint.open(self._communicator) as saved:
                saved.read_into(state)
                return saved.step, saved.place
        except checkpoint.NoCheckpointError:
            return None


class PacedFile:
    """Writes to a file no faster than at a rate."""

    def __init__(self, file: typing.BinaryIO, bytes_per_second: float) -> None:
        self._file = file
        self._bytes_per_second = bytes_per_second
        self._began = time.monotonic()
        self._bytes = 0

    def write(self, content: bytes) -> int:
        """Writes, and pauses until the rate is kept."""
        written = self._file.write(content)
        self._bytes += written
        time.sleep(max(0.0, self._began + self._bytes / self._bytes_per_second - time.monotonic()))
        return written


class FolderSaver:
    """Writes the state to a file, and has all ranks wait until it is on the disk. What a machine's own disk takes at
    once, storage that many share takes at a rate: the saver pauses for that."""

    def __init__(self, communicator: nccl.Communicator, folder: pathlib.Path, bytes_per_second: float) -> None:
        self._communicator = communicator
        self._file = folder / "state.npy"
        self._bytes_per_second = bytes_per_second

    def save(self, step: int, state: dict[str, typing.Any]) -> None:
        """Saves a step's state."""
        began = time.monotonic()
        if self._communicator.rank == 0:
            self._write(step, state)
        self._communicator.barrier()
        seconds = time.monotonic() - began
        if self._communicator.rank == 0:
            with contextlib.suppress(harmonaize.HarmonaizeError):
                harmonaize.connect().report_save(os.environ["HARMONAIZE_JOB"], step, "storage",
                                                 stall_seconds=seconds, seconds=seconds)

    def restore(self, state: dict[str, typing.Any]) -> tuple[int, str] | None:
        """As MemorySaver's."""
        try:
            with self._file.open("rb") as file:
                step = int(np.load(file)[0])
                for array in state.values():
                    began = time.monotonic()
                    array[...] = np.load(file)
                    time.sleep(max(0.0, began + array.nbytes / self._bytes_per_second - time.monotonic()))
                return step, "storage"
        except FileNotFoundError:
            return None

    def _write(self, step: int, state: dict[str, typing.Any]) -> None:
        unfinished = self._file.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            np.save(file, np.array([step]))
            for array in state.values():
                np.save(PacedFile(file, self._bytes_per_second), array)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._file)
        folder = os.open(self._file.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class Advice:
    """The events that advise a job to save, as they come."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._stream: typing.Any = None
        self._tries_at = 0.0
        self._window_begins: list[float] = []

    def is_due(self) -> bool:
        """Returns whether the window of some advice is open, which is then taken as followed."""
        with contextlib.suppress(harmonaize.HarmonaizeError):
            self._listen()
        due = [begin for begin in self._window_begins if begin <= time.time()]
        self._window_begins = [begin for begin in self._window_begins if begin not in due]
        return bool(due)

    def _listen(self) -> None:
        if self._stream is None and time.monotonic() >= self._tries_at:
            self._tries_at = time.monotonic() + LISTEN_AGAIN_SECONDS
            self._stream = harmonaize.connect().events("checkpoint.advised", job=self._job)
        while self._stream is not None and (event := self._stream.next(0)) is not None:
            data = getattr(event, "data", {"recommended_action": "none"})
            if data.get("recommended_action") != "none":
                begin = data.get("not_before")
                self._window_begins.append(parse_time(begin).timestamp() if begin else 0.0)


class Trainer:
    """The training, and what rank 0 tells and hears."""

    def __init__(self, options: argparse.Namespace, communicator: nccl.Communicator) -> None:
        self._options = options
        self._communicator = communicator
        self._model, self._teacher = Perceptron(), Teacher()
        self._saver: MemorySaver | FolderSaver = (
            MemorySaver(communicator) if options.folder is None
            else FolderSaver(communicator, options.folder, options.storage_mbps * 1e6))
        self._advice = Advice(os.environ["HARMONAIZE_JOB"])
        self._step = 0
        self._saved_at = 0.0
        # `newest` has the parameters of the last steps, of which the average is what comes out of the training.
        self._state = {"parameters": self._model.initial(options.seed),
                       "velocity": np.zeros(self._model.size, np.float32),
                       "newest": np.zeros((options.averaged, self._model.size), np.float32)}

    def run(self) -> None:
        """Restores what is left, and trains until the process is ended."""
        self._restore()
        gradients = np.zeros(self._model.size, np.float32)
        control = np.zeros(1)
        while True:
            self._train(gradients)
            control[0] = self._communicator.rank == 0 and self._is_due()
            self._communicator.broadcast(control)
            self._tell("step", loss=self._loss() if self._step % self._options.averaged == 0 else None)
            if control[0]:
                self._save()

    def _restore(self) -> None:
        began = time.monotonic()
        found = self._saver.restore(self._state)
        self._step, place = found or (0, "nowhere")
        self._communicator.barrier()
        self._saved_at = time.monotonic()
        self._tell("restored", seconds=time.monotonic() - began, place=place, is_whole=self._is_whole())

    def _is_whole(self) -> bool:
        """Returns whether the parts of the state are of one step."""
        place = (self._step - 1) % self._options.averaged
        return self._step == 0 or bool(np.array_equal(self._state["newest"][place], self._state["parameters"]))

    def _train(self, gradients: np.ndarray) -> None:
        rank, ranks, batch = self._communicator.rank, self._communicator.size, self._options.batch
        inputs, labels = self._teacher.draw([self._options.seed, self._step, rank], batch)
        gradients.fill(0)
        self._model.add_gradients(self._state["parameters"], inputs, labels, 1 / (batch * ranks), gradients)
        time.sleep(self._options.step_ms * 1e-3)
        self._communicator.all_reduce(gradients)
        velocity, parameters = self._state["velocity"], self._state["parameters"]
        velocity *= MOMENTUM
        velocity += gradients
        parameters -= np.float32(self._options.learning_rate) * velocity
        self._state["newest"][self._step % self._options.averaged] = parameters
        self._step += 1

    def _is_due(self) -> bool:
        if self._step == FIRST_SAVE:
            return True
        if self._options.every > 0:
            return time.monotonic() >= self._saved_at + float(self._options.every)
        return self._advice.is_due()

    def _save(self) -> None:
        self._saved_at = began = time.monotonic()
        self._saver.save(self._step, self._state)
        self._tell("saved", stall_seconds=time.monotonic() - began)

    def _loss(self) -> float:
        inputs, labels = self._teacher.draw([self._options.seed], 512)
        return self._model.loss(self._state["newest"].mean(axis=0), inputs, labels)

    def _tell(self, event: str, **fields: typing.Any) -> None:
        if self._communicator.rank == 0:
            line = {"event": event, "unix_seconds": time.time(), "step": self._step, **fields}
            os.write(1, (json.dumps(line) + "\n").encode())


def main() -> None:
    """Trains until it is ended."""
    options = parse()
    # The launcher has tried that nobody has this port: it names the ranks' meeting.
    os.environ["NCCL_COMM_ID"] = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    communicator = nccl.Communicator.init(nccl.UniqueId.new(), int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]),
                                          "world")
    Trainer(options, communicator).run()


if __name__ == "__main__":
    main()
