"""A rank: joins the default group, calls a function of a file, and leaves.

rank_process.py FILE FUNCTION   calls one
rank_process.py                 calls what each line of its input names, and answers each with a line: an empty
                                text in JSON, or what went wrong
"""

from __future__ import annotations

import datetime
import functools
import importlib.util
import json
import os
import sys
import traceback
import types

import harmonaize_torch
import torch.distributed as dist


@functools.cache
def load(path: str) -> types.ModuleType:
    """Returns the file as a module."""
    spec = importlib.util.spec_from_file_location("test_file", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def follow_orders(rank: int, size: int) -> None:
    """Serves a crew."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            getattr(load(order["file"]), order["function"])(rank, size)
            wrong = ""
        except BaseException:  # noqa: BLE001
            wrong = traceback.format_exc()
        answers.write(json.dumps(wrong) + "\n")
        answers.flush()


def main() -> None:
    """Runs this rank."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    harmonaize_torch.register()
    dist.init_process_group(
        os.environ["TEST_BACKEND"],
        init_method="file://" + os.environ["TEST_STORE"],
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=float(os.environ.get("TEST_TIMEOUT", "60"))),
    )
    if len(sys.argv) > 1:
        print("joined", flush=True)
        getattr(load(sys.argv[1]), sys.argv[2])(rank, size)
    else:
        follow_orders(rank, size)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
