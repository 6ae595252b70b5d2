"""Where a daemon is looked for, whom a client believes there, and what it says where there is none."""

from __future__ import annotations

import asyncio
import os
import pathlib
import socket
import typing

import pytest

import harmonaize
from daemons import Daemon, Job
from harmonaize.errors import UntrustedDaemonError
from harmonaize.places import Place, http_socket, operators_socket, places_to_try
from harmonaize.trust import check_folder, check_user, read_daemon_user


@pytest.mark.parametrize(
    ("control", "tenants", "operators"),
    [
        ("/run/harmonaize/harmonaized.sock", "/run/harmonaize/http.sock", "/run/harmonaize/operator-http.sock"),
        ("harmonaized.sock", "http.sock", "operator-http.sock"),
        ("/tmp/d.sock", "/tmp/d.sock.http", "/tmp/d.sock.operator.http"),  # noqa: S108
    ],
)
def test_http_is_served_beside_the_daemons_socket(control: str, tenants: str, operators: str) -> None:
    assert http_socket(control) == tenants
    assert http_socket(operators_socket(control)) == operators


def test_the_environment_names_the_daemon(daemon: Daemon, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARMONAIZE_SOCKET", str(daemon.socket))
    client = harmonaize.connect()
    assert job.id in {one.id for one in client.jobs()}
    assert str(daemon.socket) in repr(client)


def test_without_a_name_the_systems_comes_before_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARMONAIZE_SOCKET", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/4711")
    system = Place("/run/harmonaize/harmonaized.sock", named=False)
    assert places_to_try(None) == (system, Place("/run/user/4711/harmonaize/harmonaized.sock", named=False))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "not/absolute")
    own = "/tmp/harmonaize-4711/harmonaized.sock"  # noqa: S108
    assert places_to_try(None) == (system, Place(own, named=False))
    assert places_to_try(pathlib.Path("/a/b")) == (Place("/a/b", named=True),)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert places_to_try(None) == (system,)
    with pytest.raises(ValueError, match="empty"):
        places_to_try("")


def test_a_missing_daemon_is_explained(tmp_path: pathlib.Path) -> None:
    with pytest.raises(harmonaize.NoDaemonError) as caught:
        harmonaize.connect(tmp_path / "harmonaized.sock")
    said = str(caught.value)
    assert f"cannot connect to {tmp_path}/http.sock: No such file" in said
    assert "start one with `harmonaized`, or point HARMONAIZE_SOCKET at a running one" in said
    assert "docker run -v /run/harmonaize:/run/harmonaize" in said
    with pytest.raises(harmonaize.NoDaemonError, match="not the one of HTTP"):
        harmonaize.connect(tmp_path / "http.sock")


def test_a_daemon_that_has_gone_is_missed_at_the_next_call(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "d.sock.http"))
        listener.listen()
        client = harmonaize.connect(tmp_path / "d.sock")
    with pytest.raises(harmonaize.NoDaemonError, match="Connection refused"):
        client.jobs()
    with pytest.raises(harmonaize.NoDaemonError, match="Connection refused"):
        client.events()

    async def listen() -> None:
        async with client.events_async():
            pass

    with pytest.raises(harmonaize.NoDaemonError, match="Connection refused"):
        asyncio.run(listen())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"token": "hz_x"}, "for a url"),
        ({"url": "https://127.0.0.1:1"}, "without a token"),
        ({"url": "https://127.0.0.1:1", "token": "hz_x", "socket": "/a"}, "there is no socket"),
        ({"url": "https://127.0.0.1:1", "token": "hz_x", "as_operator": True}, "whether its holder is an operator"),
        ({"url": "http://10.0.0.1:1", "token": "hz_x"}, "in the clear"),
        ({"url": "http://localhost:1", "token": "hz_x"}, "in the clear"),
        ({"url": "http://127.0.0.1:1", "token": "hz_x", "ca_file": "/a"}, "for https"),
        ({"url": "http://127.0.0.1:1", "token": "hz_\r\nX: y"}, "visible ASCII"),
        ({"url": "ftp://127.0.0.1:1", "token": "hz_x"}, "no address of a daemon"),
        ({"url": "https://me@127.0.0.1:1", "token": "hz_x"}, "no address of a daemon"),
        ({"url": "https://127.0.0.1:1/v1?a=b", "token": "hz_x"}, "no address of a daemon"),
        ({"url": "https://", "token": "hz_x"}, "no address of a daemon"),
        ({"timeout": 0}, "more than 0 seconds"),
        ({"timeout": float("nan")}, "more than 0 seconds"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, typing.Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        harmonaize.connect(**arguments)


def test_calls_that_cannot_be_sent_are_refused(daemon: Daemon) -> None:
    client = daemon.client()
    for path in ("v1/jobs", "/v1/jobs HTTP/1.1\r\nX: y", "/v1/jobs?a=b", "/ü"):
        with pytest.raises(ValueError, match="is no path"):
            client.call("GET", path)
    with pytest.raises(ValueError, match="is no method"):
        client.call("GET /", "/v1/jobs")


def test_the_daemon_user_file_names_who_is_believed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's file counts")
    file = tmp_path / "daemon-user"
    tmp_path.chmod(0o755)
    monkeypatch.setattr("harmonaize.trust.DAEMON_USER_FILE", file)
    place = Place("/a", named=True)
    with pytest.raises(UntrustedDaemonError, match=r"user 4711.*root can name its user there"):
        check_user(4711, place)
    file.write_text(" 4711\n")
    check_user(4711, place)
    with pytest.raises(UntrustedDaemonError):
        check_user(4712, place)
    file.write_text("daemon\n")
    assert read_daemon_user(file) == 1
    for text in ("", "two words", "nobody-of-this-host", "x" * 300):
        file.write_text(text)
        with pytest.raises(ValueError, match="daemon-user"):
            read_daemon_user(file)
    file.write_text("4711")
    file.chmod(0o666)
    with pytest.raises(UntrustedDaemonError, match="may be written by others"):
        check_user(4711, place)
    file.unlink()
    os.mkfifo(file, 0o644)
    with pytest.raises(ValueError, match="is no file"):
        read_daemon_user(file)


def test_folders_that_a_stranger_may_have_made_are_passed_over(tmp_path: pathlib.Path) -> None:
    if not str(tmp_path).startswith("/tmp/"):  # noqa: S108
        pytest.skip("temporary files are elsewhere, where folders are not checked")
    folder = tmp_path / "harmonaize"
    place = Place(str(folder / "harmonaized.sock"), named=False)
    check_folder(place)
    folder.mkdir()
    check_folder(place)
    folder.chmod(0o777)
    with pytest.raises(UntrustedDaemonError, match="everybody may write"):
        check_folder(place)
    check_folder(Place(place.socket, named=True))
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(UntrustedDaemonError, match="is not a folder"):
        check_folder(place)


def test_an_unknown_user_of_a_namespace_is_believed_where_it_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_map = tmp_path / "uid_map"
    user_map.write_text("0 100000 65536\n")
    monkeypatch.setattr("harmonaize.trust._USER_MAP", user_map)
    monkeypatch.setattr("harmonaize.trust._OVERFLOW_USER", tmp_path / "none")
    check_user(65534, Place("/a", named=True))
    with pytest.raises(UntrustedDaemonError, match="name its socket in HARMONAIZE_SOCKET"):
        check_user(65534, Place("/a", named=False))
    user_map.unlink()
    with pytest.raises(UntrustedDaemonError, match="nobody can tell"):
        check_user(65534, Place("/a", named=True))
