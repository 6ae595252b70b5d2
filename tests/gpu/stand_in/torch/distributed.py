"""The collectives of the stand-in for PyTorch."""

import os


def init_process_group(backend):
    with open(os.environ["NCCL_DEBUG_FILE"], "w") as log:
        log.write(os.environ["STAND_IN_LOG"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])


def all_reduce(data):
    """The sum over ranks of which each has added its number to the same values."""
    size, rank = get_world_size(), int(os.environ["RANK"])
    wrong = float(os.environ.get("STAND_IN_ERROR", "0"))
    data.values = [size * (value - rank) + size * (size - 1) // 2 + wrong for value in data.values]


def broadcast(data, src):
    data.values = [float(src)] * len(data.values)


def barrier():
    pass


def destroy_process_group():
    pass
