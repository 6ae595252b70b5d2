"""A rank of an elastic training with checkpoints: elastic_checkpoint_rank.py FOLDER EVERY [torch]. FOLDER "-": in
memory alone; EVERY 0: when advised.

Each step adds its number to all elements, so that the state tells which steps it has. Lines of the input are orders:
"leave" and "stop". It prints a line for each membership, with the step from which it goes on, and for each step.
"""

from __future__ import annotations

import sys
import threading
import time
import typing

import numpy as np

from harmonaize import elastic

PAUSE_SECONDS = 0.01


def say(*words: object) -> None:
    print(*words, flush=True)


class Orders:
    """What the test tells this rank, read by a thread of its own."""

    def __init__(self) -> None:
        self.words: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.words.append(line.strip())


def torch_state() -> tuple[typing.Any, typing.Callable[[typing.Any, int], None]]:
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    model = torch.nn.Linear(20, 10)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(state: typing.Any, number: int) -> None:
        state.optimizer.zero_grad()
        state.model(torch.full((2, 20), 1.0 + number)).sum().backward()
        state.optimizer.step()

    return elastic.TorchState(None, model=model, optimizer=optimizer, step=0), step


def numpy_state() -> tuple[typing.Any, typing.Callable[[typing.Any, int], None]]:
    def step(state: typing.Any, number: int) -> None:
        state.total += number

    return elastic.NumpyState(total=np.zeros((100, 7)), counts=np.zeros(3, np.int32), step=0), step


def digest(state: typing.Any) -> str:
    """Returns a text that is the same for the same state."""
    if hasattr(state._values.get("model"), "state_dict"):
        return f"{float(state.model.weight.double().sum()):.12g}"
    return f"{float(state.total.sum()):.12g}"


def main() -> None:
    folder = None if sys.argv[1] == "-" else sys.argv[1]
    every = int(sys.argv[2]) or None
    orders = Orders()
    state, step = torch_state() if "torch" in sys.argv else numpy_state()

    def train(state: typing.Any) -> str:
        say("world", state.world.rank, state.world.size, state.world.epoch)
        say("from", state.step, digest(state))
        while not state.should_stop():
            for word in orders.words:
                (state.leave if word == "leave" else state.stop)()
            orders.words.clear()
            step(state, state.step + 1)
            state.step += 1
            state.commit()
            say("step", state.step, digest(state))
            time.sleep(PAUSE_SECONDS)
            state.check()
        return "done"

    config = elastic.Checkpoints(folder, every)
    result = elastic.run(train, state, checkpoint=config, patience=40)
    say("end", result, "step", state.step)


if __name__ == "__main__":
    main()
