"""One rank of the programs of this folder, which start it: measures what it is ordered to over a socket."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import typing

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

Call = typing.Callable[[bool], typing.Any]


def make_tensor(elements: int, memory: str) -> torch.Tensor:
    """Returns ones, in memory of the kind."""
    if memory != "registered":
        return torch.ones(elements)
    import harmonaize_torch  # noqa: PLC0415

    return harmonaize_torch.empty(elements).fill_(1)


def make_call(collective: str, size: int, memory: str) -> Call:
    """Returns what calls the collective once; its argument is async_op."""
    ranks = dist.get_world_size()
    count = max(size // 4 // ranks, 1) * ranks
    whole = make_tensor(count, memory)
    if collective == "all_reduce":
        return lambda later: dist.all_reduce(whole, async_op=later)
    if collective == "broadcast":
        return lambda later: dist.broadcast(whole, 0, async_op=later)
    if collective == "all_to_all":
        received = make_tensor(count, memory)
        return lambda later: dist.all_to_all_single(received, whole, async_op=later)
    part = make_tensor(count // ranks, memory)
    if collective == "all_gather":
        return lambda later: dist.all_gather_into_tensor(whole, part, async_op=later)
    return lambda later: dist.reduce_scatter_tensor(part, whole, async_op=later)


def seconds_of(call: Call, mode: str, calls: int) -> float:
    """Returns the seconds that one of so many calls takes."""
    later = mode == "async"
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(calls):
        work = call(later)
        if later:
            work.wait()
    return (time.perf_counter() - begun) / calls


class Collectives:
    """Measures collectives. What one needs is kept for the next order."""

    def __init__(self) -> None:
        """Keeps nothing."""
        self.what: tuple[typing.Any, ...] = ()
        self.call: Call | None = None

    def measure(self, order: dict[str, typing.Any]) -> dict[str, typing.Any]:
        """Returns the seconds that a call takes."""
        what = (order["collective"], order["size"], order["memory"])
        if self.what != what or self.call is None:
            self.call = None  # gives the memory back before there is more
            self.call = make_call(*what)
            self.what = what
        return {"seconds": seconds_of(self.call, order["mode"], order["calls"])}


# ---------------------------------------------------------------------------------------------------------------------
# Training


def make_network(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Returns a network, with inputs and labels for a step: that of examples/torch_ddp, or 100 million parameters."""
    torch.manual_seed(dist.get_rank())
    if name == "digits":
        layers: list[nn.Module] = [
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
        ]
        layers += [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)]
        return nn.Sequential(*layers), torch.rand(32, 1, 8, 8), torch.randint(10, (32,))
    width, depth = 2048, 24
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers), torch.rand(8, width), torch.randint(width, (8,))


class Training:
    """Measures steps of data-parallel training. The network is kept for the next order."""

    def __init__(self) -> None:
        """Keeps nothing."""
        self.name = ""
        self.network: DistributedDataParallel | None = None
        self.inputs = torch.empty(0)
        self.labels = torch.empty(0)

    def measure(self, order: dict[str, typing.Any]) -> dict[str, typing.Any]:
        """Returns the seconds of a step, with or without the gradients' exchange, and the gradients' bytes."""
        if self.network is None or self.name != order["network"]:
            self.network = None
            made, self.inputs, self.labels = make_network(order["network"])
            self.network, self.name = DistributedDataParallel(made), order["network"]
        dist.barrier()
        begun = time.perf_counter()
        for _ in range(order["steps"]):
            with contextlib.nullcontext() if order["exchange"] else self.network.no_sync():
                nn.functional.cross_entropy(self.network(self.inputs), self.labels).backward()
        seconds = (time.perf_counter() - begun) / order["steps"]
        self.network.zero_grad(set_to_none=False)
        return {"seconds": seconds, "bytes": sum(one.numel() * 4 for one in self.network.parameters())}


# ---------------------------------------------------------------------------------------------------------------------
# Orders


def serve(orders: typing.TextIO) -> None:
    """Measures what is ordered, a line of JSON each, and answers with seconds or with what is wrong."""
    measurers: dict[str, Collectives | Training] = {"collective": Collectives(), "training": Training()}
    for line in orders:
        order = json.loads(line)
        try:
            answer = measurers[order["kind"]].measure(order)
        except (RuntimeError, AttributeError) as error:
            answer = {"error": str(error).splitlines()[0]}
        orders.write(json.dumps(answer) + "\n")
        orders.flush()


def main() -> None:
    """Forms the group and serves until the socket closes: rank.py BACKEND SOCKET."""
    backend, path = sys.argv[1:]
    if backend == "harmonaize":
        import harmonaize_torch  # noqa: PLC0415

        harmonaize_torch.register()
    torch.set_num_threads(1)
    with socket.socket(socket.AF_UNIX) as parent:
        parent.connect(path)
        dist.init_process_group(backend)
        with parent.makefile("rw", encoding="utf-8") as orders:
            orders.write(os.environ["RANK"] + "\n")
            orders.flush()
            serve(orders)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
