"""Trains a small network on scikit-learn's pictures of digits, and goes on when ranks are lost, leave or come.

    harmonaize run -n 4 --elastic 2:4 --name digits -- python3 train.py

All ranks together take the same batch in each step whatever their number, so the training's course stays the same.
"""

from __future__ import annotations

import argparse

from harmonaize import elastic
from torch.nn.parallel import DistributedDataParallel

import digits


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = digits.parser_of(__doc__)
    parser.add_argument("--least-ranks", type=int, default=1, help="end when fewer are left (default: 1)")
    return parser.parse_args()


def train(state: elastic.TorchState) -> tuple[float, float]:
    """Trains from where the state is. It is called again whenever the ranks have changed."""
    world, share = state.world, state.share("batch")
    log = digits.Log(arguments.log if world.rank == 0 else None)
    log.write(ranks=world.size, begins_at=state.step)
    network = DistributedDataParallel(state.network)
    while state.step < arguments.steps and not state.should_stop():
        pictures = digits.batch(arguments.seed, state.step, share.first, share.samples)
        loss = digits.advance(network, state.optimizer, pictures, share.weight, arguments.picture_ms)
        state.step += 1
        log.write(ranks=world.size, step=state.step, loss=loss)
        state.commit()
        state.check()
    test_loss, accuracy = digits.test(state.network)
    log.write(ranks=world.size, test_loss=test_loss, accuracy=accuracy)
    return test_loss, accuracy


def main() -> None:
    """Runs one rank: one of the first, or a newcomer."""
    network = digits.make_network(arguments.seed)
    state = elastic.TorchState(network=network, optimizer=digits.make_optimizer(network), step=0)
    result = elastic.run(
        train,
        state,
        policies={"batch": elastic.keep_global_batch(digits.BATCH)},
        least_ranks=arguments.least_ranks,
    )
    if result is None:
        print(f"this rank has left after step {state.step}", flush=True)
    else:
        print(f"{state.step} steps, test loss {result[0]:.4f}, accuracy {result[1]:.4f}", flush=True)


if __name__ == "__main__":
    arguments = parse_arguments()
    main()
