"""The zip files that `torch.save` writes: members that are stored as they are, one after the other."""

from __future__ import annotations

import struct
import typing

from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted

# Bytes at the end in which the archive's end record lies: its 22 bytes and the longest comment.
_END_REACH = 22 + 0xFFFF

# Largest list of members, in bytes: 300,000 members of a hundred bytes each. It bounds what is held in memory.
_MOST_DIRECTORY_BYTES = 32 << 20

_END = struct.Struct("<4s4H2LH")
_END_64_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")

# Values that say: see the 64-bit field.
_IN_64 = 0xFFFFFFFF
_COUNT_IN_64 = 0xFFFF

# The number of the extra field that has the 64-bit sizes.
_EXTRA_64 = 1

# The flag of an encrypted member.
_ENCRYPTED = 1


class _Member(typing.NamedTuple):
    name: bytes
    begin: int
    size: int
    end: int
    is_plain: bool


class ZipArchive:
    """The members of a zip file. Nothing is unpacked: a compressed member is refused, so no file is a bomb."""

    def __init__(self, source: ByteSource) -> None:
        """Reads the list of members. ForeignFormatError: it is no sound archive."""
        self._source = source
        self._members = _members(source)

    @property
    def names(self) -> typing.Iterable[str]:
        """The members' names."""
        return self._members.keys()

    def __contains__(self, name: str) -> bool:
        """Returns whether there is such a member."""
        return name in self._members

    def open(self, name: str) -> ByteSource:
        """Returns a member's bytes. ForeignFormatError: there is none of this name, or its own header differs."""
        member = self._members.get(name)
        if member is None:
            raise ForeignFormatError(f"{self._source.name} has no member {quoted(name)}: a part of it is missing")
        if not member.is_plain:
            raise ForeignFormatError(
                f"{self._source.name} holds {quoted(name)} compressed or encrypted, which torch.save does not do: "
                "unpack it, and save it again with torch.save",
            )
        header = _LOCAL.unpack(self._source.read(member.begin, _LOCAL.size))
        name_length, extra_length = header[9], header[10]
        begin = member.begin + _LOCAL.size + name_length + extra_length
        if header[0] != b"PK\3\4" or begin + member.size > member.end:
            raise ForeignFormatError(f"{self._source.name} has a member {quoted(name)} that is not where it should be")
        if self._source.read(member.begin + _LOCAL.size, name_length) != member.name:
            raise ForeignFormatError(f"{self._source.name} gives its member {quoted(name)} two names")
        return self._source.part(begin, member.size)


def _members(source: ByteSource) -> dict[str, _Member]:
    count, begin, size = _directory(source)
    if size > _MOST_DIRECTORY_BYTES or count * _ENTRY.size > size:
        raise ForeignFormatError(f"{source.name} announces {count} members in {size} bytes")
    data = source.read(begin, size)
    found: dict[str, _Member] = {}
    at = 0
    for _ in range(count):
        member, at = _member(data, at, source)
        name = member.name.decode(errors="replace")
        if name in found:
            raise ForeignFormatError(f"{source.name} has two members {quoted(name)}")
        found[name] = member
    return _with_ends(found, begin, source)


def _directory(source: ByteSource) -> tuple[int, int, int]:
    """Returns the count of members, and where the list of them lies."""
    # torch.save leaves no comment behind the end record. Only others' files are looked through for one.
    reach = min(source.size, _END.size)
    tail = source.read(source.size - reach, reach)
    if not tail.startswith(b"PK\5\6"):
        reach = min(source.size, _END_REACH)
        tail = source.read(source.size - reach, reach)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > reach:
        raise ForeignFormatError(f"{source.name} is no whole zip file: its end is missing")
    _, _, _, _, count, size, begin, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != reach:
        raise ForeignFormatError(f"{source.name} has bytes after its end")
    end = source.size - reach + at
    if end >= _END_64_LOCATOR.size:
        signature, _, end_64, _ = _END_64_LOCATOR.unpack(source.read(end - _END_64_LOCATOR.size, _END_64_LOCATOR.size))
        if signature == b"PK\6\7":
            return _directory_64(source, end_64)
    if count == _COUNT_IN_64 or _IN_64 in {size, begin}:
        raise ForeignFormatError(f"{source.name} lacks the 64-bit end record that it announces")
    return count, begin, size


def _directory_64(source: ByteSource, at: int) -> tuple[int, int, int]:
    record = _END_64.unpack(source.read(at, _END_64.size))
    if record[0] != b"PK\6\6":
        raise ForeignFormatError(f"{source.name} has no end record where it says")
    count, size, begin = record[7], record[8], record[9]
    return count, begin, size


def _member(data: bytes, at: int, source: ByteSource) -> tuple[_Member, int]:
    """Returns the member whose entry is at `at` of the list, and where the next entry is."""
    if at + _ENTRY.size > len(data):
        raise ForeignFormatError(f"{source.name} has a list of members that is cut short")
    entry = _ENTRY.unpack_from(data, at)
    signature, flags, method = entry[0], entry[3], entry[4]
    packed, size, name_length, extra_length, comment_length, begin = (*entry[8:13], entry[16])
    name = data[at + _ENTRY.size : at + _ENTRY.size + name_length]
    extra_at = at + _ENTRY.size + name_length
    after = extra_at + extra_length + comment_length
    if signature != b"PK\1\2" or after > len(data):
        raise ForeignFormatError(f"{source.name} has a list of members that is no list")
    if _IN_64 in {packed, size, begin}:
        packed, size, begin = _sizes_64(data[extra_at : extra_at + extra_length], (packed, size, begin), source)
    is_plain = method == 0 and not flags & _ENCRYPTED and packed == size
    return _Member(name, begin, packed, 0, is_plain), after


def _sizes_64(extra: bytes, fields: tuple[int, int, int], source: ByteSource) -> tuple[int, int, int]:
    """Returns the packed size, size and place of a member, those that do not fit 32 bits from the extra field."""
    packed, size, begin = fields
    at = 0
    while at + 4 <= len(extra):
        number, length = struct.unpack_from("<2H", extra, at)
        if number == _EXTRA_64:
            values = [value for (value,) in struct.iter_unpack("<Q", extra[at + 4 : at + 4 + length // 8 * 8])]
            wanted = [size == _IN_64, packed == _IN_64, begin == _IN_64]
            if len(values) >= sum(wanted):
                rest = iter(values)
                size = next(rest) if wanted[0] else size
                packed = next(rest) if wanted[1] else packed
                return packed, size, next(rest) if wanted[2] else begin
        at += 4 + length
    raise ForeignFormatError(f"{source.name} has a member without the 64-bit size that it announces")


def _with_ends(members: dict[str, _Member], directory: int, source: ByteSource) -> dict[str, _Member]:
    """Returns the members with where each ends at the latest. ForeignFormatError: two overlap."""
    in_order = sorted(members.items(), key=lambda item: item[1].begin)
    ends = [*(member.begin for _, member in in_order), directory][1:]
    for (name, member), end in zip(in_order, ends, strict=True):
        if member.begin + _LOCAL.size + len(member.name) + member.size > end:
            raise ForeignFormatError(f"{source.name} has a member {quoted(name)} that overlaps another")
    return {name: member._replace(end=end) for (name, member), end in zip(in_order, ends, strict=True)}
