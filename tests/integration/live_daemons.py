"""Daemons on the loopback device that take each other for daemons of other hosts, with HTTP at their
Unix sockets and over TCP, and a job whose ranks are spread over them."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

PATIENCE_SECONDS = 60


def eventually(what, holds):
    """Waits until `holds()` is true, and returns what it returned."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"in {PATIENCE_SECONDS} s it did not come about that {what}")
        time.sleep(0.1)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.type = response.getheader("Content-Type", "")
        self.text = response.read().decode()

    def json(self):
        return json.loads(self.text)


def ask(connection, method, target, body=None, token=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    connection.request(method, target, body, headers)
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


class Daemon:
    """One daemon, in a folder of its own, which stays when it is stopped and started again. Its TCP port is
    one that was free when it was started: it takes one, and its log says which."""

    def __init__(self, programs, folder, number, certificate=None, decides=False):
        """With `decides` it is the controller of its cluster, and decides on the sizes of elastic jobs."""
        self.program = str(programs / "harmonaized")
        self.folder = folder / f"daemon{number}"
        self.folder.mkdir()
        self.socket = str(self.folder / "d.sock")
        self.port = None
        self.log = self.folder / "log"
        self.certificate = certificate
        key = folder / "key"
        if not key.exists():
            key.touch(0o600)
            key.write_text("a key that only this test's daemons know, 32 bytes and more\n")
        tls = "" if certificate is None else (f'certificate_file = "{certificate[0]}"\n'
                                              f'key_file = "{certificate[1]}"\n')
        address = f"127.0.0.{number + 1}:{free_port() if decides else 0}"
        controller = f'controller = "{address}"\n[elastic]\nenabled = true\n' if decides else ""
        (self.folder / "provider.toml").write_text(
            f'[http]\nlisten = "127.0.0.1:0"\n{tls}'
            f'[cluster]\naddress = "{address}"\nkey_file = "{key}"\n{controller}'
            '[calibration]\nagain = false\n')
        self.process = None
        self.start()

    def start(self, same_port=False):
        """With `same_port` it is reached where it was before, unless somebody has taken that port."""
        if same_port:
            config = self.folder / "provider.toml"
            config.write_text(config.read_text().replace('"127.0.0.1:0"', f'"127.0.0.1:{self.port}"'))
        environment = dict(os.environ, STATE_DIRECTORY=str(self.folder / "state"))
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [self.program, "--socket", self.socket, "--config",
                 str(self.folder / "provider.toml"), "--log-level", "info"], env=environment, stderr=log)
        eventually("the daemon answers", self.answers)
        if "[http]" not in (self.folder / "provider.toml").read_text():
            return
        # The log is written a moment after what it tells of.
        found = eventually("the daemon says its port", lambda: re.search(
            r" HTTPS? at \S+:(\d+)$", self.log.read_text(errors="replace"), re.MULTILINE))
        self.port = int(found[1])

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon has ended with {self.process.returncode}: {self.log.read_text()}")
        try:
            return self.as_operator("GET", "/readyz").status == 200
        except OSError:
            return False

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_SECONDS)
        for line in self.log.read_text(errors="replace").splitlines():
            if " error " in line:
                print(line, file=sys.stderr)
        if status != 0:
            raise AssertionError(f"the daemon ended with {self.process.returncode}")

    def as_operator(self, method, target, body=None):
        return ask(UnixConnection(self.socket + ".operator.http"), method, target, body)

    def as_tenant(self, method, target, body=None):
        return ask(UnixConnection(self.socket + ".http"), method, target, body)

    def over_tcp(self, method, target, token=None, body=None):
        if self.certificate is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                    timeout=PATIENCE_SECONDS)
        else:
            trusted = ssl.create_default_context(cafile=str(self.certificate[0]))
            connection = http.client.HTTPSConnection("localhost", self.port, context=trusted,
                                                     timeout=PATIENCE_SECONDS)
        return ask(connection, method, target, body, token)

    def new_token(self, **order):
        made = self.as_operator("POST", "/v1/tokens", order)
        if made.status != 201:
            raise AssertionError(f"no token: {made.text}")
        return made.json()["token"]


@contextlib.contextmanager
def two_daemons(programs, certificate_in=None, decides=False):
    """Two daemons of a cluster, in a folder that other users may enter. `certificate_in` makes a certificate
    in the folder, and returns its files, where they serve TLS. With `decides` the first one decides on the sizes
    of elastic jobs. Yields the folder and the daemons."""
    with tempfile.TemporaryDirectory(prefix="harmonaize-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        certificate = certificate_in(folder) if certificate_in else None
        daemons = []
        try:
            for number in range(2):
                daemons.append(Daemon(programs, folder, number, certificate, decides=decides and number == 0))
            yield folder, daemons
        finally:
            for daemon in daemons:
                daemon.stop()


def run_job(programs, daemons, ranks, *words):
    """Runs all_reduce_perf with rank i at daemon i modulo their number."""
    port = free_port()
    processes = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port),
                           HARMONAIZE_SOCKET=daemons[rank % len(daemons)].socket)
        processes.append(subprocess.Popen([str(programs / "all_reduce_perf"), *words],
                                          env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))
    said = [process.communicate(timeout=4 * PATIENCE_SECONDS)[0] for process in processes]
    for rank, process in enumerate(processes):
        if process.returncode != 0:
            raise AssertionError(f"rank {rank} ended with {process.returncode}: {said[rank]}")


def samples_in(page):
    """The values of a page of metrics, by name and labels."""
    found = {}
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        series, value = line.rsplit(" ", 1)
        found[series] = float(value)
    return found


def families_in(page):
    return {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
