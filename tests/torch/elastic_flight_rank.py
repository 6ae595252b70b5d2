"""A rank of an elastic training in whose process groups operations of all kinds are in flight, and end when ranks are
gone. The line "stop" of its input ends the training.
"""

from __future__ import annotations

import sys
import threading
import time

import torch.distributed as dist
from flight import Flight, verified_sum
from harmonaize import elastic


def train(state: elastic.TorchState) -> str:
    formed = time.monotonic_ns()
    verified_sum(state.world.size)
    print("verified", state.world.size, formed, time.monotonic_ns(), flush=True)
    flight = Flight()
    print("flying with", dist.get_world_size(), flush=True)
    try:
        while not state.should_stop():
            flight.once()
            state.step += 1
            state.commit()
            state.check()
    except RuntimeError:
        print("over", flight.await_over(), flush=True)
        raise
    flight.land()
    return "done"


def stop_when_told(state: elastic.TorchState) -> None:
    """Waits for the order."""
    if sys.stdin.readline().strip() == "stop":
        state.stop()


def main() -> None:
    state = elastic.TorchState(step=0)
    threading.Thread(target=stop_when_told, args=(state,), daemon=True).start()
    print("end", elastic.run(train, state, patience=60), flush=True)


if __name__ == "__main__":
    main()
