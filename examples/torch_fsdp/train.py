"""Trains a small transformer on the source text of Python's standard library, with sharded parameters (FSDP2).

    harmonaize run -n 4 -- python3 train.py                     # PyTorch over Harmonaize
    torchrun --nproc-per-node 4 train.py --backend gloo         # the same with another backend
    torchrun --nproc-per-node 4 train.py --backend nccl         # on GPUs

The transformer learns to predict the next character. Each rank keeps its part of every parameter, gradient and
optimizer state. The ranks gather a layer's parameters when they compute with it, and scatter the sums of its
gradients. At the end rank 0 prints the loss on text that was not trained on, before and after.

All runs start from the same weights and see the same text in the same order, whatever the backend and the number
of ranks. So their losses compare, apart from the rounding of sums in another order.

It needs PyTorch 2.7 or later, and nothing else: the text comes with Python.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import pathlib
import sys
import sysconfig
import time

import torch
import torch.distributed as dist
from torch import nn

try:
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor

    # That of 2.6 works on GPUs alone: it records events on streams, which its CPU streams cannot.
    HAS_FSDP2 = hasattr(torch.cpu.Stream, "record_event")
except ImportError:
    HAS_FSDP2 = False
if not HAS_FSDP2:
    sys.exit(
        f"this example needs fully_shard (FSDP2) of PyTorch 2.7 or later, and this is PyTorch {torch.__version__}: "
        "examples/torch_ddp trains with any"
    )

# A character is a byte below 128. Others count as "?".
VOCABULARY = 128
CONTEXT = 128

# The highest rate, in the middle of the training. It suits the default size, and half of it.
LEARNING_RATE = 5e-3

# Divides by 1 to 4, 6 and 8 ranks.
TEST_WINDOWS = 48


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="harmonaize", help="of torch.distributed (default: harmonaize)")
    parser.add_argument("--steps", type=int, default=150, help="steps of the optimizer (default: 150)")
    parser.add_argument(
        "--batch",
        type=int,
        default=24,
        help="pieces of text in a step, of all ranks together: each takes its share (default: 24)",
    )
    parser.add_argument("--layers", type=int, default=4, help="layers of the transformer (default: 4)")
    parser.add_argument("--width", type=int, default=128, help="numbers for a character, in heads of 32 (default: 128)")
    parser.add_argument(
        "--replicas",
        type=int,
        default=1,
        help="copies of the parameters: the ranks are split into so many groups, each of which shares one copy, "
        "and gradients are also averaged over the groups (default: 1)",
    )
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16"],
        default="float32",
        help="type that parameters are gathered and computed in: bfloat16 halves what is gathered; "
        "gradients are summed, and parameters kept, in float32 (default: float32)",
    )
    return parser.parse_args()


@dataclasses.dataclass
class Text:
    """Characters to train on, and others to test with, as numbers."""

    to_train: torch.Tensor
    to_test: torch.Tensor


def load_text() -> Text:
    """Reads the modules of Python's standard library: the last tenth of their text is for the test."""
    modules = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = b"".join(module.read_bytes() for module in modules)
    characters = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    characters = torch.where(characters < VOCABULARY, characters, ord("?"))
    split = len(characters) * 9 // 10
    return Text(characters[:split], characters[split:])


def windows(text: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Returns a piece of text from each start: a context, and the character after it."""
    return text[starts.unsqueeze(1) + torch.arange(CONTEXT + 1)]


class Block(nn.Module):
    """A layer of the transformer: characters attend to those before them, and each is computed with by itself."""

    def __init__(self, width: int) -> None:
        """Makes the layer's weights."""
        super().__init__()
        self.heads = width // 32
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.network_norm = nn.LayerNorm(width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what each character takes from those before it."""
        batch, length, width = x.shape
        parts = self.query_key_value(x).view(batch, length, 3, self.heads, 32).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        mixed: torch.Tensor = self.attention_output(found.transpose(1, 2).reshape(batch, length, width))
        return mixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the layer's output."""
        x = x + self.attend(self.attention_norm(x))
        output: torch.Tensor = x + self.network(self.network_norm(x))
        return output


class Transformer(nn.Module):
    """Predicts the next character of each place in a text."""

    def __init__(self, layers: int, width: int) -> None:
        """Makes all weights."""
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)
        nn.init.normal_(self.characters.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Returns a score of each character of the vocabulary for each place."""
        x = self.characters(text) + self.places.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores


def make_mesh(device: torch.device, replicas: int) -> DeviceMesh:
    """Returns the ranks as replicas times shards. With one replica they are a line."""
    size = dist.get_world_size()
    if replicas < 1 or size % replicas != 0:
        sys.exit(f"--replicas {replicas} does not divide {size} ranks")
    if replicas == 1:
        return init_device_mesh(device.type, (size,), mesh_dim_names=("shard",))
    return init_device_mesh(device.type, (replicas, size // replicas), mesh_dim_names=("replicate", "shard"))


def make_network(arguments: argparse.Namespace, device: torch.device) -> Transformer:
    """Returns the transformer, of which this rank keeps its shard of each parameter."""
    if arguments.width < 1 or arguments.width % 32 != 0:
        sys.exit(f"--width {arguments.width} is not a multiple of 32")
    torch.manual_seed(1)
    network = Transformer(arguments.layers, arguments.width).to(device)
    mesh = make_mesh(device, arguments.replicas)
    policy = MixedPrecisionPolicy(param_dtype=getattr(torch, arguments.precision), reduce_dtype=torch.float32)
    for block in network.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    # By default the outermost parameters stay gathered after a forward pass, also after one that only tests. The
    # optimizer would then be given what is gathered instead of the shards.
    fully_shard(network, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    return network


def bytes_of(network: nn.Module) -> tuple[int, int]:
    """Returns the memory of the parameters that this rank keeps, and of all parameters."""
    parameters = [parameter for parameter in network.parameters() if isinstance(parameter, DTensor)]
    kept = sum(parameter.to_local().numel() * parameter.element_size() for parameter in parameters)
    return kept, sum(parameter.numel() * parameter.element_size() for parameter in parameters)


def loss_of(network: nn.Module, pieces: torch.Tensor) -> torch.Tensor:
    """Returns the average loss of the next characters in the pieces, in nats for a character."""
    scores = network(pieces[:, :-1])
    return nn.functional.cross_entropy(scores.float().flatten(0, 1), pieces[:, 1:].flatten())


def share(pieces: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Returns this rank's share of the pieces, on its device. All shares are of one size."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if len(pieces) % size != 0:
        sys.exit(f"{len(pieces)} pieces of text cannot be shared evenly by {size} ranks")
    return pieces[rank::size].to(device)


def test(network: nn.Module, text: torch.Tensor, device: torch.device) -> float:
    """Returns the loss on windows spread over the text. Each rank tests its share."""
    starts = torch.arange(TEST_WINDOWS) * ((len(text) - CONTEXT - 1) // TEST_WINDOWS)
    with torch.no_grad():
        loss = loss_of(network, share(windows(text, starts), device))
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def loss_by_frequency(text: Text) -> float:
    """Returns the loss on the test's text of someone who knows only how often each character occurs."""
    counts = torch.bincount(text.to_train, minlength=VOCABULARY).double() + 1
    frequencies = counts / counts.sum()
    return -frequencies.log()[text.to_test].mean().item()


def train(network: nn.Module, text: torch.Tensor, arguments: argparse.Namespace, device: torch.device) -> None:
    """Trains on pieces of the text. All ranks draw the same pieces, and each computes with its share."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=LEARNING_RATE, total_steps=arguments.steps)
    dice = torch.Generator().manual_seed(2)
    for _ in range(arguments.steps):
        starts = torch.randint(len(text) - CONTEXT, (arguments.batch,), generator=dice)
        optimizer.zero_grad()
        loss_of(network, share(windows(text, starts), device)).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def join(backend: str) -> torch.device:
    """Joins the default group, and returns the device to compute on."""
    if backend == "harmonaize":
        import harmonaize_torch  # noqa: PLC0415

        harmonaize_torch.register()
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    return device


def main() -> None:
    """Runs one rank."""
    arguments = parse_arguments()
    device = join(arguments.backend)
    text = load_text()
    network = make_network(arguments, device)
    kept, total = bytes_of(network)
    before = test(network, text.to_test, device)
    begun = time.monotonic()
    train(network, text.to_train, arguments, device)
    seconds = time.monotonic() - begun
    after = test(network, text.to_test, device)
    if dist.get_rank() == 0:
        print(
            f"{arguments.backend}: {dist.get_world_size()} ranks, {arguments.steps} steps in {seconds:.1f} s, "
            f"loss {before:.4f} before and {after:.4f} after ({after / math.log(2):.2f} bits a character)\n"
            f"knowing only the frequency of each character: loss {loss_by_frequency(text):.4f}\n"
            f"rank 0 keeps {kept} of {total} bytes of parameters",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
