#!/usr/bin/env python3
"""Everything that a tenant can read, on four hosts that it shares with another tenant: the answers of all
its routes, events of whatever can be made to happen, ncclGetLastError and the commands. None of it may
have a name, an address, a port, a path or a process of a host, or anything of the other tenant.

    coarseness_test.py PROGRAMS [--keep FOLDER]

PROGRAMS is the folder of fabric and harmonaize; libnccl.so.2 lies in `lib` beside it. --keep leaves what
was read in FOLDER. Exit status 77: the laboratory cannot be used here, or there is no other user.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from live_daemons import UnixConnection, ask, eventually
from live_job import Failed, Ranks
from live_laboratory import FABRIC, Laboratory

ALICE, BOB = 64001, 64002  # users that no host has
ALICES_JOB, BOBS_JOB = "alices-work", "bobs-secret"
ALICES_NAME, BOBS_NAME = "of-alice", "of-bob"
OPERATORS_TEXT = "swap the platypus board"
# Words that occur nowhere else, for the names of the laboratory's nodes and racks.
NODE_NAMES = {"host": "quokka", "leaf": "wombat", "spine": "numbat", "rack": "bilby"}
CONFIG = """
[ranks]
late_after_seconds = 1
[cluster]
dead_after_seconds = 3
"""
PORT = re.compile(r"\b\d+\b")
ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{1,4}(?::[0-9a-f]{0,4}){4,7}\b")


def fabric_text():
    text = FABRIC
    for usual, odd in NODE_NAMES.items():
        text = re.sub(rf'"{usual}(\d)"', rf'"{odd}\1"', text)
    return text


class Reader:
    """What has been read, by where."""

    def __init__(self):
        self.texts = {}

    def add(self, where, text):
        self.texts.setdefault(where, []).append(text)


def as_user(user, what):
    """The text that `what()` returns in a process of this user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            with os.fdopen(writer, "w") as pipe:
                pipe.write(what())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


class World:
    """The laboratory, its daemons, and who is there."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.folder = folder
        self.library = programs.parent / "lib" / "libnccl.so.2"
        self.laboratory = Laboratory(programs, folder, fabric_text())
        self.hosts = [f"{NODE_NAMES['host']}{number}" for number in range(4)]
        self.state = folder / "state" / self.laboratory.name / "hosts"
        self.reader = Reader()

    def up(self):
        made = self.laboratory.up()
        if made.returncode != 0:
            return made.stdout
        config = self.folder / "daemons.toml"
        config.write_text(CONFIG)
        self.laboratory.serve("--daemon-config", str(config))
        # For the two users.
        for path in (self.folder, self.folder / "state", self.state.parent, self.state,
                     *self.state.iterdir()):
            path.chmod(0o755)
        shutil.copy(self.programs / "harmonaize", self.folder / "harmonaize")
        (self.folder / "harmonaize").chmod(0o755)
        return None

    def socket(self, host):
        return str(self.state / host / "harmonaized.sock")

    def http(self, host, name="http.sock"):
        return str(self.state / host / name)

    def operator(self, host, method, target, body=None):
        answer = ask(UnixConnection(self.http(host, "operator-http.sock")), method, target, body)
        if answer.status not in (200, 201):
            raise AssertionError(f"{method} {target}: {answer.status} {answer.text}")
        return answer.json()

    def alice_asks(self, host, target):
        def get():
            answer = ask(UnixConnection(self.http(host)), "GET", target)
            return f"{answer.status} {answer.text}"
        text = as_user(ALICE, get)
        status, _, body = text.partition(" ")
        self.reader.add(f"GET {target}", body)
        return int(status), body

    def alice_runs(self, host, *words):
        environment = {"PATH": os.environ["PATH"], "HARMONAIZE_SOCKET": self.socket(host)}

        def run():
            done = subprocess.run([str(self.folder / "harmonaize"), *words], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=60, check=False)
            return done.stdout
        text = as_user(ALICE, run)
        self.reader.add("harmonaize " + " ".join(words), text)
        return text

    def start(self, user, job, name, body):
        return Ranks(self.library, [self.socket(host) for host in self.hosts], body, user=user,
                     environment={"HARMONAIZE_JOB": job, "FOLDER": str(self.folder)}, name=name)


def bobs_work(library, communicator, _):
    """Works until told that it is enough."""
    del library
    while communicator.all_reduce(1024) == 4 and not pathlib.Path(
            os.environ["FOLDER"], "enough").exists():
        time.sleep(0.01)
    return "done"


def alices_work(library, communicator, rank):
    """Hears all events of the job and what errors say. Does what the test asks for, by files."""
    folder = pathlib.Path(os.environ["FOLDER"])
    events = library.subscribe(communicator, None, b"")
    heard = []
    phase = 0
    stopped = False
    try:
        while not (folder / "alice-fails").exists() or phase < 10:
            communicator.all_reduce(64 << 10)
            heard.append(communicator.last_error())
            phase += (folder / "alice-fails").exists()
            if rank == 1 and not stopped and (folder / "stop").exists():
                stopped = True
                os.kill(os.getpid(), signal.SIGSTOP)
        # The ranks disagree on how many operations there were: one of them waits for ever.
        communicator.all_reduce(100 + rank)
    except Failed as failed:
        heard.append(failed.said)
    while True:
        event = library.next_event(events, 1500)
        if event is None:
            break
        heard.append(event)
    heard.append(library.last_error())
    return "\n".join(dict.fromkeys(heard))[:60000]


def alice_saves(world):
    """Both tenants tell of a checkpoint, so Alice's job is advised when to make others."""
    for user, job in ((ALICE, ALICES_JOB), (BOB, BOBS_JOB)):
        def report(job=job):
            return str(ask(UnixConnection(world.http(world.hosts[1])), "POST", f"/v1/jobs/{job}/checkpoints/reports",
                           {"step": 7, "where": "peer", "stall_seconds": 0.001, "seconds": 0.01}).status)
        if as_user(user, report) != "200":
            raise AssertionError(f"{job} has not told of its checkpoint")


def make_things_happen(world, alice):
    """Everything that a daemon may tell of, as far as it can be caused."""
    alice_saves(world)
    laboratory = world.laboratory
    (world.folder / "stop").touch()
    state = pathlib.Path(f"/proc/{alice.processes[1]}/stat")
    eventually("a rank is stopped", lambda: state.read_text().split(") ")[1][0] == "T")
    time.sleep(3)
    alice.signal(1, signal.SIGCONT)
    for number, (kind, survives) in enumerate((("maintenance", True), ("maintenance", False),
                                               ("reclaim", False), ("risk_of_reclaim", False),
                                               ("unhealthy", False))):
        notice = {"kind": kind, "survives": survives,
                  "duration_seconds": 30, "text": OPERATORS_TEXT}
        for name, states in ((f"notice{number}", ("started", "completed")),
                           (f"withdrawn{number}", ("withdrawn",))):
            world.operator(world.hosts[number % 4], "POST", "/v1/hosts/this/maintenance",
                           dict(notice, new_id=name))
            for state in states:
                world.operator(world.hosts[number % 4], "POST", "/v1/hosts/this/maintenance",
                               dict(notice, id=name, state=state))
    for spine in (0, 1):
        laboratory.disturb("rate", f"{NODE_NAMES['leaf']}0-{NODE_NAMES['spine']}{spine}", "6Mbit")
    time.sleep(5)
    for spine in (0, 1):
        laboratory.disturb("rate", f"{NODE_NAMES['leaf']}0-{NODE_NAMES['spine']}{spine}", "nominal")
    time.sleep(1)


def agents_come(world):
    """Both tenants have an agent at another host than the one at which Alice hears of hers."""
    for user, job in ((ALICE, ALICES_JOB), (BOB, BOBS_JOB)):
        def register(job=job):
            return str(ask(UnixConnection(world.http(world.hosts[1])), "POST", "/v1/agents", {"job": job, "places": 3}).status)
        if as_user(user, register) != "201":
            raise AssertionError(f"{job} has no agent")
    eventually("Alice hears of her agent alone", lambda: [
        agent["name"] for agent in json.loads(world.alice_asks(world.hosts[0], "/v1/agents")[1])["elsewhere"]] == [ALICES_JOB])
    # The other tenant's may be heard of later.
    eventually("an operator is told where both are", lambda: [bool(agent["address"]) for agent in world.operator(
        world.hosts[0], "GET", "/v1/agents")["elsewhere"]] == [True, True])
    for words in (("agents",), ("agents", "--json"), ("agents", ALICES_JOB)):
        world.alice_runs(world.hosts[0], *words)


def read_all(world, jobs):
    """All routes that the document has, whether or not they are for tenants, and all commands."""
    document = json.loads(world.alice_asks(world.hosts[0], "/v1/openapi.json")[1])
    del world.reader.texts["GET /v1/openapi.json"]
    for host in world.hosts:
        for path, methods in document["paths"].items():
            if "get" not in methods or path == "/v1/openapi.json":
                continue
            for job in jobs if "{job}" in path else ("",):
                target = path.replace("{job}", job).replace("{type}", "rank.late").replace(
                    "{version}", "1")
                world.alice_asks(host, target + (
                    "?from=start&limit=1000" if path == "/v1/events" else ""))
        for words in (("status",), ("status", "--json"), ("jobs",), ("jobs", "--json"),
                      ("jobs", ALICES_JOB), ("jobs", ALICES_JOB, "--json"), ("explain",),
                      ("explain", "--json"), ("explain", ALICES_NAME),
                      ("explain", ALICES_NAME, "--json"), ("explain", ALICES_NAME, "--history"), ("top", "-n", "1"),
                      ("checkpoints", "advice", ALICES_JOB), ("checkpoints", "advice", ALICES_JOB, "--json"),
                      ("checkpoints", "held"), ("checkpoints", "held", ALICES_JOB), ("events",),
                      ("events", "--json")):
            world.alice_runs(host, *words)


def check_own_communicators(world):
    """What a tenant is told of the hosts of its own communicators, and an operator besides."""
    for host in world.hosts:
        tenants = json.loads(world.alice_runs(host, "status", "--json"))["tenants"]
        if [tenant["uid"] for tenant in tenants] != [ALICE]:
            raise AssertionError(f"the status has other tenants: {tenants}")
        own = tenants[0]["communicators"]
        if len(own) != 1 or own[0]["hosts"] != len(world.hosts):
            raise AssertionError(f"no number of hosts of the tenant's own communicator: {own}")
        plans = own[0]["plans"]
        if not plans or not all(plan["algorithm"] for plan in plans):
            raise AssertionError(f"no algorithm of the tenant's own plans: {plans}")
        told = json.dumps(own) + world.alice_runs(host, "explain", ALICES_NAME, "--json")
        for kept in ('"home"', '"fabric"', '"order"', '"groups"', '"paths"', '"not_considered"'):
            if kept in told:
                raise AssertionError(f"a tenant is told {kept}: {told}")
        for target in ("/v1/jobs", f"/v1/jobs/{ALICES_JOB}"):
            for kept in ('"hosts"', '"home"', '"plans"'):
                if kept in world.alice_asks(host, target)[1]:
                    raise AssertionError(f"GET {target} has {kept}")
        of_both = [communicator for tenant in world.operator(host, "GET", "/v1/tenants")["tenants"]
                   for communicator in tenant["communicators"]]
        if len(of_both) != 2 or not all("home" in one and one["hosts"] == 4 for one in of_both):
            raise AssertionError(f"an operator is not told hosts and home: {of_both}")


def secrets(world, alice, bob, bobs_ids):
    """What must occur nowhere, as patterns by what they are."""
    def words(values):
        # A number with a unit behind it is a time or a size. It may be that of a process by chance.
        not_a_measure = r"(?!\s*(?:[num]?s|[KMGT]?i?B(?:/s)?)\b)"
        return re.compile("|".join(rf"(?<![\w.]){re.escape(str(one))}(?![\w.]){not_a_measure}" for one in values))

    daemons = subprocess.run(["pgrep", "-f", f"harmonaized.*{world.state}"], stdout=subprocess.PIPE,
                             text=True, check=False).stdout.split()
    ports = set(PORT.findall(subprocess.run(
        [world.laboratory.fabric, "exec", "--name", world.laboratory.name, world.hosts[0], "--", "sh",
         "-c", "ss -Hltn | awk '{print $4}' | sed 's/.*://'"], env=world.laboratory.environment,
        stdout=subprocess.PIPE, text=True, check=False).stdout))
    found = {
        "the name of a host, switch or rack": re.compile(
            "|".join([*NODE_NAMES.values(), rf"\b{re.escape(socket.gethostname())}\b",
                      re.escape(world.laboratory.name)])),
        "an address": ADDRESS,
        "a path of a daemon": re.compile(re.escape(str(world.folder))),
        "a process of a daemon": words(daemons),
        "a process of its own": words(alice.processes),
        "the other tenant": words([BOB, BOBS_JOB, BOBS_NAME, *bobs_ids, *bob.processes]),
        "what operators are told": re.compile(OPERATORS_TEXT),
    }
    if ports:
        found["a port"] = words(ports)
    return found


# What a tenant is told all the same. A tenant's own processes, on the host where it asks.
TOLD = {"a process of its own": re.compile(r"harmonaize status|ncclGetLastError")}
# The head of `harmonaize status`, as docs/user-guide.md, "Looking", shows it: the socket that the tenant
# has named itself, and the daemon's process, which the kernel tells whoever connects (SO_PEERCRED).
HEAD_OF_STATUS = re.compile(
    r'harmonaized \S+, pid \d+, .*listening at \S+|"pid": \d+,|"socket": "[^"]*"')


def judge(world, patterns):
    wrong = []
    for what, pattern in patterns.items():
        for where, texts in world.reader.texts.items():
            for text in texts:
                if where.startswith("harmonaize status"):
                    text = HEAD_OF_STATUS.sub("", text, count=2)
                found = pattern.search(text)
                if found is None:
                    continue
                context = text[max(0, found.start() - 90):found.end() + 60].replace("\n", " ")
                allowed = what in TOLD and TOLD[what].match(where)
                line = f"{'told' if allowed else 'WRONG'}: {where} has {what}: ...{context}..."
                if not any(one.split(": ...")[0] == line.split(": ...")[0] for one in wrong):
                    wrong.append(line)
                break
    for line in wrong:
        print(line)
    return [line for line in wrong if line.startswith("WRONG")]


def look(world):
    alice = bob = None
    try:
        bob = world.start(BOB, BOBS_JOB, BOBS_NAME, bobs_work)
        alice = world.start(ALICE, ALICES_JOB, ALICES_NAME, alices_work)
        jobs = eventually("both jobs are there", lambda: (
            lambda all_of: all_of if len(all_of) == 2 else None)(
                world.operator(world.hosts[0], "GET", "/v1/jobs")["jobs"]))
        ids = {job["name"]: job["id"] for job in jobs}
        bobs_ids = [ids[BOBS_JOB]]
        time.sleep(1)
        make_things_happen(world, alice)
        check_own_communicators(world)
        agents_come(world)
        read_all(world, [ids[ALICES_JOB], ALICES_JOB, ids[BOBS_JOB], BOBS_JOB])
        # What Alice asks for is no answer. A job that is not hers is as one that there is not.
        for job in (ids[BOBS_JOB], BOBS_JOB):
            if world.alice_asks(world.hosts[0], f"/v1/jobs/{job}")[0] != 404:
                raise AssertionError("another tenant's job is there")
        (world.folder / "alice-fails").touch()
        ended = alice.wait(60)
        for rank, said in enumerate(alice.said):
            world.reader.add("ncclGetLastError and hzNextEvent", said)
            if not ended or alice.statuses[rank] != 0:
                raise AssertionError(f"Alice's rank {rank}: {alice.statuses[rank]} {said}")
        read_all(world, [ids[ALICES_JOB]])
        (world.folder / "enough").touch()
        bob.wait(30)
        types = {kind for texts in world.reader.texts.values() for text in texts
                 for kind in re.findall(r'"io\.harmonaize\.([a-z.]+)"', text)
                 if '"specversion"' in text}
        print("events heard:", *sorted(types))
        for needed in ("rank.lost", "plan.changed", "maintenance.scheduled", "capacity.reclaim",
                       "host.failing", "mismatch.detected", "rank.late", "rank.recovered"):
            if needed not in types:
                raise AssertionError(f"no event {needed} came, so nothing is known of it")
        return secrets(world, alice, bob, bobs_ids)
    finally:
        for ranks in (alice, bob):
            if ranks is not None:
                ranks.wait(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: only root can become two users")
        return 77
    with tempfile.TemporaryDirectory(prefix="hz-coarse-") as name:
        world = World(options.programs.absolute(), pathlib.Path(name))
        why_not = world.up()
        if why_not is not None:
            print(f"skipped: {why_not}")
            world.laboratory.run("down", "--name", world.laboratory.name, check=False)
            return 77
        try:
            patterns = look(world)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                for where, texts in world.reader.texts.items():
                    file = re.sub(r"[^\w.-]+", "_", where)[:100]
                    (options.keep / file).write_text("\n=====\n".join(texts))
            wrong = judge(world, patterns)
            print(f"read {sum(map(len, world.reader.texts.values()))} texts from "
                  f"{len(world.reader.texts)} places; {len(wrong)} tell what they must not")
        finally:
            world.laboratory.down()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
