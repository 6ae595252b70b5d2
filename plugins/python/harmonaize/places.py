"""Where a client looks for a daemon on this host: the same places as the command line and the library."""

from __future__ import annotations

import dataclasses
import os
import pathlib

SYSTEM_SOCKET = "/run/harmonaize/harmonaized.sock"
_TENANTS_NAME = "harmonaized.sock"
_OPERATORS_NAME = "operator.sock"
_HTTP_NAMES = {_TENANTS_NAME: "http.sock", _OPERATORS_NAME: "operator-http.sock"}


@dataclasses.dataclass(frozen=True)
class Place:
    """A daemon's socket, and whether the user named it. Otherwise every client looks there."""

    socket: str
    named: bool


def places_to_try(socket: str | os.PathLike[str] | None) -> tuple[Place, ...]:
    """Returns the places to try, in order: only the one that is named, by the argument or by HARMONAIZE_SOCKET, or the
    system's and then the user's own.
    """
    named = os.fspath(socket) if socket is not None else os.environ.get("HARMONAIZE_SOCKET", "")
    if named:
        return (Place(named, named=True),)
    if socket is not None:
        raise ValueError("the socket's name is empty; leave it out to use the host's daemon")
    own = _user_socket()
    paths = (SYSTEM_SOCKET,) if own == SYSTEM_SOCKET else (SYSTEM_SOCKET, own)
    return tuple(Place(path, named=False) for path in paths)


def operators_socket(socket: str) -> str:
    """Returns where the daemon whose tenants connect at `socket` listens for operators."""
    if not socket.endswith(_TENANTS_NAME):
        return socket + ".operator"
    return socket.removesuffix(_TENANTS_NAME) + _OPERATORS_NAME


def http_socket(socket: str) -> str:
    """Returns where the daemon serves HTTP to those who connect at `socket` otherwise."""
    folder, slash, name = socket.rpartition("/")
    return folder + slash + _HTTP_NAMES[name] if name in _HTTP_NAMES else socket + ".http"


def runtime_folder() -> str:
    """Returns the absolute path in XDG_RUNTIME_DIR; "" where there is none."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return folder if folder.startswith("/") else ""


def own_temporary_folder() -> pathlib.Path:
    """Returns the folder of this user's socket where there is no runtime folder."""
    return pathlib.Path("/tmp") / f"harmonaize-{os.geteuid()}"  # noqa: S108


def _user_socket() -> str:
    """Returns where a daemon that this user starts listens."""
    if os.geteuid() == 0:
        return SYSTEM_SOCKET
    folder = runtime_folder()
    return f"{folder}/harmonaize/{_TENANTS_NAME}" if folder else str(own_temporary_folder() / _TENANTS_NAME)
