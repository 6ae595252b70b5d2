"""Trains a network with data parallelism, and saves checkpoints without stopping for them.

    harmonaize run -n 4 --name digits -- python3 train.py --folder /shared/checkpoints/digits

Every so many steps the state goes through torch.distributed.checkpoint's async_save into memory that the host's daemon
keeps, and from there into the folder. A run that was killed goes on where its last checkpoint was when it is started
again, also with another number of ranks.
"""

from __future__ import annotations

import argparse
import os
import signal
import typing

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

from harmonaize import checkpoint
from harmonaize.checkpoint.torch import StorageReader, StorageWriter, communicator_of_group

WIDTH = 256
SAMPLES = 2048


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="of the checkpoints, which all hosts share (default: memory alone)")
    parser.add_argument("--backend", default="harmonaize", help="of torch.distributed (default: harmonaize)")
    parser.add_argument("--steps", type=int, default=200, help="of the whole training (default: 200)")
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints (default: 20)")
    parser.add_argument("--die-at", type=int, help="the rank 0 kills itself after this step, as a lost host would")
    return parser.parse_args()


def make_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what is to be learned, the same on all ranks."""
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(SAMPLES, 32, generator=generator)
    return inputs, (inputs @ torch.randn(32, 1, generator=generator)).tanh()


def state_of(network: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> dict[str, typing.Any]:
    """Returns all that a checkpoint has."""
    model, optim = get_state_dict(network, optimizer)
    return {"model": model, "optimizer": optim, "step": step}


def go_on(network: nn.Module, optimizer: torch.optim.Optimizer, folder: str | None) -> int:
    """Takes the state from the newest checkpoint, if there is one. Returns the step after which it was saved."""
    try:
        with checkpoint.open(communicator_of_group(), folder) as saved:
            where = saved.place
    except checkpoint.NoCheckpointError:
        return 0
    state = state_of(network, optimizer, 0)
    dcp.load(state, storage_reader=StorageReader(folder))
    set_state_dict(network, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    if dist.get_rank() == 0:
        print(f"goes on after step {state['step']}, from {where}, with {dist.get_world_size()} ranks", flush=True)
    return int(state["step"])


def train(arguments: argparse.Namespace) -> float:
    """Trains, and returns the loss of the last step."""
    torch.manual_seed(1)
    network = DistributedDataParallel(nn.Sequential(nn.Linear(32, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    inputs, wanted = make_data()
    rank, size = dist.get_rank(), dist.get_world_size()
    loss = torch.zeros(())
    # PyTorch's thread communicates while the training goes on: in a group of its own, or their operations would mix.
    group = dist.new_group(backend="gloo")
    saving: typing.Any = None
    for step in range(go_on(network, optimizer, arguments.folder) + 1, arguments.steps + 1):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(inputs[rank::size]), wanted[rank::size])
        loss.backward()
        optimizer.step()
        if step % arguments.every == 0:
            if saving is not None:
                saving.result()
            writer = StorageWriter(arguments.folder, step=step)
            state = state_of(network, optimizer, step)
            saving = dcp.async_save(state, storage_writer=writer, process_group=group)
        if step == arguments.die_at and rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    if saving is not None:
        saving.result()
    return loss.item()


def main() -> None:
    """Runs one rank."""
    arguments = parse_arguments()
    if arguments.backend == "harmonaize":
        import harmonaize_torch  # noqa: PLC0415

        harmonaize_torch.register()
    dist.init_process_group(arguments.backend)
    loss = train(arguments)
    if dist.get_rank() == 0:
        print(f"{arguments.steps} steps, loss {loss:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
