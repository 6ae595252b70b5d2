"""The training of train.py as it is without elasticity: it saves checkpoints, and is started anew when ranks change.

    harmonaize run -n 4 -- python3 restarting.py --checkpoint digits.pt

Any launcher will do. It begins at the checkpoint if there is one.
"""

from __future__ import annotations

import argparse
import pathlib

import harmonaize_torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import digits


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = digits.parser_of(__doc__)
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="the file to save to and begin at")
    parser.add_argument("--save-every", type=int, default=100, help="steps between two checkpoints (default: 100)")
    return parser.parse_args()


def save(path: pathlib.Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Writes a checkpoint, and has it take the place of the one before when it is complete."""
    unfinished = path.with_suffix(".unfinished")
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, unfinished)
    unfinished.replace(path)


def load(path: pathlib.Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Takes over the checkpoint. Returns the steps that it has; 0: there is none."""
    if not path.exists():
        return 0
    saved = torch.load(path)
    network.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def train(arguments: argparse.Namespace, log: digits.Log) -> tuple[float, float]:
    """Trains from the checkpoint to the end."""
    module = digits.make_network(arguments.seed)
    optimizer = digits.make_optimizer(module)
    step = load(arguments.checkpoint, module, optimizer)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    log.write(ranks=ranks, begins_at=step)
    network = DistributedDataParallel(module)
    first, end = (digits.BATCH * one // ranks for one in (rank, rank + 1))
    weight = (end - first) * ranks / digits.BATCH
    while step < arguments.steps:
        pictures = digits.batch(arguments.seed, step, first, end - first)
        loss = digits.advance(network, optimizer, pictures, weight, arguments.picture_ms)
        step += 1
        log.write(ranks=ranks, step=step, loss=loss)
        if step % arguments.save_every == 0 and rank == 0:
            save(arguments.checkpoint, module, optimizer, step)
    test_loss, accuracy = digits.test(module)
    log.write(ranks=ranks, test_loss=test_loss, accuracy=accuracy)
    return test_loss, accuracy


def main() -> None:
    """Runs one rank."""
    arguments = parse_arguments()
    harmonaize_torch.register()
    dist.init_process_group("harmonaize")
    test_loss, accuracy = train(arguments, digits.Log(arguments.log if dist.get_rank() == 0 else None))
    print(f"{arguments.steps} steps, test loss {test_loss:.4f}, accuracy {accuracy:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
