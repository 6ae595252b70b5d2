"""A laboratory of emulated hosts (docs/laboratory.md) for one run of an experiment: daemons, jobs of several
tenants, and the time over which all of them are measured."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import typing

# Seconds for what is soon over on a quiet machine: daemons that start, a job's first operation.
PATIENCE = 90.0

Line = dict[str, typing.Any]


class LaboratoryError(Exception):
    """What a run ended with, in words for people."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A job that is to run. `words` are the program's, and `hosts` have one rank each."""

    name: str
    words: tuple[str, ...]
    hosts: str
    user: int
    requirements: str = ""
    program: str = "opportunity_job"
    environment: typing.Mapping[str, str] = dataclasses.field(default_factory=dict)


class RunningJob:
    """A job that runs; its lines of JSON come from rank 0."""

    def __init__(self, job: Job, process: subprocess.Popen[bytes], output: pathlib.Path) -> None:
        self.job = job
        self._process = process
        self._output = output

    def lines(self) -> list[Line]:
        """Returns what the job has written so far."""
        text = self._output.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def is_ready(self) -> bool:
        """Returns whether the job has carried out something."""
        return any(line.get("event", "ready") == "ready" for line in self.lines())

    def check(self) -> None:
        """Raises an error if the job has failed."""
        state = self._process.poll()
        if state:
            raise LaboratoryError(f"{self.job.name} ended with status {state}: {self.words()}")

    def has_ended(self) -> bool:
        """Returns whether the job is over; raises an error if it has failed."""
        self.check()
        return self._process.poll() is not None

    def is_over(self) -> bool:
        """Returns whether the job has ended, well or not."""
        return self._process.poll() is not None

    def words(self) -> str:
        """Returns the end of what the job has written."""
        return self._output.read_text(encoding="utf-8", errors="replace")[-2000:].strip()

    def wait(self, seconds: float) -> None:
        """Waits for the job's end, so long at most."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise LaboratoryError(f"{self.job.name} does not end within {seconds:.0f} s") from None
        self.check()

    def end(self) -> Line:
        """Returns the job's last word."""
        ends = [line for line in self.lines() if line.get("event") == "end"]
        if not ends:
            raise LaboratoryError(f"{self.job.name} has told nothing of its end")
        return ends[-1]

    def rate(self, begin: pathlib.Path, end: pathlib.Path) -> float:
        """Returns the bytes a second that a job of timeline_perf carried between the times of two files."""
        first, last = begin.stat().st_mtime, end.stat().st_mtime
        inside = [line for line in self.lines()
                  if first <= line["unix_seconds"] - line["interval_seconds"] and line["unix_seconds"] <= last]
        seconds = sum(line["interval_seconds"] for line in inside)
        if seconds == 0:
            raise LaboratoryError(f"{self.job.name} has carried out nothing while it was measured")
        return float(sum(line["interval_seconds"] * line["bytes_per_second"] for line in inside) / seconds)

    def stop(self) -> None:
        """Ends the job if it still runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Laboratory:
    """Hosts with their daemons. `fabric` and `configuration` are texts, as fabric files and daemons' configurations
    have them. Use as a context: its end ends all that runs inside."""

    def __init__(self, programs: pathlib.Path, fabric: str, configuration: str, *,
                 hosts: str = "", controller: str = "",
                 prepare: typing.Callable[[Laboratory], None] | None = None) -> None:
        """`prepare` is called when the hosts are there, and no daemons yet."""
        self._programs = programs
        self._name = f"opportunities{os.getpid()}"
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="hz-", dir="/tmp"))
        self._folder.chmod(0o755)  # Jobs of other users enter it.
        self._fabric = self._folder / "fabric.toml"
        self._fabric.write_text(fabric, encoding="utf-8")
        self._environment = dict(os.environ, HARMONAIZE_FABRIC_STATE=str(self._folder / "state"))
        self._configuration = configuration
        self._hosts = hosts
        self._controller = controller
        self._prepare = prepare
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._jobs: list[RunningJob] = []

    @property
    def begin(self) -> pathlib.Path:
        """The file with which the time that counts begins."""
        return self._folder / "begin"

    @property
    def end(self) -> pathlib.Path:
        """The file with which jobs end."""
        return self._folder / "end"

    def __enter__(self) -> Laboratory:
        try:
            self._call("up", str(self._fabric))
            if self._prepare is not None:
                self._prepare(self)
            self.serve(self._hosts)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for job in self._jobs:
            job.stop()
        for daemons in self._daemons:
            daemons.send_signal(signal.SIGTERM)
        for daemons in self._daemons:
            try:
                daemons.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                daemons.kill()
                daemons.wait()
        with contextlib.suppress(LaboratoryError):
            self._call("down")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _words(self, command: str, *words: str) -> list[str]:
        return [str(self._programs / "fabric"), command, *words, "--name", self._name]

    def _call(self, command: str, *words: str) -> str:
        done = subprocess.run(self._words(command, *words), env=self._environment, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise LaboratoryError(f"fabric {command} {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def serve(self, hosts: str = "") -> None:
        """Starts daemons at these hosts, "" for all, where none listens. A daemon that was killed comes back so."""
        configuration = self._folder / "provider.toml"
        configuration.write_text(self._configuration, encoding="utf-8")
        said = self._folder / f"daemons{len(self._daemons)}"
        words = [word for option, value in (("--hosts", hosts), ("--controller", self._controller))
                 if value for word in (option, value)]
        with said.open("wb") as file:
            daemons = subprocess.Popen(
                self._words("serve", "--daemon-config", str(configuration), *words),
                env=self._environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self._daemons.append(daemons)

        def serving() -> bool:
            if daemons.poll() is not None:
                raise LaboratoryError(f"the daemons do not come up: {said.read_text(encoding='utf-8')}")
            return "daemons serve" in said.read_text(encoding="utf-8")

        wait_for("the daemons are up", serving)

    def start(self, job: Job) -> RunningJob:
        """Starts a job beside those that run already."""
        return self._start(job, "run", "--hosts", job.hosts, "--no-prefix", "--no-preload")

    def start_at(self, host: str, job: Job) -> RunningJob:
        """Starts a job's program once at a host, where it finds the host's daemon: a launcher."""
        return self._start(job, "exec", host, HARMONAIZE_SOCKET=str(self.socket(host)))

    def _start(self, job: Job, command: str, *words: str, **variables: str) -> RunningJob:
        environment = dict(self._environment, **variables)
        if job.requirements:
            path = self._folder / f"{job.name}.toml"
            path.write_text(job.requirements, encoding="utf-8")
            environment["HARMONAIZE_REQUIREMENTS"] = str(path)
        environment["HARMONAIZE_JOB"] = job.name
        environment.update(job.environment)
        output = self._folder / f"{job.name}.out"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*self._words(command, *words), "--", *as_user(job.user), str(self._programs / job.program),
                 *job.words],
                env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        running = RunningJob(job, process, output)
        self._jobs.append(running)
        return running

    def measure(self, jobs: typing.Sequence[Job], settle: float, seconds: float) -> dict[str, RunningJob]:
        """Runs jobs beside each other. The time that counts begins `settle` seconds after all are ready, and
        is the same for all. Their words name `begin` and `end` themselves."""
        running = {job.name: self.start(job) for job in jobs}

        def ready() -> bool:
            for one in running.values():
                one.check()
            return all(one.is_ready() for one in running.values())

        wait_for("all jobs are ready", ready)
        time.sleep(settle)
        self.begin.touch()
        time.sleep(seconds)
        self.end.touch()
        for one in running.values():
            one.wait(PATIENCE)
        return running

    @property
    def folder(self) -> pathlib.Path:
        """A folder that jobs of all users may enter; it goes with the laboratory."""
        return self._folder

    def host_folder(self, host: str) -> pathlib.Path:
        """The folder with a host's socket, and with the state of its daemon."""
        return self._folder / "state" / self._name / "hosts" / host

    def socket(self, host: str) -> pathlib.Path:
        """The socket of a host's daemon."""
        return self.host_folder(host) / "harmonaized.sock"

    def disturb(self, *words: str) -> None:
        """Disturbs the network, as `fabric disturb` does."""
        self._call("disturb", *words)

    def granted(self, host: str, job: str) -> str:
        """Returns what the daemon of this host says it has granted to a job."""
        done = subprocess.run([str(self._programs / "harmonaize"), "requirements", "--of", job, "--socket",
                               str(self.socket(host))], text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.stdout


def as_user(user: int) -> tuple[str, ...]:
    """Returns the words before a command that have this user run it."""
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")


def wait_for(what: str, condition: typing.Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Waits for it; an error names it when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LaboratoryError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


def why_not_here(programs: pathlib.Path) -> str:
    """Returns why no laboratory with jobs of several tenants can be used here; "" if one can."""
    program = programs / "opportunity_job"
    if not program.exists():
        return f"there is no {program}: build it, or name its folder with --programs"
    if os.geteuid() != 0:
        return "the laboratory needs root"
    if shutil.which("setpriv") is None:
        return "setpriv is missing (package util-linux)"
    if program.stat().st_mode & 0o005 != 0o005 or any(parent.stat().st_mode & 0o001 == 0
                                                      for parent in program.parents):
        return f"other users cannot run {program}"
    return ""
