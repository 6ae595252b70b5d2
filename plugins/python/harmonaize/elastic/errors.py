"""What ends an elastic training, and what leaves it for a while."""

from __future__ import annotations

from harmonaize.errors import HarmonaizeError


class ElasticError(HarmonaizeError):
    """The training cannot go on. The sentence says why."""


class NotEnoughRanksError(ElasticError):
    """Fewer ranks are left than the job has asked for."""


class StateLostError(ElasticError):
    """No rank is left that has a commit, or the ranks have none in common."""


class OutOfStepError(ElasticError):
    """The ranks call `commit`, `check` or the end of the training in different orders."""


class MembershipChange(Exception):  # noqa: N818
    """Leaves the training function, because its ranks are about to change. `elastic.run` catches it.

    A training function that catches all exceptions lets this one through.
    """
