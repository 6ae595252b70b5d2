"""What both trainings of this folder share and what has nothing to do with elasticity: pictures, network, one step."""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import time

import sklearn.datasets
import torch
import torch.distributed as dist
from torch import nn

TEST_PICTURES = 360
# Pictures of all ranks in one step. It is a multiple of 3 and 4, so that ranks of both numbers have equal shares.
BATCH = 96
LEARNING_RATE = 0.02
MOMENTUM = 0.9
# Without it the network learns these few pictures by heart, and does worse on others from step 500 on.
WEIGHT_DECAY = 0.01

Pictures = tuple[torch.Tensor, torch.Tensor]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the options that both trainings have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="steps of the training (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and the order (default: 1)")
    parser.add_argument("--log", type=pathlib.Path, help="a file to which rank 0 appends a line of JSON for each step")
    parser.add_argument(
        "--picture-ms",
        type=float,
        default=0.0,
        help="a rank pauses so long for each picture, as if an accelerator computed a larger network (default: 0)",
    )
    return parser


@functools.lru_cache(maxsize=1)
def load_pictures() -> tuple[Pictures, Pictures]:
    """Returns the pictures to train on, and those to test with. They come with scikit-learn."""
    digits = sklearn.datasets.load_digits()
    pictures = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.long)
    return (pictures[:-TEST_PICTURES], labels[:-TEST_PICTURES]), (pictures[-TEST_PICTURES:], labels[-TEST_PICTURES:])


@functools.lru_cache(maxsize=1)
def _order(seed: int, epoch: int) -> torch.Tensor:
    count = len(load_pictures()[0][0])
    return torch.randperm(count, generator=torch.Generator().manual_seed(1000 * seed + epoch))


def batch(seed: int, step: int, first: int, count: int) -> Pictures:
    """Returns `count` pictures of a step's batch from `first` on: the same ones, whichever rank takes them."""
    pictures, labels = load_pictures()[0]
    epoch, place = divmod(step, len(pictures) // BATCH)
    chosen = _order(seed, epoch)[place * BATCH + first :][:count]
    return pictures[chosen], labels[chosen]


def make_network(seed: int) -> nn.Module:
    """Returns the network, with the same weights in every rank."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def make_optimizer(network: nn.Module) -> torch.optim.Optimizer:
    """Returns the optimizer."""
    return torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)


def advance(
    network: nn.Module, optimizer: torch.optim.Optimizer, pictures: Pictures, weight: float, picture_ms: float
) -> float:
    """Does a step on this rank's share of the batch, and returns the loss of the whole batch before it.

    `network` averages gradients over the ranks, and `weight` is how much this rank's share counts in that.
    """
    images, labels = pictures
    optimizer.zero_grad()
    loss = torch.mul(nn.functional.cross_entropy(network(images), labels), weight)
    loss.backward()
    time.sleep(len(labels) * picture_ms / 1e3)
    optimizer.step()
    everyones = loss.detach().clone()
    dist.all_reduce(everyones)
    return float(everyones.item()) / dist.get_world_size()


def test(network: nn.Module) -> tuple[float, float]:
    """Returns the loss on pictures that were not trained on, and the fraction of them that the network names."""
    images, labels = load_pictures()[1]
    with torch.no_grad():
        answers = network(images)
    loss = nn.functional.cross_entropy(answers, labels).item()
    return loss, (answers.argmax(1) == labels).double().mean().item()


class Log:
    """A file of JSON lines to which whoever is rank 0 appends."""

    def __init__(self, path: pathlib.Path | None) -> None:
        """Opens it; None: nothing is written."""
        self._file = None if path is None else path.open("a", buffering=1)

    def write(self, **fields: float) -> None:
        """Appends a line, with the time."""
        if self._file is not None:
            self._file.write(json.dumps({"time": time.time(), **fields}) + "\n")
