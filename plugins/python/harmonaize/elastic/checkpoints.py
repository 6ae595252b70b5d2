"""Checkpoints of an elastic training: saved at commits, and read where no rank has the job's state."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import typing

from harmonaize import checkpoint
from harmonaize.elastic.errors import StateLostError
from harmonaize.elastic.snapshot import Snapshot

if typing.TYPE_CHECKING:
    from harmonaize.elastic.state import State
    from harmonaize.nccl import Communicator

_log = logging.getLogger("harmonaize.elastic")
# The plain value that tells how a snapshot's tensors belong together.
_TREE = "elastic_snapshot"
# Seconds for which a rank that leaves waits until the last commit is stored. harmonaize-writer goes on without it, as
# long as the host is there.
_LEAVING_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class Checkpoints:
    """How a training saves: in `folder`, which all hosts share (None: in the daemons' memory alone), at every `every`th
    commit (None: only when the provider advises it, and before ranks leave). `options` are more of Checkpointer's
    arguments.
    """

    folder: str | os.PathLike[str] | None = None
    every: int | None = None
    options: typing.Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the interval. ValueError: it is less than 1."""
        if self.every is not None and self.every < 1:
            raise ValueError(f"'every' is {self.every}, and there is a commit between two checkpoints at least")


class JobCheckpoints:
    """The checkpoints of one training. Its ranks call the same in the same order."""

    def __init__(self, config: Checkpoints) -> None:
        """Takes how to save."""
        self._config = config
        self._communicator: Communicator | None = None
        self._saver: checkpoint.Checkpointer | None = None
        # That of the ranks before a change: what it has saved counts until these ranks have saved.
        self._earlier: list[checkpoint.Checkpointer] = []
        self._last: int | None = None

    def is_due(self, commit: int) -> bool:
        """Returns whether a commit is to be saved by the interval."""
        return self._config.every is not None and commit % self._config.every == 0

    def enter(self, communicator: Communicator) -> None:
        """Takes the communicator of another membership."""
        self._communicator = communicator
        if self._saver is not None:
            self._earlier.append(self._saver)
            self._saver = None

    def save(self, commit: int, snapshot: Snapshot, state: State) -> None:
        """Saves a commit, unless it was the last. Errors: as of Checkpointer.save."""
        if commit == self._last or self._communicator is None:
            return
        if self._saver is None:
            self._saver = checkpoint.Checkpointer(self._communicator, self._config.folder, **self._config.options)
        names = state._names(snapshot.tree)  # noqa: SLF001
        values: dict[str, typing.Any] = dict(zip(names, snapshot.tensors, strict=True))
        values[_TREE] = json.dumps({"tree": snapshot.tree, "names": names})
        self._saver.save(commit, values, replicated=True)
        self._last = commit
        if self._earlier:
            self._saver.wait(commit, "memory")
            self._forget_earlier()

    def await_stored(self) -> None:
        """Waits for a while until the last save is stored: the rank leaves, and its host may go with it. The log tells
        where it is not stored by then.
        """
        if self._saver is None or self._last is None or self._config.folder is None:
            return
        try:
            self._saver.wait(self._last, "storage", _LEAVING_SECONDS)
        except (TimeoutError, checkpoint.CheckpointError) as failure:
            _log.warning("this rank leaves, and the checkpoint of step %d is not stored: %s", self._last, failure)

    def load(self, state: State) -> tuple[int, Snapshot] | None:
        """Returns the newest commit that was saved, from where it is nearest; None: there is none. Errors:
        StateLostError: what is there is no commit; NcclError: it is damaged, or a rank is gone.
        """
        try:
            saved = checkpoint.open(self._communicator, self._config.folder)
        except checkpoint.NoCheckpointError:
            return None
        with saved:
            try:
                told = json.loads(saved.values[_TREE])
                names = [str(name) for name in told["names"]]
                kinds = [saved.tensors[name] for name in names]
                tree = told["tree"]
            except (KeyError, TypeError, ValueError) as error:
                raise StateLostError(
                    f"the checkpoint of step {saved.step} is none of elastic.run: {error!r}"
                ) from error
            tensors = [state._empty(state._kind(one.type), one.shape) for one in kinds]  # noqa: SLF001
            saved.read_into(dict(zip(names, tensors, strict=True)))
            return saved.step, Snapshot(tree, tensors)

    def close(self, *, orderly: bool) -> None:
        """Gives the memory back where the training has ended in order. Else the daemon keeps the last checkpoint."""
        if not orderly:
            return
        self._forget_earlier()
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()

    def _forget_earlier(self) -> None:
        earlier, self._earlier = self._earlier, []
        for one in earlier:
            one.close()
