"""One rank of perf/torch/collectives.py, which starts it: measures what it is ordered to over a socket."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import typing

import torch
import torch.distributed as dist

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


def serve(orders: typing.TextIO) -> None:
    """Measures what is ordered, a line of JSON each, and answers with seconds or with what is wrong."""
    made: tuple[typing.Any, Call | None] = (None, None)
    for line in orders:
        order = json.loads(line)
        what = (order["collective"], order["size"], order["memory"])
        answer: dict[str, typing.Any] = {}
        try:
            if made[0] != what:
                made = (None, None)  # gives the memory back before there is more
                made = (what, make_call(*what))
            call = made[1]
            if call is not None:
                answer["seconds"] = seconds_of(call, order["mode"], order["calls"])
        except (RuntimeError, AttributeError) as error:
            made = (None, None)
            answer["error"] = str(error).splitlines()[0]
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
