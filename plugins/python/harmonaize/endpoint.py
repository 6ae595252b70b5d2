"""Where a daemon's HTTP interface is reached: at a Unix socket beside its own, or over TCP."""

from __future__ import annotations

import abc
import os
import socket
import ssl
import struct
import urllib.parse

from harmonaize.errors import NoDaemonError, UntrustedDaemonError
from harmonaize.places import Place, http_socket, operators_socket, places_to_try
from harmonaize.request import check_header_value
from harmonaize.trust import check_folder, check_user

# Hosts at which a token may be sent without TLS. Not localhost: it is two addresses, of which the daemon has one, and
# any user can listen at the other (docs/http.md).
_LOOPBACK = {"127.0.0.1", "::1"}
_SCHEMES = {"http": 80, "https": 443}
_START_ONE = "; start one with `harmonaized`, or point HARMONAIZE_SOCKET at a running one"
_MOUNT_HINT = (
    ". In a container, mount the folder of the daemon's socket, and name the socket: `docker run -v "
    "/run/harmonaize:/run/harmonaize -e HARMONAIZE_SOCKET=/run/harmonaize/harmonaized.sock ...`"
)
_OPERATORS = "; operators are root, the user who runs the daemon, and the members of the group that it lets in"


class Endpoint(abc.ABC):
    """A place where one daemon is reached. It holds no connection."""

    host: str
    token: str | None = None
    tls: ssl.SSLContext | None = None

    @abc.abstractmethod
    def connect(self, within: float) -> socket.socket:
        """Returns a connected socket, after TLS where there is any, within so many seconds. NoDaemonError."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns how errors name the place."""


class UnixEndpoint(Endpoint):
    """A daemon of this host. The kernel says who the caller is."""

    host = "localhost"

    def __init__(self, places: tuple[Place, ...], *, as_operator: bool) -> None:
        """Takes the places to try, in order. The first at which a believed daemon is found is kept."""
        self._places = places
        self._as_operator = as_operator

    def connect(self, within: float) -> socket.socket:
        """Connects at the first place where a believed daemon listens. `within` 0: it does not wait at all."""
        reasons: list[str] = []
        kind = NoDaemonError
        for place in self._places:
            try:
                connected = self._connect_at(place, within)
            except UntrustedDaemonError as error:
                kind = UntrustedDaemonError
                reasons.append(str(error))
            except OSError as error:
                reasons.append(f"cannot connect to {self._path(place)}: {error.strerror or error}")
            else:
                self._places = (place,)
                return connected
        raise kind("; ".join(reasons) + self._way_out())

    def describe(self) -> str:
        """Returns the sockets' names."""
        return ", ".join(self._path(place) for place in self._places)

    def _connect_at(self, place: Place, within: float) -> socket.socket:
        check_folder(place)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(within)
            connection.connect(self._path(place))
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
            check_user(struct.unpack("iII", credentials)[1], place)
        except BaseException:
            connection.close()
            raise
        return connection

    def _path(self, place: Place) -> str:
        return http_socket(operators_socket(place.socket) if self._as_operator else place.socket)

    def _way_out(self) -> str:
        hint = _START_ONE
        if any(place.named and place.socket.endswith((".http", "http.sock")) for place in self._places):
            hint = "; name the daemon's own socket, such as /run/harmonaize/harmonaized.sock, not the one of HTTP"
        return (_OPERATORS if self._as_operator else hint) + _MOUNT_HINT


class TcpEndpoint(Endpoint):
    """A daemon over TCP. The token says who the caller is."""

    def __init__(self, url: str, token: str, ca_file: str | os.PathLike[str] | None) -> None:
        """Takes where the daemon listens. ValueError: the URL is none of a daemon, or would give the token away."""
        parts = _parts_of(url)
        self.url = url
        self.address = (parts.hostname or "", parts.port or _SCHEMES[parts.scheme])
        self.host = parts.netloc
        self.token = check_header_value(token, "a token")
        if parts.scheme == "https":
            self.tls = ssl.create_default_context(cafile=ca_file)
        elif ca_file is not None:
            raise ValueError("a ca_file is for https")
        elif self.address[0] not in _LOOPBACK:
            raise ValueError(
                f"{url} would send the token in the clear: use https; without TLS a daemon listens at 127.0.0.1 or "
                "[::1] alone, and these addresses have to be named themselves"
            )

    def connect(self, within: float) -> socket.socket:
        """Connects, and checks the certificate."""
        try:
            connection = socket.create_connection(self.address, within)
        except OSError as error:
            raise self.explained(error) from error
        if self.tls is None:
            return connection
        try:
            return self.tls.wrap_socket(connection, server_hostname=self.address[0])
        except OSError as error:
            connection.close()
            raise self.explained(error) from error

    def describe(self) -> str:
        """Returns the URL."""
        return self.url

    def explained(self, error: OSError) -> NoDaemonError:
        """Returns the error for one that the connecting met."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return UntrustedDaemonError(
                f"the daemon at {self.url} is not believed: {error.verify_message}; ca_file names the certificate of "
                "the authority that its operators use"
            )
        return NoDaemonError(
            f"no daemon answers at {self.url}: {error.strerror or error}; its operators say in `http.listen` where it "
            "listens over TCP"
        )


def endpoint_for(
    socket: str | os.PathLike[str] | None,
    url: str | None,
    token: str | None,
    ca_file: str | os.PathLike[str] | None,
    *,
    as_operator: bool,
) -> Endpoint:
    """Returns the endpoint that these arguments of `connect` name. ValueError: they do not fit each other."""
    if url is None:
        if token is not None or ca_file is not None:
            raise ValueError("a token and a ca_file are for a url; at a Unix socket the kernel says who you are")
        return UnixEndpoint(places_to_try(socket), as_operator=as_operator)
    if socket is not None or as_operator:
        raise ValueError("with a url there is no socket, and the token says whether its holder is an operator")
    if token is None:
        raise ValueError("a daemon takes no request over TCP without a token; operators make one by `harmonaize token`")
    return TcpEndpoint(url, token, ca_file)


def _parts_of(url: str) -> urllib.parse.SplitResult:
    """Returns the URL's parts. ValueError: it has others than a daemon's has."""
    parts = urllib.parse.urlsplit(url)
    plain = url.isascii() and url.isprintable() and " " not in url
    simple = not (parts.query or parts.fragment or parts.path.strip("/") or "@" in parts.netloc)
    if not plain or not simple or parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError(f"{url[:256]!r} is no address of a daemon; it looks like https://HOST:PORT")
    return parts
