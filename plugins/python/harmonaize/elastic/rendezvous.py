"""Where the ranks of a job meet without having told each other anything: ids that are made from names."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import pathlib
import socket

from harmonaize.nccl import UniqueId

# The variable from which the library makes an id that every rank computes alike.
_VARIABLE = "NCCL_COMM_ID"
_MOST_PORT = 65535


def name_of(*parts: object) -> str:
    """Returns a name for a communicator that all ranks make from the same parts, and that differs for others."""
    return "elastic-" + _digest(parts)


def start_text() -> str:
    """Returns the text of the first meeting, from what `harmonaize run` and torchrun set."""
    address, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), os.environ.get("MASTER_PORT", "0")
    parts = ("start", address, port, os.environ.get("HARMONAIZE_JOB", ""), os.environ.get("TORCHELASTIC_RUN_ID", ""))
    resolved = _resolved(address)
    if resolved is None or resolved.is_loopback:
        return f"{name_of(*parts)}:1"
    # Daemons of other hosts find the first rank's by its address; the port only tells meetings apart.
    number = 1 + int(_digest(parts), 16) % _MOST_PORT
    return f"[{resolved}]:{number}" if resolved.version == 6 else f"{resolved}:{number}"  # noqa: PLR2004


def id_of(text: str) -> UniqueId:
    """Returns the id that every rank of this user makes from the text. Thread: one that alone sets variables."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = text
    try:
        return UniqueId.new()
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def host_number() -> int:
    """Returns a number that processes have in common if they share this host, its files and its daemon."""
    parts = [os.environ.get("HARMONAIZE_SOCKET", "")]
    for namespace in ("mnt", "net"):
        try:
            parts.append(str(pathlib.Path("/proc/self/ns", namespace).readlink()))
        except OSError:
            parts.append("")
    parts.append(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text())
    return int(_digest(parts), 16)


def _digest(parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()


def _resolved(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        pass
    try:
        return ipaddress.ip_address(socket.gethostbyname(address))
    except (OSError, ValueError):
        return None
