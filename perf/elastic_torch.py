"""Ranks of elastic_perf.py that work by process groups of PyTorch: of the backend harmonaize, on one host."""

import importlib.util
import os
import time

ELEMENTS = 1000
SHRINK_ABORT = 1


def is_there():
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "harmonaize_torch"))


def shrinks():
    """Whether this PyTorch leaves ranks out of a group. Others go on by harmonaize.elastic alone."""
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    return hasattr(dist.distributed_c10d, "shrink_group")


def verified_sum(ranks):
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    tensor = torch.ones(ELEMENTS)
    dist.all_reduce(tensor)
    if not torch.equal(tensor, torch.full((ELEMENTS,), float(ranks))):
        raise AssertionError(f"a sum of {ranks} ones is {tensor[0].item()}")


def sum_until_lost():
    """Sums until ranks are gone. Returns when this rank was told."""
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    tensor = torch.zeros(ELEMENTS)
    try:
        while True:
            dist.all_reduce(tensor)
    except RuntimeError:
        return time.monotonic_ns()


def survive_by_shrinks(losses, ranks, store):
    """What a rank does that is left after all losses, each a list of ranks that go at once: PyTorch's shrink_group
    leaves them out."""
    def body(rank, number):
        import harmonaize_torch  # pylint: disable=import-outside-toplevel
        import torch  # pylint: disable=import-outside-toplevel
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel
        torch.set_num_threads(1)
        dist.init_process_group("harmonaize", init_method=f"file://{store}", rank=number, world_size=ranks)
        for lost in losses:
            verified_sum(dist.get_world_size())
            rank.tell(0)
            told = sum_until_lost()
            left = dist.get_world_size() - len(lost)
            while dist.get_world_size() > left:
                gone = harmonaize_torch.lost_ranks()
                try:
                    if gone:
                        dist.distributed_c10d.shrink_group(gone, shrink_flags=SHRINK_ABORT)
                except RuntimeError:
                    pass  # Not all ranks knew of all losses yet.
            formed = time.monotonic_ns()
            verified_sum(left)
            rank.tell(told, formed, time.monotonic_ns())
        rank.hear()
    return body


def survive_by_elastic(losses, ranks, store):
    """The same, where harmonaize.elastic makes the groups."""
    def body(rank, number):
        import torch  # pylint: disable=import-outside-toplevel
        from harmonaize import elastic  # pylint: disable=import-outside-toplevel
        torch.set_num_threads(1)
        os.environ.update(RANK=str(number), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", HARMONAIZE_JOB=store)
        told = []

        def train(state):
            formed = time.monotonic_ns()
            verified_sum(state.world.size)
            if told:
                rank.tell(told[-1], formed, time.monotonic_ns())
            if len(told) == len(losses):
                rank.hear()
            rank.tell(0)
            told.append(sum_until_lost())
            raise RuntimeError("ranks are gone")
        elastic.run(train, elastic.TorchState(step=0))
    return body
