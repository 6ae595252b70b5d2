"""A rank of an elastic training on several hosts; those whose numbers are its arguments kill themselves on the way."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

from harmonaize import elastic

BATCH, STEPS, LAST_STEP_OF_VICTIMS = 24, 300, 100
IS_VICTIM = os.environ["RANK"] in sys.argv[1:]


def train(state: elastic.NumpyState) -> None:
    print("world", state.world.size, flush=True)
    part = np.empty_like(state.total)
    while state.step < STEPS:
        part.fill(state.share("batch").samples * (state.step + 1))
        state.communicator.all_reduce(part)
        state.total += part
        state.step += 1
        state.commit()
        if IS_VICTIM and state.step == LAST_STEP_OF_VICTIMS:
            os.kill(os.getpid(), signal.SIGKILL)
        state.check()


def main() -> None:
    state = elastic.NumpyState(total=np.zeros(1000), step=0)
    elastic.run(train, state, policies={"batch": elastic.keep_global_batch(BATCH)}, patience=60)
    right = BATCH * state.step * (state.step + 1) / 2
    print("end", state.step, "wrong", np.count_nonzero(state.total != right), flush=True)


if __name__ == "__main__":
    main()
