#!/usr/bin/env python3
"""Random faults of a job of eight ranks on four hosts of the laboratory: the daemons name the right rank
and say what is the matter with it, for each of them.

    random_faults_test.py PROGRAMS [--faults N] [--seed N] [--healthy SECONDS]

PROGRAMS is the folder of fabric and harmonaized; libnccl.so.2 lies in `lib` beside it. Without an option
there is one fault of each kind, several jobs at a time. --faults N, or HARMONAIZE_FAULTS=N: so many
faults, of kinds that are drawn with the seed. --healthy SECONDS: no fault at all, but a job with hundreds
of operations in its queues, of which one rank computes for ten seconds now and then; nothing else than
`computing` may be said of it. Exit status 77: the laboratory cannot be used here.
"""

import argparse
import fcntl
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

from live_daemons import UnixConnection, ask
from live_job import Failed, INT32, MAX, Ranks
from live_laboratory import laboratory_of

RANKS = 8
HOSTS = 4
LATE_AFTER_SECONDS = 2
CONFIG = f"""
[ranks]
late_after_seconds = {LATE_AFTER_SECONDS}
[cluster]
dead_after_seconds = 5
"""
# A verdict that has not come by then will not.
PATIENCE_SECONDS = 15
# Good operations before a fault, by which the daemons learn what is usual.
USUAL_OPERATIONS = 12
LARGE = 256 << 10  # elements: 1 MiB, some 0.2 s on the laboratory's links
# What slow links are left with, of 100 Mbit/s. The daemons' own words share a link's queues with data, and
# the answers of a host behind the slowest often take longer than a daemon may be silent. With still less,
# nothing at all comes from the host for as long: the laboratory's packets of 64 KiB take a second each.
SLOW = {"slow link": "2Mbit", "slow link, private data": "2Mbit", "crawling link": "512Kbit"}
# A turn of the healthy job: one rank computes, all queue so many operations, and then wait for each of some.
HEALTHY_COMPUTES_SECONDS = 10
HEALTHY_TURN_SECONDS = 13
HEALTHY_QUEUE = 400
VERDICT = re.compile(r"communicator \d+ '([^']*)': (.*?) does not get on: (\w+) \((\w+)\)(.*)")
LOST = re.compile(r"ranks? ([\d, ]+) (?:is|are) lost")
ROOT = re.compile(r"rank (\d+) of '([^']*)'")


def host_of(rank):
    """Ranks 0 and 1 are at host 0, and so on."""
    return rank // (RANKS // HOSTS)


class Kind:
    """A kind of fault: what the rank, or the world around it, does, and which verdict is right."""

    def __init__(self, name, classes, alone=False, ends=False, names="the rank", passing=()):
        self.name = name
        self.passing = passing  # classes that may be said before the right one
        self.classes = classes  # (class, doing) that are right; None: any doing
        self.names = names  # who has to be named: "the rank", "the host"'s ranks, or "all" there may be
        self.alone = alone  # It disturbs all jobs.
        self.ends = ends  # The job fails by it.


KINDS = [
    Kind("stopped", {("not_called", "stopped")}),
    Kind("killed", {("dead", "ended")}, ends=True),
    Kind("sleeping", {("not_called", "sleeping")}),
    Kind("reading", {("not_called", "sleeping")}),
    Kind("locked", {("not_called", "sleeping")}),
    Kind("computing", {("computing", "running")}),
    Kind("skipped", {("mismatch", None)}, ends=True),
    Kind("count", {("mismatch", None)}, ends=True),
    Kind("type", {("mismatch", None)}, ends=True),
    Kind("operator", {("mismatch", None)}, ends=True),
    Kind("root", {("mismatch", None)}, ends=True),
    # Until a silent daemon is missed, on a busy machine, what it still had to send only looks slow.
    Kind("cut link", {("daemon_unreachable", None)}, alone=True, ends=True, names="the host",
         passing=("slow_transfer",)),
    # docs/diagnosis.md: the communicator and the stage. An all-reduce has data of all ranks.
    Kind("slow link", {("slow_transfer", None)}, alone=True, names="all"),
    # Ranks whose windows are full wait for others, and are not named as ranks that do not fill theirs.
    Kind("slow link, private data", {("slow_transfer", None)}, alone=True, names="all"),
    # A packet takes a second, and longer on a busy machine: the host may be silent until the next has come.
    Kind("crawling link", {("slow_transfer", None)}, alone=True, names="all",
         passing=("daemon_unreachable",)),
    Kind("stopped daemon", {("daemon_unreachable", None)}, alone=True, names="the host",
         passing=("slow_transfer",)),
    # It is closed, not silent: operations fail at once, and their ranks are told why.
    Kind("dead daemon", {("lost", None), ("daemon_unreachable", None)}, alone=True, ends=True,
         names="the host"),
]
SLOW_LINKS = tuple(SLOW)
OF_DAEMONS = ("cut link", "stopped daemon", "dead daemon")


class Fault:
    """One job and its fault. `guilty` is drawn."""

    def __init__(self, number, kind, draws, folder):
        self.number = number
        self.kind = kind
        # The home is rank 0's host. Its end is told by the other hosts, which the test asks then.
        self.guilty = draws.randrange(RANKS)
        self.name = f"fault{number}"
        self.release = folder / f"{self.name}.release"
        self.begun = folder / f"{self.name}.begun"
        self.pipe = os.pipe()
        self.lock_path = folder / f"{self.name}.lock"
        self.lock = open(self.lock_path, "w")  # pylint: disable=consider-using-with
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.ranks = None
        self.memory = None  # of a rank, where it is not private
        self.verdict = None  # (class, doing, ranks named, seconds)
        self.right = False

    def body(self, library, communicator, rank):
        """What a rank does; the guilty one does something else before its last operation."""
        count = LARGE if self.kind.name in SLOW_LINKS else 1024
        in_shared_memory = self.kind.name in ("slow link", "crawling link")
        self.memory = library.memory(4 * LARGE) if in_shared_memory else None
        for _ in range(USUAL_OPERATIONS):
            if self.memory is not None:
                communicator.queue_all_reduce(self.memory, count, None)
            elif communicator.all_reduce(count) != RANKS:
                raise AssertionError("a sum is wrong")
        if self.kind.name in (*SLOW_LINKS, *OF_DAEMONS):
            (self.begun.with_suffix(f".{rank}")).touch()
            while not self.begun.exists():
                time.sleep(0.01)
        try:
            if rank == self.guilty:
                self.misbehave(communicator)
            else:
                self.behave(communicator, count)
            communicator.destroy()
            return communicator.last_error()
        except Failed as failed:
            self.begun.with_suffix(".writing" + str(rank)).write_text(failed.said)
            self.begun.with_suffix(".writing" + str(rank)).rename(
                self.begun.with_name(f"{self.name}.told.{rank}"))
            while not self.release.exists():
                time.sleep(0.05)
            communicator.abort()
            return f"failed: {failed.said}"

    def behave(self, communicator, count):
        if self.kind.name == "root":
            communicator.reduce(1024, 0)
        elif self.memory is not None:
            communicator.queue_all_reduce(self.memory, count, None)
        else:
            communicator.all_reduce(count)
        if self.kind.name == "skipped":
            communicator.all_reduce(512)

    def misbehave(self, communicator):
        name = self.kind.name
        if name == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif name == "killed":
            time.sleep(0.3)  # until the others know of the end of the operation before
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "sleeping":
            while not self.release.exists():
                time.sleep(0.5)
        elif name == "reading":
            os.read(self.pipe[0], 1)
        elif name == "locked":
            with open(self.lock_path, "w") as own:
                fcntl.flock(own, fcntl.LOCK_EX)
        elif name == "computing":
            while not self.release.exists():
                sum(range(10000))
        elif name == "count":
            communicator.all_reduce(1025)
            return
        elif name == "type":
            communicator.all_reduce(1024, kind=INT32)
            return
        elif name == "operator":
            communicator.all_reduce(1024, operator=MAX)
            return
        elif name == "root":
            communicator.reduce(1024, self.guilty or 1)
            return
        elif name == "skipped":
            communicator.all_reduce(512)
            return
        self.behave(communicator, LARGE if name in SLOW_LINKS else 1024)

    def let_go(self):
        """Ends what the guilty rank does, so that the job comes to its end."""
        self.release.touch()
        os.write(self.pipe[1], b"x")
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        self.ranks.signal(self.guilty, signal.SIGCONT)

    def told(self):
        """What ranks of other hosts read, as a verdict: "ranks 2, 3 are lost: ..."."""
        self.ranks.poll()
        for told in self.begun.parent.glob(f"{self.name}.told.*"):
            found = LOST.search(told.read_text())
            if found and int(told.suffix[1:]) not in self.of_host():
                return [("lost", "unknown", [int(rank) for rank in found[1].split(", ")], None)]
        return []

    def close(self):
        self.lock.close()
        for end in self.pipe:
            os.close(end)

    def of_host(self):
        """The ranks at the guilty rank's host."""
        return {rank for rank in range(RANKS) if host_of(rank) == host_of(self.guilty)}

    def is_right(self):
        """Whether the verdict is right."""
        if self.verdict is None:
            return False
        hang, doing, named, _ = self.verdict
        fits = any(hang == one and other in (None, doing) for one, other in self.kind.classes)
        if self.kind.names == "all":
            return fits and self.guilty in named
        if self.kind.names == "the host":
            return fits and set(named) == self.of_host()
        return fits and named == [self.guilty]


class Cluster:
    """The laboratory with a daemon at each host, and what the daemons have said."""

    def __init__(self, laboratory, folder):
        self.laboratory = laboratory
        self.folder = folder
        self.config = folder / "daemons.toml"
        self.config.write_text(CONFIG)
        self.again = []
        self.hosts = folder / "state" / laboratory.name / "hosts"

    def socket(self, host):
        return str(self.hosts / f"host{host}" / "harmonaized.sock")

    def serve(self):
        self.laboratory.serve("--daemon-config", str(self.config), "--log-level", "debug")

    def daemon_of(self, host):
        """The process number of a host's daemon."""
        found = subprocess.run(["pgrep", "-f", f"harmonaized .*{self.socket(host)}"],
                               stdout=subprocess.PIPE, text=True, check=False).stdout.split()
        return int(found[0])

    def verdicts(self, name, hosts=range(HOSTS)):
        """(class, doing, ranks, host) of what is said of the communicator of this name, in order."""
        said = []
        for host in hosts:
            log = (self.hosts / f"host{host}" / "harmonaized.log").read_text(errors="replace")
            for line in log.splitlines():
                found = VERDICT.search(line)
                if found and found[1] == name:
                    named = [int(rank) for rank, _ in ROOT.findall(found[5])]
                    said.append((found[3], found[4], named, host))
        return said

    def restart(self, host):
        """In place of one that was killed."""
        words = [self.laboratory.fabric, "serve", "--name", self.laboratory.name, "--hosts",
                 f"host{host}", "--daemon-config", str(self.config), "--log-level", "debug"]
        log = open(self.folder / f"again{len(self.again)}", "w")  # pylint: disable=consider-using-with
        self.again.append(subprocess.Popen(words, env=self.laboratory.environment, stdout=log,
                                           stderr=log))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if ask(UnixConnection(str(self.hosts / f"host{host}" / "http.sock")), "GET",
                       "/readyz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"the daemon of host{host} does not come back")

    def stop(self):
        for one in self.again:
            one.send_signal(signal.SIGTERM)
            one.wait()


def start(cluster, fault, library):
    fault.ranks = Ranks(library, [cluster.socket(host_of(rank)) for rank in range(RANKS)], fault.body,
                        environment={"HARMONAIZE_JOB": fault.name}, name=fault.name)


def disturb_around(cluster, fault):
    """A fault of the world. Returns what ends it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    there = [fault.begun.with_suffix(f".{rank}") for rank in range(RANKS)]
    while not all(one.exists() for one in there):
        if time.monotonic() > deadline:
            raise AssertionError(f"{fault.kind.name}: the job does not begin")
        time.sleep(0.02)
    host = host_of(fault.guilty)
    link = f"host{host}-leaf{host // 2}"
    name = fault.kind.name
    if name == "cut link":
        cluster.laboratory.disturb("link-down", link)
        fault.begun.touch()
        return lambda: cluster.laboratory.disturb("link-up", link)
    if name in SLOW_LINKS:
        cluster.laboratory.disturb("rate", link, SLOW[name])
        fault.begun.touch()
        return lambda: cluster.laboratory.disturb("rate", link, "nominal")
    daemon = cluster.daemon_of(host)
    if name == "stopped daemon":
        os.kill(daemon, signal.SIGSTOP)
        fault.begun.touch()
        return lambda: os.kill(daemon, signal.SIGCONT)
    os.kill(daemon, signal.SIGKILL)
    fault.begun.touch()
    return lambda: cluster.restart(host)


def await_verdicts(cluster, faults):
    """Notes the first verdict of each job that is more than that a rank computes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    begun = time.monotonic()
    while not all(fault.is_right() for fault in faults):
        for fault in faults:
            if fault.is_right():
                continue
            # A host that is cut off takes the others for unreachable.
            hosts = [host for host in range(HOSTS) if fault.kind.name not in OF_DAEMONS or
                     host != host_of(fault.guilty)]
            said = cluster.verdicts(fault.name, hosts) or fault.told()
            if said:
                fault.verdict = (*said[-1][:3], time.monotonic() - begun)
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def run_faults(cluster, faults, library):
    """Runs these jobs at a time. Returns how many were judged wrongly."""
    for fault in faults:
        start(cluster, fault, library)
    mend = disturb_around(cluster, faults[0]) if faults[0].kind.name in (
        *SLOW_LINKS, *OF_DAEMONS) else None
    await_verdicts(cluster, faults)
    if mend is not None:
        mend()
    wrong = 0
    for fault in faults:
        fault.let_go()
    for fault in faults:
        ended = fault.ranks.wait(PATIENCE_SECONDS)
        fault.right = judge(cluster, fault, ended)
        wrong += not fault.right
        fault.close()
    return wrong


def judge(cluster, fault, ended):
    """Whether the verdict was right, nothing else was said before, and the ranks ended as they must."""
    said = cluster.verdicts(fault.name)
    right = fault.is_right() and ended
    innocent = [one for rank, one in enumerate(fault.ranks.statuses)
                if rank != fault.guilty or fault.kind.name != "killed"]
    right = right and all(status == 0 for status in innocent)
    failures = sum(text.startswith("failed") for text in fault.ranks.said)
    right = right and (fault.kind.ends or failures == 0)
    false_alarms = {one[0] for one in said} - {"computing", "called_late", *fault.kind.passing} - {
        hang for hang, _ in fault.kind.classes}
    hang, doing, named, seconds = fault.verdict or ("nothing", "", [], 0)
    word = "WRONG" if not right or false_alarms else "right"
    print(f"{word}  {fault.number:3d} "
          f"{fault.kind.name:15s} by rank {fault.guilty}: {hang} ({doing}) by "
          f"{', '.join(map(str, named)) or 'nobody'} after {seconds:.1f} s", flush=True)
    if not right or false_alarms:
        print("   said:", *said, sep="\n     ")
        print("   ranks:", *zip(fault.ranks.statuses, fault.ranks.said), sep="\n     ", flush=True)
    return right and not false_alarms


def run_healthy(cluster, library, seconds, folder):
    """A job without a fault, for so long. Returns how much was said of it that must not be said."""
    turns = max(1, int(seconds / HEALTHY_TURN_SECONDS))

    def body(loaded, communicator, rank):
        stream = loaded.stream()
        memory = loaded.memory(4096)
        for turn in range(turns):
            until = time.monotonic() + HEALTHY_COMPUTES_SECONDS
            while rank == turn % RANKS and time.monotonic() < until:
                sum(range(10000))
            for _ in range(HEALTHY_QUEUE):
                communicator.queue_all_reduce(memory, 1024, stream)
            loaded.synchronize(stream)
            for _ in range(20):
                communicator.all_reduce(LARGE)
        communicator.destroy()
        return f"{turns} turns"

    name = "healthy"
    print(f"a healthy job, {turns} turns of {HEALTHY_QUEUE} queued operations", flush=True)
    ranks = Ranks(library, [cluster.socket(host_of(rank)) for rank in range(RANKS)], body,
                  environment={"HARMONAIZE_JOB": name}, name=name)
    ended = ranks.wait(4 * seconds + 10 * PATIENCE_SECONDS)
    said = cluster.verdicts(name)
    alarms = [one for one in said if one[0] != "computing"]
    computing = {rank for one in said for rank in one[2]}
    print(f"said: computing {len(said) - len(alarms)} times, of ranks {sorted(computing)}; else: "
          f"{alarms or 'nothing'}; ranks: {ranks.said}", flush=True)
    return len(alarms) + (not ended or ranks.statuses != [0] * RANKS)


def batches(faults, at_once):
    """Those that disturb all jobs are alone."""
    together = []
    for fault in faults:
        if fault.kind.alone:
            yield [fault]
            continue
        together.append(fault)
        if len(together) == at_once:
            yield together
            together = []
    if together:
        yield together


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--faults", type=int, default=int(os.environ.get("HARMONAIZE_FAULTS", "0")))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--healthy", type=float, default=0)
    parser.add_argument("--only", help="kinds of faults, with / between")
    options = parser.parse_args()
    programs = options.programs.absolute()
    library = programs.parent / "lib" / "libnccl.so.2"
    draws = random.Random(options.seed)
    chosen = options.only.split("/") if options.only else [kind.name for kind in KINDS]
    kinds = [kind for kind in KINDS if kind.name in chosen]
    if options.faults:
        kinds = (kinds * (options.faults // len(kinds) + 1))[:options.faults]
        draws.shuffle(kinds)
    with laboratory_of(programs) as laboratory:
        folder = laboratory.folder
        cluster = Cluster(laboratory, folder)
        try:
            cluster.serve()
            if options.healthy:
                return 1 if run_healthy(cluster, library, options.healthy, folder) else 0
            faults = [Fault(number, kind, draws, folder) for number, kind in enumerate(kinds)]
            wrong = sum(run_faults(cluster, some, library) for some in batches(faults, 3))
            print(f"{len(faults) - wrong} of {len(faults)} right; seed {options.seed}")
        finally:
            cluster.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
