"""Serves a decoder that is split over the ranks (tensor parallelism), and measures how long tokens take.

    harmonaize run -n 2 -- python3 serve.py                         # PyTorch over Harmonaize
    torchrun --nproc-per-node 2 serve.py --backend gloo             # the same with another backend
    torchrun --nproc-per-node 2 serve.py --backend nccl             # on GPUs
    harmonaize run -n 2 -- python3 serve.py --port 8000                 # a server, until SIGINT or SIGTERM

Rank 0 takes requests. In each step it tells all ranks which tokens to compute with: the next of each sequence that
is being generated, and as many of new prompts as fit. All ranks compute their parts of the layers, and have the same
next tokens at the end. Requests join and leave between steps.

Without --port, the requests are made here: they arrive at random times at a given rate, whether or not those before
them are answered. Rank 0 prints percentiles of the time to a request's first token, counted from its arrival, and of
the time from one token to the next.

The weights are random, with a fixed seed, so what is generated means nothing. But it is the same with any backend
and number of ranks, as long as rounding leaves the best token the best. --check compares with a decoder in one
process.

With --port, requests come by HTTP to 127.0.0.1:

    curl -d '{"prompt": "Once upon", "tokens": 20}' http://127.0.0.1:8000/generate
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from batching import Request, Row, Schedule
from decoder import Decoder, Rows, Shape, Slice
from report import check, report
from sources import Generated, Listening, Source

# Rank 0 speaks to the others at least this often, in seconds. A daemon calls a rank late after some seconds.
IDLE_SECONDS = 1.0


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="harmonaize", help="of torch.distributed (default: harmonaize)")
    parser.add_argument("--requests", type=int, default=40, help="requests that are made here (default: 40)")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second, on average (default: 10)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens that each of them asks for (default: 32)")
    parser.add_argument("--seed", type=int, default=1, help="of the requests and their times (default: 1)")
    parser.add_argument("--check", action="store_true", help="compare each token with a decoder in one process")
    parser.add_argument("--port", type=int, help="take requests by HTTP at this port instead; 0: at a free one")
    parser.add_argument("--layers", type=int, default=4, help="layers, of two all_reduces each (default: 4)")
    parser.add_argument("--width", type=int, default=256, help="numbers for a token (default: 256)")
    parser.add_argument("--heads", type=int, default=8, help="of attention; the ranks share them (default: 8)")
    parser.add_argument("--slots", type=int, default=8, help="requests that are generated at a time (default: 8)")
    parser.add_argument("--context", type=int, default=128, help="tokens of a prompt and its answer (default: 128)")
    parser.add_argument(
        "--rows",
        type=int,
        default=32,
        help="tokens in a step: what sequences being generated leave of it is for prompts. More of it starts new "
        "requests sooner, and keeps the others waiting longer (default: 32)",
    )
    return parser.parse_args()


def what_is_wrong(arguments: argparse.Namespace, size: int) -> str:
    """Returns why so many ranks cannot serve with these options, or ""."""
    width, heads, context = arguments.width, arguments.heads, arguments.context
    # A width that the heads share evenly is shared evenly by ranks that share the heads.
    rules = [
        (width % heads == 0, f"a width of {width} cannot be split over {heads} heads"),
        (heads % size == 0, f"{heads} heads cannot be split over {size} ranks: choose another --heads"),
        (
            arguments.rows >= arguments.slots,
            f"a step of {arguments.rows} rows is too short for {arguments.slots} slots",
        ),
        (
            1 <= arguments.tokens < context,
            f"a context of {context} has no room for a prompt and {arguments.tokens} tokens",
        ),
        (arguments.requests > 0 and arguments.rate > 0, "there has to be at least one request, and a rate above 0"),
        (not arguments.check or arguments.port is None, "--check is not for requests that come by --port"),
    ]
    return next((sentence for right, sentence in rules if not right), "")


class Group:
    """A rank's part of the decoder, and what the ranks tell each other: rank 0 leads, the others follow."""

    def __init__(self, decoder: Decoder, rows: int, device: torch.device) -> None:
        """Computes steps of at most so many rows."""
        self.decoder = decoder
        self.device = device
        # The number of rows, and of each its slot, position and token. A number below 0 ends the service.
        self.message = torch.zeros(1 + 3 * rows, dtype=torch.long, device=device)

    def step(self, rows: list[Row]) -> list[int]:
        """Computes with all ranks, and returns the best token after each row. Without rows it only tells them so."""
        words = [len(rows)] + [word for row in rows for word in (row.slot, row.position, row.token)]
        self.message[: len(words)] = torch.tensor(words, device=self.device)
        dist.broadcast(self.message, 0)
        return self.compute(len(rows)).tolist() if rows else []

    def end(self) -> None:
        """Lets the other ranks end."""
        self.message[0] = -1
        dist.broadcast(self.message, 0)

    def follow(self) -> None:
        """Computes what rank 0 says, until it says that this is the end."""
        while True:
            dist.broadcast(self.message, 0)
            count = int(self.message[0])
            if count < 0:
                return
            if count > 0:
                self.compute(count)

    def compute(self, count: int) -> torch.Tensor:
        """Returns the best token after each of the message's rows."""
        slots, positions, tokens = self.message[1 : 1 + 3 * count].view(count, 3).T
        return self.decoder.best(Rows(slots, positions, tokens))


def answer(group: Group, schedule: Schedule, source: Source) -> None:
    """Answers all requests of the source."""
    while True:
        for request in source.take():
            schedule.add(request)
        rows = schedule.plan()
        if rows:
            schedule.accept(group.step(rows), time.monotonic())
        elif source.ended():
            return
        elif not source.wait(IDLE_SECONDS):
            group.step([])


def listen(arguments: argparse.Namespace, group: Group, schedule: Schedule) -> None:
    """Answers requests by HTTP, until a signal comes."""
    source = Listening(arguments.port, arguments.context)
    signal.signal(signal.SIGINT, lambda *_: source.close())
    signal.signal(signal.SIGTERM, lambda *_: source.close())
    print(f"listening at http://127.0.0.1:{source.port}/generate", flush=True)
    answer(group, schedule, source)
    source.leave()


def lead(arguments: argparse.Namespace, group: Group) -> list[Request]:
    """Runs rank 0, and returns the requests that were made here."""
    # Communicators are made, and memory is touched, before the clock runs.
    group.step([Row(slot, 0, 0) for slot in range(arguments.slots)])
    schedule = Schedule(arguments.slots, arguments.rows)
    if arguments.port is not None:
        listen(arguments, group, schedule)
        return []
    source = Generated(
        arguments.seed, arguments.requests, arguments.rate, arguments.tokens, arguments.context - arguments.tokens
    )
    answer(group, schedule, source)
    return source.all


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
    rank, size = dist.get_rank(), dist.get_world_size()
    wrong = what_is_wrong(arguments, size)
    if wrong:
        sys.exit(wrong)
    shape = Shape(arguments.layers, arguments.width, arguments.heads, arguments.slots, arguments.context)
    group = Group(Decoder(shape, Slice(rank, size, device)), arguments.rows, device)
    requests: list[Request] = []
    if rank == 0:
        requests = lead(arguments, group)
        group.end()
    else:
        # A signal comes to all ranks, and rank 0 decides what it means.
        if arguments.port is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        group.follow()
    dist.destroy_process_group()
    if requests:
        print(report(f"{arguments.backend}: {size} ranks", requests), flush=True)
    if requests and arguments.check:
        text, right = check(shape, device, requests)
        print(text, flush=True)
        sys.exit(not right)


if __name__ == "__main__":
    main()
