"""What a training function leaves behind, released before it is called again."""

from __future__ import annotations

import gc


class Garbage:
    """Has cycles collected that a training function has made, such as wrappers of modules with hooks of an old process
    group.

    A whole collection looks at all objects, of which PyTorch has so many that this takes longer than all else after a
    loss. So those that are there before the training function is called are left out until the training ends.
    """

    def __init__(self) -> None:
        """Leaves out what is there, unless the program does so itself."""
        self._freezes = gc.get_freeze_count() == 0
        self.collect()

    def collect(self) -> None:
        """Releases what is left behind, and leaves out what else is there."""
        gc.collect()
        if self._freezes:
            gc.freeze()

    def end(self) -> None:
        """Leaves out nothing any more."""
        if self._freezes:
            gc.unfreeze()
