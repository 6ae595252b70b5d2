"""Whether a daemon at a Unix socket is believed.

Any user of a host can listen at a socket. The kernel says which user does, and a client believes root, its own user,
and the one whom the provider has named in /etc/harmonaize/daemon-user. Sockets that nobody named are looked for only in
folders that no stranger can have made. docs/user-guide.md, "Which daemon", has the rules.
"""

from __future__ import annotations

import os
import pathlib
import pwd
import stat
import typing

from harmonaize.errors import UntrustedDaemonError
from harmonaize.places import Place, own_temporary_folder, runtime_folder

DAEMON_USER_FILE = pathlib.Path("/etc/harmonaize/daemon-user")
_USER_MAP = pathlib.Path("/proc/self/uid_map")
_OVERFLOW_USER = pathlib.Path("/proc/sys/kernel/overflowuid")
_USUAL_OVERFLOW_USER = 65534
_TEMPORARY = pathlib.Path("/tmp")  # noqa: S108
# The user map of a process whose user namespace knows every user: all 32-bit numbers but the last.
_WHOLE_MAP = ["0", "0", "4294967295"]
# Most bytes of the daemon-user file; names of users have 32 at most.
_LONGEST_FILE = 256
_ROOT = 0
_NO_USER = 0xFFFFFFFF
_WAY_OUT = "have it removed, or give the daemon and its clients another socket with HARMONAIZE_SOCKET"


def check_user(user: int, place: Place) -> None:
    """Raises UntrustedDaemonError unless a daemon that runs as `user` is believed at this place."""
    if _may_be_anybody(user):
        _check_unknown_user(place)
        return
    if user in {_ROOT, os.geteuid()}:
        return
    try:
        named, why = read_daemon_user(DAEMON_USER_FILE), ""
    except ValueError as error:
        named, why = None, f" ({error})"
    if named == user:
        return
    raise UntrustedDaemonError(
        f"the daemon at {place.socket} is not believed: it runs as user {user}, neither as root, nor as this user "
        f"({os.geteuid()}), nor as the one whom {DAEMON_USER_FILE} names{why}; if it is the provider's, root can name "
        "its user there"
    )


def _check_unknown_user(place: Place) -> None:
    """Raises UntrustedDaemonError unless a daemon from outside of this user namespace is believed here."""
    if not _USER_MAP.exists():
        raise UntrustedDaemonError(
            f"the daemon at {place.socket} is not believed: without {_USER_MAP} nobody can tell whose it is"
        )
    if not place.named:
        raise UntrustedDaemonError(
            f"the daemon at {place.socket} is not believed: it runs as a user whom this user namespace does not "
            "know; if it is the provider's, name its socket in HARMONAIZE_SOCKET"
        )


def check_folder(place: Place) -> None:
    """Raises UntrustedDaemonError if a stranger may have made a folder on the way to a socket that nobody named."""
    if place.named:
        return
    folder = pathlib.Path(os.path.normpath(pathlib.Path(place.socket).absolute())).parent
    for base in (_TEMPORARY, pathlib.Path(runtime_folder() or _TEMPORARY)):
        if folder != base and folder.is_relative_to(base):
            for name in reversed([folder, *folder.parents][: len(folder.parts) - len(base.parts)]):
                _check_one(name, place)
            return


def read_daemon_user(file: pathlib.Path) -> int | None:
    """Returns the number of the user whom the file names; None where there is no file.

    ValueError: a user other than root may have written the file, or it names no user.
    """
    try:
        found = file.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from error
    for path, status in ((file.parent, file.parent.stat()), (file, found)):
        _check_of_root(path, status)
    return _user_named(_word_in(file), file)


def _word_in(file: pathlib.Path) -> str:
    """Returns the one word that the file holds."""
    try:
        # The file may be a pipe, and opening it must not wait.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise ValueError(str(error)) from error
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        _check_of_root(file, status)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{file} is no file")
        text = opened.read(_LONGEST_FILE + 1)
    words = text.decode(errors="replace").split()
    if len(text) > _LONGEST_FILE or len(words) != 1:
        raise ValueError(f"{file} does not hold one word")
    return words[0]


def _user_named(name: str, file: pathlib.Path) -> int:
    """Returns the number of the user with this name or number."""
    if name.isascii() and name.isdigit() and int(name) < _NO_USER:
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ValueError(f"{file} names no user that this host knows") from None


def _check_of_root(path: pathlib.Path, status: os.stat_result) -> None:
    """Raises ValueError if users other than root may have changed the file."""
    if status.st_uid != 0:
        raise ValueError(f"{path} belongs to user {status.st_uid}, not to root")
    if not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"{path} may be written by others than root")


def _check_one(folder: pathlib.Path, place: Place) -> None:
    """Raises UntrustedDaemonError if this folder may be a stranger's. A missing one is nobody's."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        _distrust(place, f"cannot look at the folder {folder}: {error.strerror}")
    if not stat.S_ISDIR(found.st_mode):
        _distrust(place, f"{folder} is not a folder; {_WAY_OUT}")
    if _may_be_anybody(found.st_uid) or found.st_uid not in {0, os.geteuid()}:
        _distrust(place, f"the folder {folder} belongs to user {found.st_uid}, neither to this user nor to root")
    if folder == own_temporary_folder() and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        _distrust(place, f"others may enter the folder {folder}; `chmod 700 {folder}`")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        _distrust(place, f"everybody may write to the folder {folder}; `chmod o-w {folder}`")


def _distrust(place: Place, why: str) -> typing.NoReturn:
    raise UntrustedDaemonError(f"no daemon is sought at {place.socket}: {why}")


def _may_be_anybody(user: int) -> bool:
    """Returns whether this number stands for every user whom this user namespace does not know."""
    try:
        overflow = int(_OVERFLOW_USER.read_text())
    except (OSError, ValueError):
        overflow = _USUAL_OVERFLOW_USER
    if user != overflow:
        return False
    try:
        return _USER_MAP.read_text().split() != _WHOLE_MAP
    except OSError:
        return True
