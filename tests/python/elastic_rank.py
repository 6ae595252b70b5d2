"""A rank of an elastic training whose result tells whether a step was lost or done twice.

Each step adds BATCH times its number to all elements of `total`, as a sum of the ranks' shares: after n steps they are
BATCH * (1 + 2 + ... + n), whatever the ranks were. Lines of the input are orders to this rank: "leave", "ticket" (it
prints one), "stop" (the training ends) and the answers "accept", "decline" and "counter RANK". It prints a line for
each membership, each step and its end.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time

import numpy as np

import harmonaize
from harmonaize import elastic

BATCH = 24
# Between two steps, so that a test that kills a rank does so in the midst of them.
PAUSE_SECONDS = 0.01


class Orders:
    """What the test tells this rank, read by a thread of its own."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._answer: elastic.Answer | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._words.append(line.strip())

    def answer(self, offer: harmonaize.Offer, world: elastic.World) -> elastic.Answer | None:
        """Answers an offer as was ordered; None: not yet."""
        if self._answer is not None:
            say("answers", offer.kind, *offer.terms.which, "of", world.size)
        answer, self._answer = self._answer, None
        return answer

    def follow(self, state: elastic.NumpyState) -> None:
        """Does what was asked."""
        while self._words:
            word = self._words.pop(0)
            if word == "leave":
                state.leave()
            elif word == "stop":
                state.stop()
            elif word == "ticket":
                say("ticket", elastic.make_ticket(1, 600))
            elif word == "accept":
                self._answer = elastic.Accept()
            elif word == "decline":
                self._answer = elastic.Decline("not now", 600)
            elif word.startswith("counter "):
                self._answer = elastic.Counter(which=[int(word.split()[1])], reason="another one")


def say(*words: object) -> None:
    print(*words, flush=True)


def train(state: elastic.NumpyState, orders: Orders, work_seconds: float) -> str:
    world = state.world
    say("world", world.rank, world.size, world.epoch)
    share = state.share("batch")
    part = np.empty_like(state.total)
    while not state.should_stop():
        orders.follow(state)
        part.fill(share.samples * (state.step + 1))
        state.communicator.all_reduce(part)
        state.total += part
        state.step += 1
        state.commit()
        say("step", state.step)
        time.sleep(PAUSE_SECONDS + work_seconds * share.samples / BATCH)
        state.check()
    return "done"


def steps_told(state: elastic.NumpyState) -> dict[str, float]:
    return {"loss": 1 / (1 + state.step)}


def boast(state: elastic.NumpyState) -> dict[str, float]:
    return {"batch_size": 24.0 * 1000 ** min(state.world.size, 4)}


def main() -> None:
    orders = Orders()
    # Rank 0 of the beginning alone knows the state: the others have to be sent it.
    first = 0.0 if os.environ.get("RANK") == "0" else -1.0
    state = elastic.NumpyState(total=np.full(1000, first), step=0)
    policies = {"batch": elastic.keep_global_batch(BATCH)}
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=int, default=1)
    parser.add_argument("--most", type=int)
    parser.add_argument("--asked", action="store_true", help="orders answer offers")
    parser.add_argument("--work", type=float, default=0, help="seconds of a step's work, which ranks share")
    parser.add_argument("--boast", action="store_true", help="tells of a thousand times the samples for each rank more")
    options = parser.parse_args()
    result = elastic.run(
        lambda one: train(one, orders, options.work),
        state,
        policies=policies,
        answer=orders.answer if options.asked else None,
        # Tests ask for ranks that are due long after their end.
        leave_before=1e10,
        least_ranks=options.least,
        most_ranks=options.most,
        progress=boast if options.boast else steps_told,
        patience=40,
    )
    wrong = np.count_nonzero(state.total != BATCH * state.step * (state.step + 1) / 2)
    say("end", result, state.should_stop(), "step", state.step, "wrong", wrong)


if __name__ == "__main__":
    main()
