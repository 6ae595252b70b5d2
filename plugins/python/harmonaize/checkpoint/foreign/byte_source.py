"""Ranges of files, from which exactly the bytes that are asked for are read."""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import typing

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted

# Most bytes of one read, in bytes: Linux gives less than 2 GiB to one call.
_MOST_AT_ONCE = 1 << 30


class ByteSource:
    """A range of a file. The file is opened for each read, so that thousands of them cost no descriptors."""

    def __init__(self, path: pathlib.Path, begin: int, size: int) -> None:
        """Takes a range that lies in the file; `of_file` makes the first one."""
        self._path = path
        self._begin = begin
        self.size = size

    @classmethod
    def of_file(cls, path: pathlib.Path) -> ByteSource:
        """Returns a whole file. ForeignFormatError: there is none, or it is a pipe, folder or device."""
        with _opened(path) as descriptor:
            return cls(path, 0, os.fstat(descriptor).st_size)

    @property
    def name(self) -> str:
        """The file's name, as sentences have it."""
        return quoted(str(self._path))

    def part(self, begin: int, size: int) -> ByteSource:
        """Returns a part of the range. ForeignFormatError: it does not lie in it."""
        if begin < 0 or size < 0 or begin + size > self.size:
            raise ForeignFormatError(
                f"{self.name} is cut short: bytes {begin} to {begin + size} of {self.size} are needed",
            )
        return ByteSource(self._path, self._begin + begin, size)

    def read(self, begin: int, size: int) -> bytes:
        """Returns these bytes. ForeignFormatError: they do not lie in the range, or the file was cut meanwhile."""
        self.part(begin, size)
        data = bytearray(size)
        self.read_into(begin, memoryview(data))
        return bytes(data)

    def read_into(self, begin: int, into: memoryview) -> None:
        """Fills `into`, which is of bytes. Errors: as of `read`."""
        self.part(begin, len(into))
        done = 0
        with _opened(self._path) as descriptor:
            while done < len(into):
                count = os.preadv(descriptor, [into[done : done + _MOST_AT_ONCE]], self._begin + begin + done)
                if count == 0:
                    raise ForeignFormatError(f"{self.name} became shorter while it was read")
                done += count


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> typing.Iterator[int]:
    # Without O_NONBLOCK a pipe of this name would hold the reader for ever.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise ForeignFormatError(f"there is no file {quoted(str(path))}") from None
    except (OSError, ValueError) as error:
        raise ForeignFormatError(f"{quoted(str(path))} cannot be opened: {error}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ForeignFormatError(f"{quoted(str(path))} is no plain file")
        yield descriptor
    finally:
        os.close(descriptor)
