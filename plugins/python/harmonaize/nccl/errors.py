"""Errors of calls of the library."""

from __future__ import annotations

from harmonaize.errors import HarmonaizeError, clean
from harmonaize.nccl.types import Result


class LibraryError(HarmonaizeError):
    """Harmonaize's library cannot be loaded, or lacks a function. The sentence names the way out."""


class NcclError(HarmonaizeError, RuntimeError):
    """A call did not succeed. `result` says how, and `text` is the library's sentence."""

    def __init__(self, call: str, result: Result, text: str) -> None:
        """Makes the error of a call."""
        self.call = call
        self.result = result
        self.text = clean(text)
        # Some sentences begin with the call's name.
        own = self.text or result.name
        super().__init__(own if own.startswith(f"{call}: ") else f"{call}: {own}")

    def __reduce__(self) -> tuple[type[NcclError], tuple[str, Result, str]]:
        """Lets the error go between processes."""
        return type(self), (self.call, self.result, self.text)


class RemoteError(NcclError):
    """Another rank, or the daemon, is gone. The communicator serves no more operations: shrink or abort it."""


class UsageError(NcclError):
    """The call is wrong in its place; in particular, the ranks asked for different operations."""


def error_of(call: str, code: int, text: str) -> NcclError:
    """Returns the error of a call that returned `code`."""
    try:
        result = Result(code)
    except ValueError:
        result = Result.INTERNAL_ERROR
    kinds = {Result.REMOTE_ERROR: RemoteError, Result.INVALID_USAGE: UsageError}
    return kinds.get(result, NcclError)(call, result, text)
