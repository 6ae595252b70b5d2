#!/usr/bin/env python3
"""What scripts/gpu-checks.sh runs under the preload, in a process of its own for each check: one rank, one GPU.
Exits with 0 where the claim holds, and prints one line that says what was seen.

    gpu_checks.py NAME
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

CALLS = 100


def begin(**options):
    """Makes the process group of one rank by PyTorch's NCCL backend."""
    torch.cuda.set_device(0)
    store = dist.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, **options)


def reduce_on_gpu():
    data = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    expected = data.clone()
    for _ in range(CALLS):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    if not torch.equal(data, expected):
        sys.exit("an all-reduce of one rank changed the data")


def communicators():
    """The daemon's communicators, as `harmonaize status` tells of them."""
    text = subprocess.run([os.environ["HARMONAIZE_PROGRAM"], "status", "--json"], check=True, capture_output=True,
                          text=True, env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}).stdout
    return [one for tenant in json.loads(text)["tenants"] for one in tenant["communicators"]]


def library():
    bound = ctypes.CDLL(None)
    bound.ncclGetLastError.restype = ctypes.c_char_p
    return bound


def host_communicator(nccl):
    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    unique_id = UniqueId()
    handle = ctypes.c_void_p()
    if nccl.ncclGetUniqueId(ctypes.byref(unique_id)) != 0:
        sys.exit(nccl.ncclGetLastError(None).decode())
    if nccl.ncclCommInitRank(ctypes.byref(handle), 1, unique_id, 0) != 0:
        sys.exit(nccl.ncclGetLastError(None).decode())
    return handle


def reduce_at(nccl, handle, address, count):
    """An all-reduce in place of floats; the result and the sentence."""
    result = nccl.ncclAllReduce(ctypes.c_void_p(address), ctypes.c_void_p(address), ctypes.c_size_t(count), 7, 0,
                                handle, None)
    return result, nccl.ncclGetLastError(handle).decode()


def carried():
    begin()
    reduce_on_gpu()
    kinds = [(one["kind"], one.get("stock_nccl", {}).get("calls", 0)) for one in communicators()]
    if not any(kind == "cuda (stock NCCL)" and calls >= CALLS for kind, calls in kinds):
        sys.exit(f"the daemon shows {kinds}")
    print(f"{CALLS} all-reduces of 4 MiB on {torch.cuda.get_device_name()}; the daemon shows {kinds}")
    dist.destroy_process_group()


def fallback():
    begin()
    reduce_on_gpu()
    dist.destroy_process_group()
    print(f"{CALLS} all-reduces of 4 MiB on {torch.cuda.get_device_name()} without a daemon")


def graph():
    begin()
    data = torch.ones(1024, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        dist.all_reduce(data)
        data += 1
    for _ in range(10):
        recorded.replay()
    torch.cuda.synchronize()
    if data[0].item() != 11:
        sys.exit(f"after ten replays the value is {data[0].item()}, not 11")
    print("an all-reduce is captured in a CUDA graph, and replayed ten times")
    dist.destroy_process_group()


def split():
    begin(device_id=torch.device("cuda:0"))
    part = dist.new_group([0])
    data = torch.ones(4, device="cuda")
    dist.all_reduce(data, group=part)
    torch.cuda.synchronize()
    kinds = [one["kind"] for one in communicators()]
    if not kinds or set(kinds) != {"cuda (stock NCCL)"}:
        sys.exit(f"the daemon shows {kinds}")
    print(f"a group made of the first one is carried as well: {kinds}")
    dist.destroy_process_group()


def both():
    # The host communicator first: the process has no context yet.
    nccl = library()
    handle = host_communicator(nccl)
    begin()
    reduce_on_gpu()
    host = torch.ones(1 << 20)
    result, why = reduce_at(nccl, handle, host.data_ptr(), host.numel())
    if result != 0:
        sys.exit(why)
    kinds = sorted(one["kind"] for one in communicators())
    if kinds != ["cuda (stock NCCL)", "host"]:
        sys.exit(f"the daemon shows {kinds}")
    print(f"one process has communicators of both kinds: {kinds}")
    nccl.ncclCommDestroy(handle)
    dist.destroy_process_group()


def refused():
    nccl = library()
    handle = host_communicator(nccl)
    data = torch.ones(1024, device="cuda")
    # The driver is looked for when a communicator is made.
    other = host_communicator(nccl)
    result, why = reduce_at(nccl, other, data.data_ptr(), data.numel())
    if result != 4:
        sys.exit(f"the result is {result}: {why}")
    print(f"a GPU pointer is refused: {why}")
    nccl.ncclCommDestroy(other)
    nccl.ncclCommDestroy(handle)


def pinned():
    torch.cuda.init()
    nccl = library()
    handle = host_communicator(nccl)
    data = torch.ones(1 << 20).pin_memory()
    result, why = reduce_at(nccl, handle, data.data_ptr(), data.numel())
    if result != 0:
        sys.exit(why)
    print("pinned host memory is carried by the daemon")
    nccl.ncclCommDestroy(handle)


CHECKS = {check.__name__: check for check in (carried, fallback, graph, split, both, refused, pinned)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CHECKS:
        sys.exit(f"usage: {sys.argv[0]} {' | '.join(CHECKS)}")
    CHECKS[sys.argv[1]]()
