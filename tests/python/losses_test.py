"""Sentences of errors that name ranks which are gone, and those that name ranks which are not."""

from __future__ import annotations

import pytest

from harmonaize.elastic.losses import named_in


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("rank 2 (process 812) died or closed its connection", {2}),
        ("rank 1 has left the communicator: exclude it from the shrink as well", {1}),
        ("rank 3 (process 9) aborted the communicator", {3}),
        ("rank 1 is lost during ncclCommShrink: its host's daemon does not answer", {1}),
        ("the ranks disagree; then rank 1 (process 7) died or closed its connection; rank 2 has left it", {1, 2}),
        ("rank 2 shrinks the communicator with NCCL_SHRINK_ABORT", set()),
        ("rank 2 revoked the communicator: only destroy, split and shrink make sense now", set()),
        ("ncclCommShrink has waited 5.0 s for ranks 1, 3", set()),
        # The caller itself, and what is no rank of the communicator.
        ("rank 0 (process 812) died or closed its connection", set()),
        ("rank 4 (process 812) died or closed its connection", set()),
        ("rank 99999999999999 died", set()),
        ("", set()),
    ],
)
def test_only_ranks_that_are_gone_are_named(text: str, ranks: set[int]) -> None:
    assert named_in(text, 4, own=0) == ranks
