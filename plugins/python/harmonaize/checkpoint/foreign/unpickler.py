"""Reads a pickle without running anything that it says.

A pickle is a program for a machine with a stack. Python's own machine imports and calls whatever the program names.
This one knows no import: a name is looked up in a table of stand-ins (known_classes.py), and what is not there ends the
reading. It executes each byte once, has no way back, and counts what it allocates.
"""

from __future__ import annotations

import struct
import typing

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.keys import check_plain_key, check_tuple_key
from harmonaize.checkpoint.foreign.limits import DEFAULT_LIMITS, Limits
from harmonaize.checkpoint.foreign.numpy_values import fill_array
from harmonaize.checkpoint.foreign.stand_ins import EnumClass, KnownClass, StandIn
from harmonaize.checkpoint.foreign.structure import check_structure

Classes = typing.Mapping[tuple[str, str], object]
"""What stands for a name of a module and a name in it."""

Persistent = typing.Callable[[object], object]
"""Returns what stands for an object that lies outside of the pickle, from its id."""

# Protocols that torch.save and pickle.dump have written since Python 3.0. Older ones are texts.
_PROTOCOLS = range(2, 6)

# What a step of the machine costs beyond one, in units of some 16 bytes of memory: a text or number with its head of 50
# bytes, a container of 64, a set of 216, an object with a dictionary of its own, an entry of a dictionary or set, and a
# remembered object with its number.
_VALUE_WORK = 3
_CONTAINER_WORK = 6
_SET_WORK = 24
_OBJECT_WORK = 24
_ENTRY_WORK = 6
_MEMO_WORK = 6

# Longest name of a module or class, in bytes. Python's own have less than a hundred.
_LONGEST_NAME = 1024

# How deep in a tuple of arguments there is what an object copies: the elements of an array are in its state, and the
# arguments of a tensor in those of a tensor with attributes.
_COPIED_LEVELS = 3

# Bytes that cost as much as one step, where an object copies them.
_BYTES_PER_STEP = 16


def unpickle(
    data: bytes,
    classes: Classes,
    where: str,
    persistent: Persistent | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> object:
    """Returns the object of a pickle; `where` names it in errors.

    ForeignFormatError: it is no sound pickle of protocol 2 to 5, it names a class that is not in `classes`, or it
    exceeds the limits.
    """
    if len(data) > limits.bytes:
        raise ForeignFormatError(f"{where} has a description of {len(data)} bytes; {limits.bytes} are read at most")
    value = _Machine(data, classes, where, persistent, limits).run()
    check_structure(value, limits, where)
    return value


class _Machine:
    """One run through one pickle."""

    def __init__(
        self, data: bytes, classes: Classes, where: str, persistent: Persistent | None, limits: Limits
    ) -> None:
        self._data = data
        self._at = 0
        self._classes = classes
        self._where = where
        self._persistent = persistent
        self._limits = limits
        self._work = limits.work
        self._tuple_keys = limits.tuple_keys
        self._stack: list[typing.Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}

    def run(self) -> object:
        if self._data[:1] != b"\x80":
            raise self.error("is no pickle of protocol 2 or later")
        steps = _STEPS
        while True:
            code = self.take(1)[0]
            if code == _STOP:
                return self.pop()
            step = steps.get(code)
            if step is None:
                raise self.error(f"has an instruction {code:#04x}, which is not carried out")
            self.spend(1)
            step(self)

    def error(self, says: str) -> ForeignFormatError:
        return ForeignFormatError(f"{self._where} {says}")

    def spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            raise self.error("has more objects than are read: raise Limits.work if it is to be trusted")

    def spend_copying(self, value: object, levels: int = _COPIED_LEVELS) -> None:
        """Spends the work of copying an object's content. A remembered object costs nothing to name again, so that a
        pickle of a few bytes could have large ones copied a million times.
        """
        if isinstance(value, str | bytes | bytearray):
            self.spend(len(value) // _BYTES_PER_STEP)
        elif isinstance(value, dict | list | tuple | set | frozenset):
            # Of a list a set may be made. What is inside is looked at after that is paid for.
            self.spend(_ENTRY_WORK * len(value))
            if isinstance(value, tuple) and levels > 0:
                for part in value:
                    self.spend_copying(part, levels - 1)

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise self.error("is cut short")
        data = self._data[self._at : end]
        self._at = end
        return data

    def number(self, form: struct.Struct) -> typing.Any:
        return form.unpack(self.take(form.size))[0]

    def line(self) -> str:
        end = self._data.find(b"\n", self._at, self._at + _LONGEST_NAME)
        if end < 0:
            raise self.error("has a name without an end")
        line = self._data[self._at : end]
        self._at = end + 1
        return self.text(line)

    def text(self, data: bytes) -> str:
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.error("has a text that is no UTF-8") from None

    def pop(self) -> typing.Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise self.error("takes more from its stack than there is")
        return self._stack.pop()

    def top(self) -> typing.Any:
        value = self.pop()
        self._stack.append(value)
        return value

    def since_mark(self) -> list[typing.Any]:
        if not self._marks:
            raise self.error("ends a list that it has not begun")
        mark = self._marks.pop()
        items = self._stack[mark:]
        del self._stack[mark:]
        return items

    def push(self, value: object) -> None:
        self._stack.append(value)

    def push_true(self) -> None:
        self._stack.append(True)

    def push_false(self) -> None:
        self._stack.append(False)

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def drop(self) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self.pop()

    # Numbers, texts and bytes.

    def protocol(self) -> None:
        if self.take(1)[0] not in _PROTOCOLS:
            raise self.error("is a pickle of a protocol that is not known here")

    def frame(self) -> None:
        if self.number(_U64) > len(self._data) - self._at:
            raise self.error("is cut short")

    def whole_number(self, length: int) -> None:
        if not 0 <= length <= self._limits.number_bytes:
            raise self.error(f"has a whole number of {length} bytes; {self._limits.number_bytes} are read at most")
        self.spend(_VALUE_WORK)
        self.push(int.from_bytes(self.take(length), "little", signed=True))

    def push_text(self, length: int) -> None:
        self.spend(_VALUE_WORK)
        self.push(self.text(self.take(length)))

    def push_bytes(self, length: int) -> None:
        self.spend(_VALUE_WORK)
        self.push(self.take(length))

    def push_byte_array(self, length: int) -> None:
        self.spend(_VALUE_WORK)
        self.push(bytearray(self.take(length)))

    # Containers.

    def push_tuple(self, items: list[typing.Any]) -> None:
        self.spend(_CONTAINER_WORK)
        self.push(tuple(items))

    def popped(self, count: int) -> list[typing.Any]:
        return [self.pop() for _ in range(count)][::-1]

    def container(self, value: object, work: int = _CONTAINER_WORK) -> None:
        self.spend(work)
        self.push(value)

    def append(self, items: list[typing.Any]) -> None:
        into = self.top()
        if type(into) is not list:
            raise self.error("appends to what is no list")
        into.extend(items)

    def add_items(self, items: list[typing.Any]) -> None:
        into = self.top()
        if type(into) is not set:
            raise self.error("adds to what is no set")
        self.spend(_ENTRY_WORK * len(items))
        for item in items:
            self.check_key(item)
        into.update(items)

    def set_items(self, items: list[typing.Any]) -> None:
        into = self.top()
        if not isinstance(into, dict) or len(items) % 2:
            raise self.error("sets items of what is no dictionary, or a key without a value")
        self.spend(_ENTRY_WORK * len(items) // 2)
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.check_key(key)
            into[key] = value

    def mapping(self, items: list[typing.Any]) -> None:
        self.container({})
        self.set_items(items)

    def frozen(self, items: list[typing.Any]) -> None:
        for item in items:
            self.check_key(item)
        self.container(frozenset(items), _SET_WORK + _ENTRY_WORK * len(items))

    def check_key(self, key: object) -> None:
        try:
            if type(key) is not tuple:
                check_plain_key(key)
                return
            self._tuple_keys -= 1
            check_tuple_key(key)
        except ForeignFormatError as error:
            raise self.error(f"has a dictionary or set that is not read: {error}") from error
        if self._tuple_keys < 0:
            raise self.error(f"has more than {self._limits.tuple_keys} keys that are tuples")

    # Memory.

    def remember(self, number: int) -> None:
        if number not in self._memo:
            self.spend(_MEMO_WORK)
        self._memo[number] = self.top()

    def remember_next(self) -> None:
        self.remember(len(self._memo))

    def recall(self, number: int) -> None:
        if number not in self._memo:
            raise self.error("recalls what it has not remembered")
        self.push(self._memo[number])

    # Objects.

    def named_class(self, module: object, name: object) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise self.error("names a class by what is no text")
        known = self._classes.get((module, name))
        if known is None:
            raise self.error(
                f"holds an object of the class {quoted(f'{module}.{name}')}, which is not on the list of classes that "
                "are read. Save it again with tensors, numbers, texts, lists and dictionaries in its place",
            )
        self.push(known)

    def make(self) -> None:
        arguments, known = self.pop(), self.pop()
        if not isinstance(known, KnownClass | EnumClass) or type(arguments) is not tuple:
            raise self.error("calls what is no class")
        self.spend(_OBJECT_WORK)
        self.spend_copying(arguments)
        try:
            self.push(known.make(arguments))
        except ForeignFormatError as error:
            raise self.error(f"has an object of {known.name} that is not sound: {error}") from error

    def make_with_names(self) -> None:
        names = self.pop()
        if type(names) is not dict or names:
            raise self.error("makes an object with named arguments, which no known class has")
        self.make()

    def set_state(self) -> None:
        state, value = self.pop(), self.top()
        self.spend(_OBJECT_WORK)
        self.spend_copying((state,))
        try:
            if isinstance(value, StandIn):
                value.set_state(state)
            else:
                fill_array(value, state)
        except ForeignFormatError as error:
            raise self.error(f"has an object with a state that is not sound: {error}") from error

    def outside(self) -> None:
        if self._persistent is None:
            raise self.error("refers to an object outside of it")
        self.spend(_OBJECT_WORK)
        try:
            self.push(self._persistent(self.pop()))
        except ForeignFormatError as error:
            raise self.error(f"refers to what is not there: {error}") from error


_U8 = struct.Struct("<B")
_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_F64 = struct.Struct(">d")

_STOP = ord(".")

# The instructions of protocols 2 to 5 that a checkpoint needs, by their byte. Not here are texts of protocol 0 and 1
# (I, L, F, S, T, U, V, P, p, g, i, o), classes by registered numbers (EXT1, EXT2, EXT4) and buffers outside of the
# pickle.
_STEPS: dict[int, typing.Callable[[_Machine], None]] = {
    0x80: _Machine.protocol,
    0x95: _Machine.frame,
    ord("("): _Machine.mark,
    ord("0"): _Machine.drop,
    ord("1"): lambda m: m.since_mark().clear(),
    ord("2"): lambda m: m.push(m.top()),
    ord("N"): lambda m: m.push(None),
    0x88: _Machine.push_true,
    0x89: _Machine.push_false,
    ord("K"): lambda m: m.push(m.number(_U8)),
    ord("M"): lambda m: m.push(m.number(_U16)),
    ord("J"): lambda m: m.push(m.number(_I32)),
    0x8A: lambda m: m.whole_number(m.number(_U8)),
    0x8B: lambda m: m.whole_number(m.number(_I32)),
    ord("G"): lambda m: m.push(m.number(_F64)),
    0x8C: lambda m: m.push_text(m.number(_U8)),
    ord("X"): lambda m: m.push_text(m.number(_U32)),
    0x8D: lambda m: m.push_text(m.number(_U64)),
    ord("C"): lambda m: m.push_bytes(m.number(_U8)),
    ord("B"): lambda m: m.push_bytes(m.number(_U32)),
    0x8E: lambda m: m.push_bytes(m.number(_U64)),
    0x96: lambda m: m.push_byte_array(m.number(_U64)),
    ord(")"): lambda m: m.push(()),
    0x85: lambda m: m.push_tuple(m.popped(1)),
    0x86: lambda m: m.push_tuple(m.popped(2)),
    0x87: lambda m: m.push_tuple(m.popped(3)),
    ord("t"): lambda m: m.push_tuple(m.since_mark()),
    ord("]"): lambda m: m.container([]),
    ord("}"): lambda m: m.container({}),
    0x8F: lambda m: m.container(set(), _SET_WORK),
    ord("l"): lambda m: m.container(m.since_mark()),
    ord("d"): lambda m: m.mapping(m.since_mark()),
    0x91: lambda m: m.frozen(m.since_mark()),
    ord("a"): lambda m: m.append([m.pop()]),
    ord("e"): lambda m: m.append(m.since_mark()),
    0x90: lambda m: m.add_items(m.since_mark()),
    ord("s"): lambda m: m.set_items(m.popped(2)),
    ord("u"): lambda m: m.set_items(m.since_mark()),
    0x94: _Machine.remember_next,
    ord("q"): lambda m: m.remember(m.number(_U8)),
    ord("r"): lambda m: m.remember(m.number(_U32)),
    ord("h"): lambda m: m.recall(m.number(_U8)),
    ord("j"): lambda m: m.recall(m.number(_U32)),
    ord("c"): lambda m: m.named_class(m.line(), m.line()),
    0x93: lambda m: m.named_class(*m.popped(2)),
    ord("R"): _Machine.make,
    0x81: _Machine.make,
    0x92: _Machine.make_with_names,
    ord("b"): _Machine.set_state,
    ord("Q"): _Machine.outside,
}
