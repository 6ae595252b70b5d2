"""A laboratory of two racks whose links are so slow that it is they that hold jobs up, and not the
machine, under sanitizers too; with jobs that check every result, and what disturbs them."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_SECONDS = 60
FABRIC = """
[[host]]
name = ["host0", "host1"]
rack = "rack0"
[[host]]
name = ["host2", "host3"]
rack = "rack1"
[[switch]]
name = "leaf0"
rack = "rack0"
[[switch]]
name = "leaf1"
rack = "rack1"
[[switch]]
name = ["spine0", "spine1"]
role = "spine"
[[link]]
from = ["host0", "host1"]
to = "leaf0"
rate = "100Mbit"
[[link]]
from = ["host2", "host3"]
to = "leaf1"
rate = "100Mbit"
[[link]]
from = ["leaf0", "leaf1"]
to = ["spine0", "spine1"]
rate = "60Mbit"
"""


class Laboratory:
    def __init__(self, programs, folder, fabric=FABRIC):
        self.fabric = str(programs / "fabric")
        self.harmonaize = str(programs / "harmonaize")
        self.timeline = str(programs / "timeline_perf")
        self.folder = folder
        self.file = fabric
        self.name = f"live{os.getpid()}"
        self.daemons = None
        self.environment = dict(os.environ, HARMONAIZE_FABRIC_STATE=str(folder / "state"))

    def run(self, *words, check=True):
        done = subprocess.run([self.fabric, *words], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"fabric {' '.join(words)}: {done.stdout}")
        return done

    def up(self):
        file = self.folder / "fabric.toml"
        file.write_text(self.file)
        return self.run("up", str(file), "--name", self.name, check=False)

    def down(self):
        if self.daemons is not None:
            self.daemons.send_signal(signal.SIGTERM)
            self.daemons.wait()
        self.run("down", "--name", self.name)

    def serve(self, *words):
        """Daemons that several jobs share, until the laboratory is taken down."""
        said = self.folder / "daemons"
        with said.open("w") as file:
            self.daemons = subprocess.Popen([self.fabric, "serve", "--name", self.name, *words],
                                            env=self.environment, stdout=file, stderr=file)
        while "daemons serve" not in said.read_text():
            if self.daemons.poll() is not None:
                raise RuntimeError(f"the daemons do not come up: {said.read_text()}")
            time.sleep(0.1)

    def start_job(self, output, seconds, *words, hosts=(), user=None, requirements=None):
        """One rank on each of `hosts`, all of them if none is named, as this user or another, until
        `enough` is called, or for so many seconds. `requirements` is the path of what it asks for."""
        who = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}",
                                       "--clear-groups"]
        return self.start_program(output, *who, self.timeline, "-s", str(seconds), "--json", "--until",
                                  str(self.folder / "enough"), *words, hosts=hosts,
                                  requirements=requirements)

    def start_program(self, output, *words, hosts=(), requirements=None):
        """A program as one rank on each of `hosts`, as start_job does it."""
        where = ["--hosts", ",".join(hosts)] if hosts else []
        asks = {"HARMONAIZE_REQUIREMENTS": str(requirements)} if requirements else {}
        return subprocess.Popen(
            [self.fabric, "run", "--name", self.name, "--no-prefix", "--no-preload", *where, "--",
             *words],
            env=dict(self.environment, **asks), stdout=output, stderr=subprocess.STDOUT, text=True)

    def enough(self):
        (self.folder / "enough").touch()

    def disturb(self, *words):
        self.run("disturb", *words, "--name", self.name)

    def ask_home(self, *words, host="host0"):
        """What the daemon of rank 0's host says, as a document; None while it does not."""
        socket = self.folder / "state" / self.name / "hosts" / host / "harmonaized.sock"
        done = subprocess.run([self.harmonaize, *words, "--json", "--socket", str(socket)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def slow_links(self):
        """Edges of which plans expect less than half of what the fabric states."""
        status = self.ask_home("status") or {}
        links = status.get("cluster", {}).get("fabric_links", [])
        return {(link["from"], link["to"]) for link in links
                if link["planned_bytes_per_second"] < 0.5 * link["stated_bytes_per_second"]}

    def all_links_are_well(self, jobs):
        """Waits until they are, while these jobs run."""
        eventually("all links are well again", lambda: self.slow_links() == set(), jobs,
                   seen=lambda: f"slow are {sorted(self.slow_links())}")


@contextlib.contextmanager
def laboratory_of(programs, fabric=FABRIC, shared=False):
    """A laboratory in a folder of its own, which is `shared` where jobs of other users enter it. Where it
    does not come up, the program ends: with status 77 for one who is not root."""
    with tempfile.TemporaryDirectory(dir="/tmp" if shared else None) as name:
        folder = pathlib.Path(name)
        if shared:
            folder.chmod(0o755)
        laboratory = Laboratory(pathlib.Path(programs).absolute(), folder, fabric)
        up = laboratory.up()
        if up.returncode != 0:
            print(up.stdout)
            laboratory.run("down", "--name", laboratory.name, check=False)
            sys.exit(77 if os.geteuid() != 0 else 1)
        try:
            yield laboratory
        finally:
            laboratory.down()


def eventually(what, condition, jobs, seen=None):
    """Waits for it, while these jobs run. `seen` tells what there is instead when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        ended = [job.poll() for job in jobs if job.poll() is not None]
        if ended:
            raise AssertionError(f"a job ended with {ended[0]} before {what}")
        if time.monotonic() > deadline:
            instead = f", but {seen()}" if seen else ""
            raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}{instead}")
        time.sleep(0.2)


def others_can_run(program):
    """Whether a job of this program can be started for users who do not own it."""
    program = pathlib.Path(program)
    return shutil.which("setpriv") is not None and program.stat().st_mode & 0o005 == 0o005 and \
        all(parent.stat().st_mode & 0o001 for parent in program.parents)


def why_no_users(program):
    """Why a test cannot run this program as several users here; None where it can."""
    if os.geteuid() != 0:
        return "needs root"
    if not others_can_run(program):
        return f"other users cannot run {program}, or setpriv is missing"
    return None


def lines_of(path):
    """What a job has said so far."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
