"""A group whose ranks meet at a TCPStore. Each process has one connection, on which it may wait for a key."""

from __future__ import annotations

import datetime
import os
import pathlib
import socket
import sys
import threading
import time
import typing

import pytest
import torch
import torch.distributed as dist
from ranks import Jobs

untyped: typing.Any = dist  # The names that PyTorch's types leave out.
HAS_CLONES = hasattr(untyped.Store, "clone")


def meet_at_tcp_store(rank: int, size: int, seconds: float = 60) -> typing.Any:
    """Has the process give up its group for one whose ranks meet at rank 0's TCPStore. Returns the store."""
    dist.barrier()
    dist.destroy_process_group()
    file = pathlib.Path(os.environ["TEST_FOLDER"]) / "port"
    store: typing.Any
    if rank == 0:
        store = untyped.TCPStore("127.0.0.1", 0, size, is_master=True, wait_for_workers=False)
        file.with_suffix(".new").write_text(str(store.port))
        file.with_suffix(".new").rename(file)
    else:
        while not file.exists():
            time.sleep(0.01)
        store = untyped.TCPStore("127.0.0.1", int(file.read_text()), size, wait_for_workers=False)
    timeout = datetime.timedelta(seconds=seconds)
    dist.init_process_group(os.environ["TEST_BACKEND"], store=store, rank=rank, world_size=size, timeout=timeout)
    return store


def rank_waits_for_a_key_meanwhile(rank: int, size: int) -> None:
    assert size == 2
    store = meet_at_tcp_store(rank, size)
    for tag, source in ((5, 0), (6, None)):
        if rank == 0:
            sent = dist.isend(torch.ones(1), 1, tag=tag)
            store.get(f"received{tag}")
            sent.wait()
        else:
            dist.recv(got := torch.zeros(1), source, tag=tag)
            assert got.item() == 1
            store.set(f"received{tag}", "yes")
    dist.barrier()


def rank_leaves_while_a_thread_waits_for_a_key(rank: int, size: int) -> None:
    assert size == 2
    store = meet_at_tcp_store(rank, size)
    if rank == 1:
        dist.irecv(torch.zeros(1), 0, tag=5)
        threading.Thread(target=lambda: store.get("never"), daemon=True).start()
        time.sleep(0.2)
        print("leaving", flush=True)
        sys.exit(0)
    time.sleep(1000)


def rank_receives_when_the_store_is_gone(rank: int, size: int) -> None:
    assert size == 2
    meet_at_tcp_store(rank, size, seconds=30)
    if rank == 0:
        print("ready", flush=True)
        time.sleep(1000)
    begun = dist.irecv(torch.zeros(1))
    assert begun is not None
    print("ready", flush=True)
    with pytest.raises(RuntimeError) as raised:
        begun.wait()
    assert "frame #" not in str(raised.value), str(raised.value)
    print("heard", str(raised.value), flush=True)
    os._exit(0)


def rank_forms_its_group_again(rank: int, size: int) -> None:
    port = int(os.environ["TEST_PORT"])
    method = f"tcp://127.0.0.1:{port}"
    kept = []
    folder = pathlib.Path(os.environ["TEST_FOLDER"])
    for turn in range(3):
        dist.barrier()
        dist.destroy_process_group()
        # The store's server has to be gone before others look for it again.
        (folder / f"left{turn}-{rank}").touch()
        while not all((folder / f"left{turn}-{one}").exists() for one in range(size)):
            time.sleep(0.01)
        dist.init_process_group(os.environ["TEST_BACKEND"], init_method=method, rank=rank, world_size=size)
        kept.append(dist.all_reduce(torch.ones(1), async_op=True))
        kept[-1].wait()
    assert all(one.is_completed() for one in kept)


def rank_forms_its_group_again_at_the_same_store(rank: int, size: int) -> None:
    store = meet_at_tcp_store(rank, size)
    for turn in range(2):
        if turn > 0:
            dist.destroy_process_group()
            # The others come first, and find the keys of the group before.
            if rank == 0:
                time.sleep(0.5)
            dist.init_process_group(os.environ["TEST_BACKEND"], store=store, rank=rank, world_size=size)
        dist.all_reduce(one := torch.ones(1))
        assert one.item() == size
        # The messages have a communicator of their own.
        if rank == 0:
            dist.send(torch.full((1,), turn + 3.0), size - 1, tag=5)
        elif rank == size - 1:
            dist.recv(got := torch.zeros(1), 0, tag=5)
            assert got.item() == turn + 3
    # Rank 0 serves the store, which others may still ask.
    store.add("done", 1)
    while rank == 0 and store.add("done", 0) < size:
        time.sleep(0.01)


@pytest.mark.skipif(not HAS_CLONES, reason="this PyTorch's stores have one connection")
def test_messages_arrive_while_the_program_waits_for_a_key(jobs: Jobs) -> None:
    with jobs.started(rank_waits_for_a_key_meanwhile, 2) as job:
        for ended in job.wait():
            assert ended.status == 0, ended.output


def test_a_process_ends_while_a_thread_waits_for_a_key(jobs: Jobs) -> None:
    with jobs.started(rank_leaves_while_a_thread_waits_for_a_key, 2) as job:
        (ended,) = job.wait(1)
        assert ended.status == 0, ended.output
        assert "leaving" in ended.output


def test_a_receive_from_any_rank_ends_when_the_store_is_gone(jobs: Jobs) -> None:
    with jobs.started(rank_receives_when_the_store_is_gone, 2) as job:
        for rank in (0, 1):
            job.await_word(rank, "ready")
        job.processes[0].kill()
        (ended,) = job.wait(1)
        assert "heard" in ended.output, ended.output


def test_a_group_is_formed_again_at_the_same_port(jobs: Jobs) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with jobs.started(rank_forms_its_group_again, 2, TEST_PORT=str(port)) as job:
        for ended in job.wait():
            assert ended.status == 0, ended.output


@pytest.mark.skipif(torch.__version__ < "2", reason="this PyTorch itself waits forever at a store that was used")
def test_a_group_is_formed_again_at_the_same_store(jobs: Jobs) -> None:
    with jobs.started(rank_forms_its_group_again_at_the_same_store, 3) as job:
        for ended in job.wait():
            assert ended.status == 0, ended.output
