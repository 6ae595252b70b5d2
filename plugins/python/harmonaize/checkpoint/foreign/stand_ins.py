"""What stands for the classes of a pickle. Nothing here runs anything that the pickle says."""

from __future__ import annotations

import dataclasses
import typing

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted


class StandIn:
    """An object of a pickle whose class is known here, and whose state comes after it."""

    def set_state(self, state: object) -> None:
        """Takes the state that the pickle gives the object. ForeignFormatError: it is none for this class."""
        kind = type(state).__name__
        raise ForeignFormatError(f"a {type(self).__name__} has a state of type {quoted(kind)}, which it cannot have")

    def children(self) -> typing.Collection[object]:
        """Returns the objects that this one holds."""
        return ()


class Record(StandIn):
    """An object with named fields, such as a data class. `fields` is what the pickle says, unchecked."""

    def __init__(self, class_name: str, arguments: tuple[object, ...] = ()) -> None:
        """Takes the class's name without its module, and what its constructor was given."""
        self.class_name = class_name
        self.arguments = arguments
        self.fields: dict[str, object] = {}

    def set_state(self, state: object) -> None:
        """Takes the fields by name, or a pair of those in the dictionary and those in slots, or a plain tuple."""
        if isinstance(state, tuple) and len(state) == _SLOTS and isinstance(state[1], dict):
            for part in state:
                self._add({} if part is None else part)
        elif isinstance(state, tuple):
            self.arguments = state
        else:
            self._add(state)

    def _add(self, fields: object) -> None:
        if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
            raise ForeignFormatError(f"a {self.class_name} has a state that is no fields by name")
        self.fields.update(fields)

    def children(self) -> typing.Collection[object]:
        """Returns the fields and the constructor's arguments."""
        return (*self.fields.values(), *self.arguments)

    def __repr__(self) -> str:
        """Returns the names of class and fields. Their values may be large, and strange."""
        return f"<{self.class_name} with {', '.join(self.fields) or 'no fields'}>"


# A state of a class with slots is a pair.
_SLOTS = 2


class OrderedMapping(dict[typing.Any, typing.Any], StandIn):
    """An OrderedDict. Its attributes, such as the versions that torch gives a state dictionary, are left out."""

    def set_state(self, state: object) -> None:
        """Drops the attributes."""

    def children(self) -> typing.Collection[object]:
        """Returns the values, and the keys that hold something themselves."""
        return [*(key for key in self if isinstance(key, StandIn)), *self.values()]


@dataclasses.dataclass(frozen=True)
class KnownClass:
    """A class or function that a pickle may name. `make` makes what stands for its object, from the arguments.

    In what was read, it stands for the class itself.
    """

    name: str
    make: typing.Callable[[tuple[typing.Any, ...]], object] = dataclasses.field(repr=False, compare=False)


@dataclasses.dataclass(frozen=True)
class EnumClass:
    """An enumeration that a pickle may name, with its members' values by name."""

    name: str
    members: typing.Mapping[str, object] = dataclasses.field(hash=False)

    def member(self, name: object) -> EnumMember:
        """Returns a member by its name. ForeignFormatError: there is none."""
        if not isinstance(name, str) or name not in self.members:
            raise ForeignFormatError(f"the enumeration {self.name} has no member {quoted(name)}")
        return EnumMember(self.name, name, self.members[name])

    def make(self, arguments: tuple[typing.Any, ...]) -> EnumMember:
        """Returns a member by its value. ForeignFormatError: there is none."""
        for name, value in self.members.items():
            if len(arguments) == 1 and type(arguments[0]) is type(value) and arguments[0] == value:
                return EnumMember(self.name, name, value)
        raise ForeignFormatError(f"the enumeration {self.name} has no member with such a value")


@dataclasses.dataclass(frozen=True)
class EnumMember:
    """A member of an enumeration."""

    class_name: str
    name: str
    value: object


@dataclasses.dataclass(frozen=True)
class TorchConstant:
    """A type of elements, layout or memory format of PyTorch, by its name without `torch.`."""

    name: str
