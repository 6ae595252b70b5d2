"""What a training keeps over changes of its ranks. Classes for arrays and for modules of PyTorch build on this."""

from __future__ import annotations

import abc
import json
import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.elastic.errors import ElasticError
from harmonaize.elastic.snapshot import Commits, Snapshot, Tensor, Tree

if typing.TYPE_CHECKING:
    from harmonaize.elastic.training import Training
    from harmonaize.elastic.world import World
    from harmonaize.nccl import Communicator

# A number, a text, a truth value, or lists and dictionaries of them: what JSON carries without loss.
_SIMPLE = (bool, int, float, str, type(None), list, dict)


class State(abc.ABC):
    """The values of a training, equal on all ranks, as attributes: `state.step += 1`.

    `commit` keeps a copy in memory. When ranks go or come, all ranks go on from the last commit that all of them have,
    and newcomers are sent it.
    """

    _OWN = frozenset({"_values", "_training", "_commits", "_leaves", "_stops"})

    def __init__(self, values: dict[str, typing.Any]) -> None:
        """Takes the values by name. TypeError: one is neither of the class's kind nor simple; ValueError: the name is
        one of the class's own.
        """
        for name, value in values.items():
            if hasattr(type(self), name) or name.startswith("_"):
                raise ValueError(f"a value cannot be called '{name}': the state has this name itself")
            self._check(name, value)
        self._values = values
        self._training: Training | None = None
        self._commits = Commits()
        self._leaves = False
        self._stops = False

    def __getattr__(self, name: str) -> typing.Any:
        """Returns a value."""
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"the state has no value '{name}'")
        return values[name]

    def __setattr__(self, name: str, value: typing.Any) -> None:
        """Replaces a value."""
        if name in self._OWN:
            super().__setattr__(name, value)
            return
        if name not in self._values:
            raise AttributeError(f"the state has no value '{name}': name all values when it is made")
        self._check(name, value)
        self._values[name] = value

    # In the training function

    def commit(self) -> None:
        """Keeps a copy of the values, once all ranks have come here. MembershipChange or RemoteError leave the
        training.
        """
        self._running().commit()

    def check(self) -> None:
        """Leaves the training by MembershipChange if ranks are to leave or newcomers have come. All ranks call it at
        the same places; it costs one small operation. What was done since the last commit is done again.
        """
        self._running().check()

    def should_stop(self) -> bool:
        """Returns whether the training is to end: this rank has left, or `stop` was called at any rank before the last
        `check` or `commit`.
        """
        return self._training is not None and self._training.stopped

    def leave(self) -> None:
        """Has this rank leave at the next `check`."""
        self._leaves = True

    def stop(self) -> None:
        """Has the training end at all ranks: `should_stop` says so from the next `check` or `commit` on."""
        self._stops = True

    @property
    def communicator(self) -> Communicator:
        """The communicator of all ranks. It is another one after each change."""
        return self._running().communicator

    @property
    def world(self) -> World:
        """The rank's place among the ranks."""
        return self._running().world

    def share(self, name: str) -> typing.Any:
        """Returns what the policy of this name has decided for this rank. KeyError: there is no such policy."""
        return self._running().shares[name]

    # For classes that build on this one

    @abc.abstractmethod
    def _is_special(self, value: typing.Any) -> bool:
        """Returns whether the value is of the class's own kind."""

    @abc.abstractmethod
    def _copy(self, spare: Snapshot | None) -> Snapshot:
        """Returns a copy of the values; `spare` is an old one whose tensors may be overwritten."""

    @abc.abstractmethod
    def _restore(self, snapshot: Snapshot) -> None:
        """Sets the values to those of the copy, which stays as it is."""

    @abc.abstractmethod
    def _empty(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Returns a tensor to receive one of this type and shape. ValueError: the type is not known."""

    @abc.abstractmethod
    def _describe(self, tensor: Tensor) -> tuple[str, tuple[int, ...]]:
        """Returns the type and shape of a tensor, as `_empty` takes them."""

    @abc.abstractmethod
    def _names(self, tree: Tree) -> list[str]:
        """Returns the names of a snapshot's tensors in a checkpoint, in their order."""

    @abc.abstractmethod
    def _kind(self, element: ElementType) -> str:
        """Returns what `_empty` calls the type of elements in a checkpoint."""

    def _enter(self, training: Training) -> None:
        """The ranks have agreed and have the same values; the training function is about to be called."""
        self._training = training

    def _exit(self, *, broken: bool) -> None:  # noqa: B027
        """The training function was left. `broken`: ranks are gone, so nothing may wait for them."""

    def _clean(self) -> None:  # noqa: B027
        """The training is over, and all ranks have met since they left the training function."""

    def _simple(self) -> dict[str, Tree]:
        """Returns the simple values, as a copy."""
        simple = {name: value for name, value in self._values.items() if not self._is_special(value)}
        copied: dict[str, Tree] = json.loads(json.dumps(simple))
        return copied

    def _running(self) -> Training:
        if self._training is None:
            raise ElasticError("the state is not in a training: call elastic.run(train, state)")
        return self._training

    def _check(self, name: str, value: typing.Any) -> None:
        if self._is_special(value):
            return
        if not isinstance(value, _SIMPLE):
            raise TypeError(f"'{name}' is a {type(value).__name__}, which a {type(self).__name__} cannot keep")
        if json.loads(json.dumps(value)) != value and value == value:  # noqa: PLR0124
            raise TypeError(f"'{name}' cannot be sent as JSON without loss: use lists, and texts as keys")
