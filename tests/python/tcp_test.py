"""A daemon over TCP, with and without TLS: the token says who calls."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
import subprocess
import tempfile
import typing

import pytest

import harmonaize
from daemons import PATIENCE_SECONDS, PROGRAMS, Daemon, Job, daemon_in_folder, free_port, job_at, next_event


@pytest.fixture(scope="module")
def certificate() -> typing.Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """A certificate for localhost, and its key."""
    program = shutil.which("openssl") or ""
    if not program:
        pytest.skip("there is no openssl, which makes the certificate")
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        made, key = pathlib.Path(name) / "certificate.pem", pathlib.Path(name) / "key.pem"
        command = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-keyout", str(key), "-out", str(made), "-days", "2", "-subj", "/CN=localhost"]
        command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run(command, check=True, capture_output=True)
        yield made, key


@pytest.fixture(scope="module")
def tls_daemon(certificate: tuple[pathlib.Path, pathlib.Path]) -> typing.Iterator[Daemon]:
    """A daemon that serves TLS."""
    if not (PROGRAMS / "harmonaized").exists():
        pytest.skip("there is no daemon")
    made, key = certificate
    config = f'[http]\nlisten = "127.0.0.1:0"\ncertificate_file = "{made}"\nkey_file = "{key}"\n'
    with daemon_in_folder(config) as one:
        yield one


def new_token(daemon: Daemon, scope: str = "tenant") -> dict[str, typing.Any]:
    order = {"scope": scope}
    if scope == "tenant":
        order["tenant"] = str(os.geteuid())
    made: dict[str, typing.Any] = daemon.operator().call("POST", "/v1/tokens", order)
    return made


def test_jobs_and_events_come_over_tls(tls_daemon: Daemon, certificate: tuple[pathlib.Path, pathlib.Path]) -> None:
    url, token = f"https://localhost:{tls_daemon.port}", new_token(tls_daemon)["token"]
    client = harmonaize.connect(url=url, token=token, ca_file=certificate[0])
    assert token not in repr(client)
    assert client.whoami().scope == "tenant"
    with job_at(tls_daemon, "remote") as job:
        assert client.job("remote").id == job.id
        with client.events(job="remote") as events:
            tls_daemon.tell(job.id, "over TLS")
            assert next_event(events).text == "over TLS"
            connection = events._connection
            assert connection is not None
            connection._socket.close()
            tls_daemon.tell(job.id, "over TLS again")
            assert next_event(events).text == "over TLS again"

        async def listen() -> None:
            async with client.events_async(job="remote") as following:
                await asyncio.to_thread(tls_daemon.tell, job.id, "to asyncio")
                event = await following.next(PATIENCE_SECONDS)
                assert isinstance(event, harmonaize.Event)
                assert event.text == "to asyncio"

        asyncio.run(listen())


def test_a_certificate_that_nobody_vouches_for_is_not_believed(tls_daemon: Daemon) -> None:
    token = new_token(tls_daemon)["token"]
    with pytest.raises(harmonaize.UntrustedDaemonError, match=r"not believed.*ca_file"):
        harmonaize.connect(url=f"https://127.0.0.1:{tls_daemon.port}", token=token)


def test_plain_http_to_a_port_with_tls_is_an_error(tls_daemon: Daemon) -> None:
    client = harmonaize.connect(url=f"http://127.0.0.1:{tls_daemon.port}", token="hz_none")
    with pytest.raises(harmonaize.HarmonaizeError):
        client.jobs()


def test_a_token_is_needed_and_can_be_revoked(daemon: Daemon, job: Job) -> None:
    url = f"http://127.0.0.1:{daemon.port}"
    with pytest.raises(harmonaize.ProblemError) as caught:
        harmonaize.connect(url=url, token="hz_none").jobs()
    assert caught.value.status == 401
    token = new_token(daemon)
    client = harmonaize.connect(url=url, token=token["token"])
    with client.events("power.limited", job.id) as events:
        daemon.tell(job.id, "to the holder")
        assert next_event(events).text == "to the holder"
        daemon.operator().call("DELETE", f"/v1/tokens/{token['id']}")
        with pytest.raises(harmonaize.ProblemError) as caught:
            events.next(PATIENCE_SECONDS)
        assert caught.value.status == 401
        assert events.next() is None


def test_an_operators_token_that_may_only_read_cannot_tell(daemon: Daemon, job: Job) -> None:
    token = new_token(daemon, "operator-read-only")["token"]
    client = harmonaize.connect(url=f"http://127.0.0.1:{daemon.port}", token=token)
    assert client.whoami().scope == "operator-read-only"
    assert client.job(job.id).tenant is not None
    with pytest.raises(harmonaize.ProblemError) as caught:
        client.call("POST", "/v1/hosts/this/drain", {})
    assert caught.value.status == 403


def test_a_port_where_nobody_listens_is_explained() -> None:
    with pytest.raises(harmonaize.NoDaemonError, match=r"no daemon answers at http://127.*http\.listen"):
        harmonaize.connect(url=f"http://127.0.0.1:{free_port()}", token="hz_none")
