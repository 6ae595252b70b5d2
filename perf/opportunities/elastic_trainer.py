#!/usr/bin/env python3
"""A rank of an elastic training: a perceptron with data parallelism, whose ranks come and leave by offers, and whose
batch follows advice. Rank 0 writes lines of JSON. See --help."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
import typing

import numpy as np

import harmonaize
from harmonaize import elastic

# All ranks and seeds train for the same teacher and held-out samples: only then can losses be compared.
TEACHER_SEED = 20261128
HELD_OUT = 2048
WIDTHS = (32, 256, 256, 10)
LABEL_NOISE = 0.05
MOMENTUM = 0.9
# Held-out losses of which the mean counts: a single one goes up and down by some percent.
SMOOTHED = 4


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first parameters and of the samples")
    parser.add_argument("--batch", type=int, default=64, help="samples of a pass, of all ranks together")
    parser.add_argument("--accumulation", type=int, default=1, help="passes for each exchange")
    parser.add_argument("--learning-rate", type=float, default=0.04)
    parser.add_argument("--sample-ms", type=float, default=1,
                        help="pause for each sample of a rank, which stands for an accelerator's time")
    parser.add_argument("--until-loss", type=float, default=0, help="end at this held-out loss")
    parser.add_argument("--samples", type=float, default=1e12, help="end after so many samples")
    parser.add_argument("--evaluate-samples", type=float, default=2048, help="from one held-out loss to the next")
    parser.add_argument("--follow", action="store_true", help="take over what adaptation.advised says")
    return parser.parse_args()


class Teacher:
    """Labels random samples by a random network with a hidden layer; some labels are random."""

    def __init__(self) -> None:
        random = np.random.default_rng(TEACHER_SEED)
        self._first = random.normal(size=(WIDTHS[0], 64)).astype(np.float32) / WIDTHS[0] ** 0.5
        self._second = random.normal(size=(64, WIDTHS[-1])).astype(np.float32)

    def draw(self, seed: typing.Sequence[int], count: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the same samples for a seed, whichever rank asks."""
        random = np.random.default_rng(seed)
        inputs = random.normal(size=(count, WIDTHS[0])).astype(np.float32)
        labels = np.argmax(np.maximum(inputs @ self._first, 0) @ self._second, axis=1)
        noisy = random.random(count) < LABEL_NOISE
        return inputs, np.where(noisy, random.integers(0, WIDTHS[-1], count), labels)


class Perceptron:
    """Linear layers with ReLU and a cross-entropy over parameters that lie in one array."""

    def __init__(self) -> None:
        self._shapes = list(zip(WIDTHS[:-1], WIDTHS[1:]))
        self.size = sum(rows * columns + columns for rows, columns in self._shapes)

    def initial(self, seed: int) -> np.ndarray:
        """Returns first parameters."""
        random = np.random.default_rng(seed)
        parameters = np.zeros(self.size, np.float32)
        for weights, _ in self._layers(parameters):
            weights[:] = random.normal(size=weights.shape) * (2 / weights.shape[0]) ** 0.5
        return parameters

    def loss(self, parameters: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> float:
        """Returns the mean loss."""
        _, probabilities = self._forward(parameters, inputs)
        return float(-np.log(probabilities[np.arange(len(labels)), labels] + 1e-12).mean())

    def add_gradients(self, parameters: np.ndarray, inputs: np.ndarray, labels: np.ndarray, scale: float,
                      gradients: np.ndarray) -> None:
        """Adds the gradients of the sum of the samples' losses, times a scale."""
        activations, error = self._forward(parameters, inputs)
        error[np.arange(len(labels)), labels] -= 1
        error *= scale
        layers, added = list(self._layers(parameters)), list(self._layers(gradients))
        for place in reversed(range(len(layers))):
            added[place][0][:] += activations[place].T @ error
            added[place][1][:] += error.sum(axis=0)
            if place > 0:
                error = (error @ layers[place][0].T) * (activations[place] > 0)

    def _layers(self, array: np.ndarray) -> typing.Iterator[tuple[np.ndarray, np.ndarray]]:
        begin = 0
        for rows, columns in self._shapes:
            weights = array[begin : begin + rows * columns].reshape(rows, columns)
            begin += rows * columns
            yield weights, array[begin : begin + columns]
            begin += columns

    def _forward(self, parameters: np.ndarray, inputs: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        activations = [inputs]
        outputs = inputs
        for place, (weights, bias) in enumerate(self._layers(parameters)):
            outputs = activations[-1] @ weights + bias
            if place + 1 < len(self._shapes):
                activations.append(np.maximum(outputs, 0))
        outputs = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return activations, outputs / outputs.sum(axis=1, keepdims=True)


class Trainer:
    """The training function, and what rank 0 tells and hears."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._job = os.environ["HARMONAIZE_JOB"]
        self._model = Perceptron()
        self._teacher = Teacher()
        self._held_out = self._teacher.draw([TEACHER_SEED], HELD_OUT)
        self._advice: typing.Any = None
        self.state = elastic.NumpyState(
            parameters=self._model.initial(options.seed), velocity=np.zeros(self._model.size, np.float32), step=0,
            samples=0.0, seconds=0.0, rank_seconds=0.0, accumulation=options.accumulation, factor=1.0,
            evaluated_at=0.0, recent=[], bytes_exchanged=0.0, marked_at=0.0)

    def train(self, state: elastic.NumpyState) -> None:
        """Trains until the goal, or until the ranks change."""
        communicator, world, share = state.communicator, state.world, state.share("batch")
        self._write("world", ranks=world.size)
        gradients = np.zeros(self._model.size, np.float32)
        control = np.zeros(5)  # goes on, accumulation, learning rate's factor, the time, what of it does not count
        evaluating = 0.0
        while True:
            if world.rank == 0:
                control[:] = (not self._is_done(), *self._advised(), time.time(), evaluating)
            communicator.broadcast(control)
            self._count(float(control[3]), float(control[4]))
            state.accumulation, state.factor = int(control[1]), float(control[2])
            if not control[0]:
                return
            self._step(gradients, share)
            communicator.all_reduce(gradients)
            self._descend(gradients)
            state.commit()
            if world.rank == 0:
                self._tell()
            state.check()
            evaluating = self._evaluate() if world.rank == 0 else 0.0

    def end(self) -> None:
        """Writes what came out."""
        state = self.state
        self._write("end", ranks=0, seconds_to_loss=state.seconds, bytes_exchanged=state.bytes_exchanged)

    def _count(self, now: float, left_out: float) -> None:
        """Takes in what rank 0's clock says. The time of a change counts, that of an evaluation does not."""
        state = self.state
        passed = now - (state.marked_at or now) - left_out
        state.seconds += passed
        state.rank_seconds += passed * state.world.size
        state.marked_at = now

    def _step(self, gradients: np.ndarray, share: elastic.Share) -> None:
        state = self.state
        gradients.fill(0)
        passes = state.accumulation
        for number in range(passes):
            inputs, labels = self._teacher.draw([self._options.seed, state.step, number], share.global_batch)
            mine = slice(share.first, share.first + share.samples)
            self._model.add_gradients(state.parameters, inputs[mine], labels[mine],
                                      1 / (share.global_batch * passes), gradients)
            time.sleep(self._options.sample_ms * 1e-3 * share.samples)

    def _descend(self, gradients: np.ndarray) -> None:
        state = self.state
        state.velocity *= MOMENTUM
        state.velocity += gradients
        state.parameters -= np.float32(self._options.learning_rate * state.factor) * state.velocity
        state.step += 1
        state.samples += float(self._options.batch * state.accumulation)
        state.bytes_exchanged += float(gradients.nbytes)

    def _is_done(self) -> bool:
        recent = self.state.recent
        reached = len(recent) == SMOOTHED and sum(recent) / SMOOTHED <= self._options.until_loss
        return reached or self.state.samples >= self._options.samples

    def _evaluate(self) -> float:
        """Computes the held-out loss now and then. Returns for how long it took."""
        state = self.state
        if state.samples - state.evaluated_at < self._options.evaluate_samples:
            return 0.0
        began = time.time()
        loss = self._model.loss(state.parameters, *self._held_out)
        state.recent = [*state.recent, loss][-SMOOTHED:]
        state.evaluated_at = state.samples
        self._write("evaluated", loss=loss)
        return time.time() - began

    def _tell(self) -> None:
        state = self.state
        if state.step == 1:
            self._write("ready")
        with contextlib.suppress(harmonaize.HarmonaizeError):
            harmonaize.connect().report_progress(
                self._job, state.step, state.samples, batch_size=self._options.batch * state.accumulation,
                accumulation=state.accumulation, learning_rate_factor=state.factor,
                samples_in_all=self._options.samples if self._options.samples < 1e12 else None)
        self._write("step")

    def _advised(self) -> tuple[int, float]:
        """Returns the accumulation and the learning rate's factor, by the newest advice."""
        state = self.state
        chosen = state.accumulation, state.factor
        if not self._options.follow:
            return chosen
        with contextlib.suppress(harmonaize.HarmonaizeError):
            if self._advice is None:
                self._advice = harmonaize.connect().events("adaptation.advised", job=self._job)
            while (event := self._advice.next(0)) is not None:
                data = getattr(event, "data", {})
                if data.get("setting") == "accumulation":
                    chosen = round(data["to"]), float(data.get("learning_rate_factor") or chosen[1])
                    self._write("followed", accumulation=chosen[0], factor=chosen[1], why=data.get("why", ""))
        return chosen

    def _write(self, event: str, **fields: typing.Any) -> None:
        state = self.state
        if event == "end" or state.world.rank == 0:
            common = {"event": event, "unix_seconds": time.time(), "step": state.step, "samples": state.samples,
                      "seconds": state.seconds, "rank_seconds": state.rank_seconds,
                      "accumulation": state.accumulation}
            # One write for a line: ranks of a host share the file.
            os.write(1, (json.dumps({**common, **fields}) + "\n").encode())


def main() -> None:
    """Trains."""
    options = parse()
    trainer = Trainer(options)

    def train(state: elastic.NumpyState) -> bool:
        trainer.train(state)
        return state.world.rank == 0

    policies = {"batch": elastic.keep_global_batch(options.batch)}
    leads = elastic.run(train, trainer.state, policies=policies, progress=None)
    if leads:
        trainer.end()


if __name__ == "__main__":
    main()
