"""Marks tests that take half a minute and more, for which CI has no time."""

from __future__ import annotations

import os

import pytest

LONG = pytest.mark.skipif(
    "HARMONAIZE_ALL_TESTS" not in os.environ, reason="it is long: scripts/test.sh --all sets HARMONAIZE_ALL_TESTS"
)
