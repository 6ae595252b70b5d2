"""A rank: joins the default group, calls one function of a file, and leaves.

rank_process.py FILE FUNCTION
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import sys

import torch.distributed as dist

import harmonaize_torch


def main() -> None:
    """Runs the function with this rank, and the number of ranks."""
    path, name = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120
    spec = importlib.util.spec_from_file_location("test_file", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    harmonaize_torch.register()
    dist.init_process_group(
        os.environ["TEST_BACKEND"],
        init_method="file://" + os.environ["TEST_STORE"],
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=float(os.environ.get("TEST_TIMEOUT", "60"))),
    )
    print("joined", flush=True)  # noqa: T201
    getattr(module, name)(rank, size)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
