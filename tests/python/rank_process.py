"""A rank that does what it is told: rank_process.py LIBRARY RANK SIZE.

Rank 0 prints the unique id in hexadecimal digits, and the others read it. Then each line of the input is an order:
"reduce" for an all-reduce. The end of the input is the rank's end. It prints a line for each thing that it has done.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import live_job


def main() -> None:
    """Runs this rank."""
    path, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    library = live_job.Library(path)
    if rank == 0:
        unique_id = library.unique_id()
        print(bytes(unique_id).hex(), flush=True)
    else:
        unique_id = library.id_from(bytes.fromhex(sys.stdin.readline()))
    communicator = library.join(unique_id, size, rank, "world")
    print("joined", flush=True)
    for order in sys.stdin:
        if order.strip() == "reduce":
            communicator.all_reduce(1024)
        print("done", flush=True)
    communicator.destroy()


if __name__ == "__main__":
    main()
