"""Training that goes on when ranks are lost, leave or come.

    from harmonaize import elastic

    def train(state):
        while state.step < 1000 and not state.should_stop():
            ...
            state.step += 1
            state.commit()
            state.check()

    elastic.run(train, elastic.NumpyState(weights=weights, step=0))

docs/elastic.md has a whole example, and the limits.
"""

from harmonaize.elastic.answers import Accept, Answer, Counter, Decline
from harmonaize.elastic.checkpoints import Checkpoints
from harmonaize.elastic.errors import (
    ElasticError,
    MembershipChange,
    NotEnoughRanksError,
    OutOfStepError,
    StateLostError,
)
from harmonaize.elastic.numpy_state import NumpyState
from harmonaize.elastic.policies import Policy, Share, keep_global_batch, scale_batch
from harmonaize.elastic.requests import Leave, Places, Requests
from harmonaize.elastic.state import State
from harmonaize.elastic.torch_state import TorchState
from harmonaize.elastic.training import make_ticket, run, world
from harmonaize.elastic.world import World

__all__ = [
    "Accept",
    "Answer",
    "Checkpoints",
    "Counter",
    "Decline",
    "ElasticError",
    "Leave",
    "MembershipChange",
    "NotEnoughRanksError",
    "NumpyState",
    "OutOfStepError",
    "Places",
    "Policy",
    "Requests",
    "Share",
    "State",
    "StateLostError",
    "TorchState",
    "World",
    "keep_global_batch",
    "make_ticket",
    "run",
    "scale_batch",
    "world",
]
