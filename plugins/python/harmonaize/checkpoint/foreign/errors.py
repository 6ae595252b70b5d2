"""What goes wrong with checkpoints that others wrote."""

from __future__ import annotations

from harmonaize.errors import HarmonaizeError, clean

# Longest name of a file, tensor or class that a sentence repeats, in characters. A file may hold names of megabytes.
_LONGEST_NAME = 200


class ForeignFormatError(HarmonaizeError):
    """The files are no sound checkpoint, or have what is not read here. The sentence names the place and the way out.

    Whatever a file holds, reading it raises this and nothing else. Only a disk that fails is OSError.
    """


def quoted(name: object) -> str:
    """Returns a name from a file as a sentence may repeat it."""
    text = name if isinstance(name, str) else type(name).__name__
    shown = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."
    return f"'{clean(shown)}'"
