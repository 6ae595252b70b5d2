"""A checkpoint's folder, out of which no name leads."""

from __future__ import annotations

import os
import pathlib

from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted

# Most names in one folder: a training of 10,000 ranks writes 20,000 files, and a folder with far more is no checkpoint.
_MOST_NAMES = 1 << 20

# Longest text file that names a checkpoint (`latest`), in bytes: it holds a folder's name.
_LONGEST_LABEL = 4096


class Folder:
    """The folder of a checkpoint. Names of files come from the checkpoint, so a stranger may have made them up."""

    def __init__(self, path: pathlib.Path) -> None:
        """Takes a folder that exists. ForeignFormatError: it does not."""
        try:
            self.path = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise ForeignFormatError(f"there is no folder {quoted(str(path))}: {error}") from error
        if not self.path.is_dir():
            raise ForeignFormatError(f"{quoted(str(path))} is no folder")

    def resolved(self, name: str) -> pathlib.Path:
        """Returns where a name leads, following links inside the folder.

        ForeignFormatError: the name is absolute, has '..', or leads out of the folder.
        """
        parts = name.split("/")
        if not name or "\0" in name or any(part in {"", ".", ".."} for part in parts):
            raise ForeignFormatError(f"{quoted(name)} is no name of a file in {quoted(str(self.path))}")
        try:
            found = self.path.joinpath(*parts).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ForeignFormatError(f"{quoted(name)} leads nowhere: {error}") from error
        if not found.is_relative_to(self.path):
            raise ForeignFormatError(
                f"{quoted(name)} is a link that leads out of {quoted(str(self.path))}: copy the checkpoint with its "
                "links followed (cp -rL)",
            )
        return found

    def file(self, name: str) -> ByteSource:
        """Returns the file with this name. Errors: as of `resolved` and `ByteSource.of_file`."""
        return ByteSource.of_file(self.resolved(name))

    def has(self, name: str) -> bool:
        """Returns whether there is a file or folder with this name. Errors: as of `resolved`."""
        try:
            return self.resolved(name).exists()
        except OSError as error:
            raise ForeignFormatError(f"{quoted(name)} cannot be looked for: {error}") from error

    def folder(self, name: str) -> Folder:
        """Returns a folder inside. Errors: as of `resolved`; ForeignFormatError: there is none."""
        return Folder(self.resolved(name))

    def names(self) -> list[str]:
        """Returns the names in the folder in order. ForeignFormatError: there are too many, or it may not be listed."""
        found: list[str] = []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) > _MOST_NAMES:
                        raise ForeignFormatError(f"{quoted(str(self.path))} holds more than {_MOST_NAMES} files")
        except OSError as error:
            raise ForeignFormatError(f"{quoted(str(self.path))} cannot be listed: {error}") from error
        return sorted(found)

    def label(self, name: str) -> str:
        """Returns what a small text file says, without spaces around it. ForeignFormatError: it is no such file."""
        source = self.file(name)
        if source.size > _LONGEST_LABEL:
            raise ForeignFormatError(f"{source.name} is longer than a folder's name")
        try:
            return source.read(0, source.size).decode().strip()
        except UnicodeDecodeError:
            raise ForeignFormatError(f"{source.name} is no text") from None
