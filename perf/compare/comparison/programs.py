"""The processes that are measured: started once, then asked for one measurement after the other, so
that the libraries can be interleaved as finely as one likes."""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time

from comparison import machine

# All ranks of a library must have come by then.
_START_SECONDS = 60
_END_SECONDS = 10


class RunError(Exception):
    """Something could not be run; the text says why."""


_SET_CHILD_SUBREAPER = 36  # of prctl, as <linux/prctl.h> has it


def adopt_orphans():
    """Makes what outlives the launcher that started it a child of this process, to be counted and
    ended with the others."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process:
    """A process with a session of its own, which ends with it, and a log."""

    _started = set()  # those that are waited for by number

    def __init__(self, command, log_path, environment=None):
        self._log_path = log_path
        with open(log_path, "w", encoding="utf-8") as log:
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=log, env=environment,
                                                 start_new_session=True)
            except OSError as error:
                raise RunError(f"cannot start {command[0]}: {error.strerror}") from None
        self._started.add(self._process.pid)

    def running(self):
        return self._process.poll() is None

    def last_words(self):
        """How it ended, if it has, and the end of its log."""
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        ended = "" if self.running() else f"status {self._process.returncode}"
        return ": ".join(part for part in (ended, " / ".join(lines[-3:])) if part)

    def stop(self, asked=False):
        """Waits for the end when it has been asked for, asks otherwise; kills what does not end."""
        if not asked and self.running():
            self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
        self._started.discard(self._process.pid)
        self._bury_orphans()

    def _kill(self):
        # Launchers put their ranks into sessions of their own, which a signal to theirs misses.
        for process in [*machine.descendants(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def _bury_orphans(self):
        for process in machine.children(os.getpid()):
            if process not in self._started:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process, os.WNOHANG)


class Daemon:
    """The daemon that our side talks to: a given one, or one of our own for this run."""

    def __init__(self, given, program, prefix, folder):
        self.socket = given or os.path.join(folder, "harmonaize.sock")
        self.process = None
        if given:
            return
        log_path = os.path.join(folder, "daemon.log")
        config_path = os.path.join(folder, "provider.toml")
        # Measuring the host again, at rest, would disturb the other side's programs.
        with open(config_path, "w", encoding="utf-8") as config:
            config.write("[calibration]\nagain = false\n")
        # A state directory of its own: what it measures of this run is nobody else's.
        environment = {**os.environ, "STATE_DIRECTORY": os.path.join(folder, "state")}
        command = [*prefix, program, "--socket", self.socket, "--config", config_path]
        self.process = Process(command, log_path, environment)
        deadline = time.monotonic() + _START_SECONDS
        while not self._listens():
            if not self.process.running() or time.monotonic() > deadline:
                self.process.stop()
                raise RunError(f"the daemon did not come up: {self.process.last_words()}")
            time.sleep(0.02)

    def _listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(self.socket) == 0

    def environment(self):
        return {**os.environ, "HARMONAIZE_SOCKET": self.socket}

    def stop(self):
        if self.process:
            self.process.stop()


class Program:
    """All ranks of one library. Each is connected to this process, and waits there between the
    measurements without using the machine."""

    def __init__(self, make_command, ranks, folder, environment=None):
        """`make_command(folder)` starts ranks that join perf/compare/peer_team.h's team there."""
        self._folder = tempfile.mkdtemp(dir=folder)
        self._connections = {}
        self._buffers = {}
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with listener:
            listener.bind(os.path.join(self._folder, "driver"))
            listener.listen(ranks)
            self.process = Process(make_command(self._folder), os.path.join(self._folder, "log"),
                                   environment)
            try:
                self._accept(listener, ranks)
            except RunError:
                self.stop()
                raise

    def _accept(self, listener, ranks):
        deadline = time.monotonic() + _START_SECONDS
        listener.settimeout(0.1)
        while len(self._connections) < ranks:
            if not self.process.running():
                raise RunError(self.process.last_words())
            if time.monotonic() > deadline:
                raise RunError(f"{ranks - len(self._connections)} of {ranks} ranks did not come "
                               f"within {_START_SECONDS} s; {self.process.last_words()}")
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                self._buffers[connection] = b""
                rank = int(self._read_line(connection, deadline))
                self._connections[rank] = connection

    def _read_line(self, connection, deadline):
        while b"\n" not in self._buffers[connection]:
            left = deadline - time.monotonic()
            readable = left > 0 and select.select([connection], [], [], left)[0]
            if not readable:
                raise RunError("did not answer in time")
            received = connection.recv(4096)
            if not received:
                raise RunError(self._why_it_hung_up())
            self._buffers[connection] += received
        line, self._buffers[connection] = self._buffers[connection].split(b"\n", 1)
        return line.decode()

    def _why_it_hung_up(self):
        deadline = time.monotonic() + 2
        while self.process.running() and time.monotonic() < deadline:
            time.sleep(0.05)
        return f"a rank has gone: {self.process.last_words()}"

    def measure(self, collective, size, iterations, warmup, way, timeout):
        """Microseconds an operation, averaged over the ranks; None when there is no such operation.
        After a RunError the program is of no more use."""
        request = f"{collective} {size} {iterations} {warmup} {way}\n".encode()
        deadline = time.monotonic() + timeout
        try:
            for connection in self._connections.values():
                connection.sendall(request)
        except OSError:
            raise RunError(self._why_it_hung_up()) from None
        answers = [json.loads(self._read_line(connection, deadline))
                   for connection in self._connections.values()]
        if any(answer.get("unsupported") for answer in answers):
            return None
        wrong = sum(answer["wrong"] for answer in answers)
        if wrong:
            raise RunError(f"{wrong} wrong elements")
        return sum(answer["time_us"] for answer in answers) / len(answers)

    def stop(self):
        for connection in self._connections.values():
            connection.close()
        # Ranks end when the driver hangs up; those that never came have nobody who hangs up.
        self.process.stop(asked=bool(self._connections))
