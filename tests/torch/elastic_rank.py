"""A rank of an elastic training with DistributedDataParallel. It ends by comparing its parameters with those of the
same steps made alone, bit by bit. The line "stop" of its input ends the training.
"""

from __future__ import annotations

import sys
import threading
import time

import torch
from harmonaize import elastic
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 24
# Between two steps, so that a test that kills a rank does so in the midst of them.
PAUSE_SECONDS = 0.02


def make() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A module and an optimizer that has a state of its own."""
    torch.manual_seed(1)
    model = nn.Linear(4, 1, bias=False).double()
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def advance(model: nn.Module, optimizer: torch.optim.Optimizer, samples: int, size: int, step: int) -> None:
    """Does a step, whose gradient is BATCH times the step's number: numbers that floating point adds exactly, and
    averages exactly over 1, 2 or 4 ranks.
    """
    optimizer.zero_grad()
    loss = model(torch.full((samples, 4), float(step), dtype=torch.float64)).sum() * size
    loss.backward()
    optimizer.step()


def train(state: elastic.TorchState) -> str:
    world = state.world
    print("world", world.rank, world.size, flush=True)
    model = DistributedDataParallel(state.model)
    samples = state.share("batch").samples
    while not state.should_stop():
        advance(model, state.optimizer, samples, world.size, state.step + 1)
        state.step += 1
        state.commit()
        print("step", state.step, flush=True)
        time.sleep(PAUSE_SECONDS)
        state.check()
    return "done"


def stop_when_told(state: elastic.TorchState) -> None:
    """Waits for the order."""
    if sys.stdin.readline().strip() == "stop":
        state.stop()


def main() -> None:
    model, optimizer = make()
    state = elastic.TorchState(model=model, optimizer=optimizer, step=0)
    threading.Thread(target=stop_when_told, args=(state,), daemon=True).start()
    result = elastic.run(train, state, policies={"batch": elastic.keep_global_batch(BATCH)}, patience=60)
    alone, its_optimizer = make()
    for step in range(1, state.step + 1):
        advance(alone, its_optimizer, BATCH, 1, step)
    same = all(torch.equal(*pair) for pair in zip(alone.parameters(), model.parameters(), strict=True))
    print("end", result, "step", state.step, "same" if same else "other", flush=True)


if __name__ == "__main__":
    main()
