"""Trains a small network on scikit-learn's pictures of digits, with data parallelism over processes.

    harmonaize run -n 4 -- python3 train.py                     # PyTorch over Harmonaize
    torchrun --nproc-per-node 4 train.py --backend gloo         # the same with another backend
    torchrun --nproc-per-node 4 train.py --backend nccl         # on GPUs

Each rank trains on its share of the pictures; DistributedDataParallel averages the gradients. At the end the
ranks test their shares of other pictures, and rank 0 prints the accuracy. With the same number of ranks all
backends start from the same weights, and see the same pictures in the same order.
"""

from __future__ import annotations

import argparse
import os
import time

import sklearn.datasets
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

TEST_PICTURES = 360


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="harmonaize", help="of torch.distributed (default: harmonaize)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the pictures (default: 10)")
    parser.add_argument("--batch", type=int, default=32, help="pictures of a rank and step (default: 32)")
    parser.add_argument("--workers", type=int, default=0, help="processes of a rank that load data (default: 0)")
    return parser.parse_args()


def load_pictures(device: torch.device) -> tuple[TensorDataset, TensorDataset]:
    """Returns the pictures to train on, and those to test with. They come with scikit-learn."""
    digits = sklearn.datasets.load_digits()
    pictures = torch.tensor(digits.images, dtype=torch.float32, device=device).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.long, device=device)
    return (
        TensorDataset(pictures[:-TEST_PICTURES], labels[:-TEST_PICTURES]),
        TensorDataset(pictures[-TEST_PICTURES:], labels[-TEST_PICTURES:]),
    )


def make_network() -> nn.Module:
    """Returns the network, with the same weights in every rank."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def accuracy(network: nn.Module, pictures: TensorDataset, device: torch.device) -> float:
    """Returns the fraction of pictures that the network names. Each rank tests every size-th picture."""
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = pictures.tensors
    with torch.no_grad():
        right = (network(images[rank::size]).argmax(1) == labels[rank::size]).sum()
    counts = torch.tensor([right.item(), len(labels[rank::size])], dtype=torch.float64, device=device)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def train(arguments: argparse.Namespace, device: torch.device) -> float:
    """Trains, and returns the accuracy on the pictures of the test."""
    to_train, to_test = load_pictures(device)
    network = DistributedDataParallel(make_network().to(device))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(to_train, seed=2)
    loader = DataLoader(to_train, arguments.batch, sampler=sampler, num_workers=arguments.workers)
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
    return accuracy(network, to_test, device)


def main() -> None:
    """Runs one rank."""
    arguments = parse_arguments()
    if arguments.backend == "harmonaize":
        import harmonaize_torch  # noqa: PLC0415

        harmonaize_torch.register()
    device = torch.device("cpu")
    if arguments.backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group(arguments.backend)
    begun = time.monotonic()
    right = train(arguments, device)
    if dist.get_rank() == 0:
        print(
            f"{arguments.backend}: {dist.get_world_size()} ranks, {arguments.epochs} epochs, "
            f"accuracy {right:.4f}, {time.monotonic() - begun:.1f} s",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
