#!/usr/bin/env python3
"""The HTTP interface under attack, a full disk and damaged logs of events, beside an honest job of another
user: the daemon lives and answers, the job gets on, and what the attackers took is given back.

    hostile_http_test.py PROGRAMS [--logs]

PROGRAMS is the folder of harmonaized; libnccl.so.2 lies in `lib` beside it. The job has a rank at each of
two daemons, so that every operation goes through both. Its rate is printed for each attack and judged by
nobody; that it gets on is judged. --logs: without the attacks. Exit status 77: this user cannot become
another one.
"""

import json
import mmap
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time

from live_daemons import Daemon, PATIENCE_SECONDS, UnixConnection, ask, eventually
from live_job import Ranks

HONEST, HOSTILE = 64001, 64002  # users that no host has
SECONDS = 2  # of each attack
CONNECTIONS = 3000
STREAMS = 200
# What one tenant's HTTP may cost a daemon: the default quota.memory_bytes is 64 MiB, and freed memory comes
# back late.
MOST_GROWTH_KILOBYTES = 128 << 10
# More than fits into what a full disk of 256 KiB leaves to the log of events, at 1 KiB each.
DISK_EVENTS = 300
# A daemon's own files and threads come and go.
DESCRIPTORS_MORE = 40
TARGET = b"GET /v1/events?follow=true&from=now HTTP/1.1\r\nHost: localhost\r\n\r\n"


def check(holds, what):
    if not holds:
        raise AssertionError(what)


class Rounds:
    """Counts that processes share."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 4096)

    def add(self, rank):
        done = struct.unpack_from("q", self.memory, 8 * rank)[0]
        struct.pack_into("q", self.memory, 8 * rank, done + 1)

    def done(self):
        return min(struct.unpack_from("2q", self.memory))


def connect(path):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(5)
    one.connect(path)
    return one


def send_all(one, text):
    """Sends as much as is taken."""
    try:
        one.sendall(text)
    except OSError:
        pass


def is_open(one):
    one.setblocking(False)
    try:
        return one.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def slow_loris(path, until):
    """Requests that come a byte at a time."""
    ones = [connect(path) for _ in range(300)]
    for byte in b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 100000:
        for one in ones:
            send_all(one, bytes([byte]))
        if time.monotonic() > until:
            return f"{sum(map(is_open, ones))} of {len(ones)} still open"
        time.sleep(0.05)
    return ""


def huge_heads_and_bodies(path, until):
    """Heads and bodies of megabytes, and chunks without end."""
    refused = sent = 0
    while time.monotonic() < until:
        for text in (b"GET / HTTP/1.1\r\nX: " + b"x" * (8 << 20),
                     b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(100000)),
                     b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999"
                     b"\r\n\r\n" + b"x" * (8 << 20),
                     b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked"
                     b"\r\n\r\n" + b"10000\r\n" + b"x" * 65536 + b"\r\n" + b"1;" + b"e" * (1 << 20)):
            with connect(path) as one:
                send_all(one, text)
                sent += 1
                try:
                    refused += one.recv(100)[9:10] == b"4"
                except OSError:
                    pass
    return f"{sent} sent, {refused} answered with 4xx"


def truncated(path, until):
    """Requests that break off anywhere, and bytes that are none."""
    draws = random.Random(3)
    whole = (b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             b"Content-Length: 60\r\n\r\n" + b'{"job": "", "type": "daemon.restarted", "data": {}}      ')
    sent = turned_away = 0
    while time.monotonic() < until:
        try:
            one = connect(path)
        except OSError:
            turned_away += 1
            continue
        with one:
            kind = draws.randrange(3)
            if kind == 0:
                send_all(one, whole[:draws.randrange(len(whole))])
            elif kind == 1:
                send_all(one, draws.randbytes(draws.randrange(2000)))
            else:
                changed = bytearray(whole)
                changed[draws.randrange(len(changed))] = draws.randrange(256)
                send_all(one, bytes(changed))
                one.shutdown(socket.SHUT_WR)
        sent += 1
    return f"{sent} sent, {turned_away} connections turned away"


def connections(path, until):
    """More of them than a tenant may have."""
    ones = []
    for _ in range(CONNECTIONS):
        try:
            ones.append(connect(path))
        except OSError:
            break
        ones[-1].setblocking(False)
    time.sleep(max(0, until - time.monotonic()))
    return f"{len(ones)} made, {sum(map(is_open, ones))} still open"


def streams(path, until):
    """Streams of events that nobody reads."""
    ones = []
    for _ in range(STREAMS):
        ones.append(connect(path))
        ones[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        send_all(ones[-1], TARGET)
    time.sleep(max(0, until - time.monotonic()))
    return f"{sum(map(is_open, ones))} of {len(ones)} open"


def too_many_requests(path, until):
    """As many requests as one can make, on connections that stay."""
    sent = 0
    with connect(path) as one:
        one.settimeout(0.2)
        while time.monotonic() < until:
            send_all(one, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
            sent += 50
            try:
                one.recv(1 << 20)
            except OSError:
                pass
    return f"{sent} sent"


def burn(_, until):
    """No attack, for comparison: two processes that take as much of the processors as they get."""
    os.fork()
    while time.monotonic() < until:
        sum(range(10000))
    return "for comparison"


def all_at_once(path, until):
    """All of these at the same time."""
    children = [start_attack(attack, path, until)[0] for attack in ATTACKS[:-1]]
    for child in children:
        os.waitpid(child, 0)
    return "together"


ATTACKS = [burn, slow_loris, huge_heads_and_bodies, truncated, connections, streams, too_many_requests,
           all_at_once]


def start_attack(attack, path, until):
    """Begins it, as the hostile user. Returns the process and where its result is to be read."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(HOSTILE)
                os.setuid(HOSTILE)
            os.write(writer, attack(path, until).encode())
            status = 0
        except BaseException as error:  # pylint: disable=broad-except
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(status)
    os.close(writer)
    return child, reader


def number_in(daemon, name):
    for line in pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise AssertionError(f"/proc has no {name}")


def descriptors_of(daemon):
    return len(list(pathlib.Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


class Honest:
    """The honest job, and that it gets on."""

    def __init__(self, programs, daemons, folder):
        self.rounds = Rounds()
        self.enough = folder / "enough"
        self.ranks = Ranks(programs.parent / "lib" / "libnccl.so.2",
                           [daemon.socket for daemon in daemons], self.work, user=HONEST,
                           environment={"HARMONAIZE_JOB": "honest"}, name="honest")

    def work(self, _, communicator, rank):
        while True:
            # Rank 0 says whether this is the last round.
            last = rank == 0 and self.enough.exists()
            total = communicator.all_reduce(4096, first=100 if last else 1)
            self.rounds.add(rank)
            if total > 2:
                break
            check(total == 2, f"a sum is {total}")
        communicator.destroy()
        return "done"

    def rate_over(self, seconds):
        before = self.rounds.done()
        time.sleep(seconds)
        return (self.rounds.done() - before) / seconds

    def expect_progress(self, what):
        before = self.rounds.done()
        eventually(f"the honest job gets on {what}", lambda: self.rounds.done() > before + 10)

    def end(self):
        self.enough.touch()
        check(self.ranks.wait(60) and self.ranks.statuses == [0, 0],
              f"the honest job ends well: {self.ranks.statuses} {self.ranks.said}")


def ask_patiently(path, target):
    """Asks once there is a place in the socket's queue, which all users share."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            answer = ask(UnixConnection(path), "GET", target)
            if answer.status != 429 or time.monotonic() > deadline:
                return answer
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def as_user(user, path, target):
    """The status and the text that this user gets."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        try:
            answer = ask_patiently(path, target)
            with os.fdopen(writer, "w") as pipe:
                pipe.write(f"{answer.status} {answer.text}")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        status, _, text = pipe.read().partition(" ")
    os.waitpid(child, 0)
    return int(status or "0"), text


def attack_all(honest, daemon):
    path = daemon.socket + ".http"
    memory = number_in(daemon, "VmRSS")
    descriptors = descriptors_of(daemon)
    print(f"alone: {honest.rate_over(SECONDS):.0f} rounds/s; the daemon has {memory} KiB, "
          f"{descriptors} descriptors", flush=True)
    for attack in ATTACKS:
        until = time.monotonic() + SECONDS
        before, begun = honest.rounds.done(), time.monotonic()
        child, reader = start_attack(attack, path, until)
        most = memory
        longest = 0.0
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            asked = time.monotonic()
            check(daemon.as_operator("GET", "/readyz").status == 200, "operators are answered")
            check(as_user(HONEST, path, "/v1/jobs")[0] == 200, "the honest user is answered")
            longest = max(longest, time.monotonic() - asked)
            most = max(most, number_in(daemon, "VmRSS"))
            check(time.monotonic() < until + 60, "the attack ends")
            time.sleep(0.1)
        rate = (honest.rounds.done() - before) / (time.monotonic() - begun)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        honest.expect_progress(f"after {attack.__name__}")
        print(f"{attack.__name__}: {rate:.0f} rounds/s meanwhile; {said}; answers to others within "
              f"{longest:.2f} s; memory at most {most - memory} KiB more", flush=True)
        check(rate > 0, f"the honest job stands still under {attack.__name__}")
        check(most - memory < MOST_GROWTH_KILOBYTES, f"memory grew by {most - memory} KiB")
        eventually("the attackers' descriptors are given back",
                   lambda: descriptors_of(daemon) <= descriptors + DESCRIPTORS_MORE)
    print(f"alone again: {honest.rate_over(SECONDS):.0f} rounds/s; the daemon has "
          f"{number_in(daemon, 'VmRSS')} KiB, {descriptors_of(daemon)} descriptors", flush=True)


def inject(daemon, job, text):
    return patiently(daemon, "POST", "/v1/events", {"job": job, "type": "daemon.restarted",
                                                    "data": {"text": text}}).status


def patiently(daemon, *request):
    """Asks again where there were too many requests."""
    while True:
        answer = daemon.as_operator(*request)
        if answer.status != 429:
            return answer
        time.sleep(0.1)


def told(daemon, job, place="from=start"):
    """A page of the honest user's events behind this place; of one job, or, with "", of all."""
    of_job = f"&job={job}" if job else ""
    status, text = as_user(HONEST, daemon.socket + ".http",
                           f"/v1/events?{place}&limit=1000{of_job}")
    check(status == 200, f"events are answered with {status}: {text}")
    return json.loads(text)


def fill_the_disk(honest, daemon, state, job):
    """No byte is left where the logs of events are."""
    check(inject(daemon, job, "before") == 200, "an event is taken")
    page = told(daemon, job)
    check(page["events"][-1]["data"]["text"] == "before", "and kept")
    # The full log may give up this event, too: its id alone would lead nowhere then.
    behind = "after=" + page["next"]
    filler = state / "filler"
    with filler.open("wb") as file:
        try:
            while True:
                file.write(b"x" * 65536)
                file.flush()
        except OSError:
            pass
    answers = {inject(daemon, job, f"on a full disk {number}" + "." * 900) for number in range(DISK_EVENTS)}
    check(answers <= {200, 503, 507}, f"injecting on a full disk is answered with {answers}")
    honest.expect_progress("on a full disk")
    reading = {patiently(daemon, "GET", f"/v1/events?from=start{of}").status for of in ("", f"&job={job}")}
    check(reading <= {200, 503}, f"reading on a full disk is answered with {reading}")
    full = told(daemon, job)
    check(patiently(daemon, "GET", "/readyz").status == 200, "the daemon answers on a full disk")
    filler.unlink()
    eventually("events are kept again", lambda: inject(daemon, job, "after the full disk") == 200 and
               any("after the full disk" in event["data"].get("text", "")
                   for event in told(daemon, job)["events"]))
    after = told(daemon, "", behind)
    lost = DISK_EVENTS - sum("on a full disk" in event["data"].get("text", "") for event in after["events"])
    print(f"full disk: answers {answers}, {len(full['events'])} events and {full['missed']} missed "
          f"meanwhile; {lost} of {DISK_EVENTS} lost, {after['missed']} missed told afterwards", flush=True)
    check(after["missed"] >= lost, f"{lost} were lost, {after['missed']} told")
    of_job = told(daemon, job, behind)
    lost_of_job = DISK_EVENTS - sum("on a full disk" in event["data"].get("text", "") for event in of_job["events"])
    check(of_job["missed"] >= lost_of_job,
          f"{lost_of_job} of the job were lost, {of_job['missed']} told with its filter")
    honest.expect_progress("after the full disk")


def damage_the_logs(honest, daemon, state, job):
    """The files of events are overwritten under the daemon, and what is left is read after a restart."""
    files = [file for file in state.rglob("*") if file.is_file() and "event" in str(file) and
             file.stat().st_size > 0]
    check(files, f"there are logs of events in {list(state.rglob('*'))}")
    draws = random.Random(5)
    for file in files:
        with file.open("r+b") as opened:
            for at in range(0, file.stat().st_size, 512):
                opened.seek(at)
                opened.write(draws.randbytes(400))
    answers = set()
    for number in range(20):
        answers.add(inject(daemon, job, f"after the damage {number}"))
        answers.add(patiently(daemon, "GET", f"/v1/events?from=start&job={job}").status)
    check(answers <= {200, 503, 507}, f"with damaged logs the answers are {answers}")
    check(patiently(daemon, "GET", "/readyz").status == 200, "the daemon answers with damaged logs")
    honest.expect_progress("with damaged logs")
    eventually("events are kept again", lambda: inject(daemon, job, "mended") == 200 and any(
        event["data"].get("text") == "mended" for event in told(daemon, job)["events"]))
    print(f"damaged logs: {len(files)} files, answers {answers}; there are now "
          f"{sorted(file.name for file in state.rglob('*damaged*'))}", flush=True)
    honest.expect_progress("afterwards")


def damage_is_found(daemon, state):
    """By a daemon that opens the logs anew."""
    daemon.stop()
    for file in state.rglob("*.sqlite3"):
        with file.open("r+b") as opened:
            opened.write(random.Random(7).randbytes(4096))
    daemon.start()
    check(patiently(daemon, "GET", "/v1/events?from=start").status == 200, "events are answered")
    check(inject(daemon, "", "after the restart") == 200, "an event is taken")
    page = patiently(daemon, "GET", "/v1/events?from=start").json()
    check(page["events"][-1]["data"]["text"] == "after the restart", "and kept")
    print(f"after a restart with damaged logs there are "
          f"{sorted(file.name for file in state.rglob('*') if file.is_file())}", flush=True)


def main():
    if os.getuid() != 0:
        print("skipped: only root can become two users")
        return 77
    programs = pathlib.Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="harmonaize-hostile-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        daemons = [Daemon(programs, folder, number) for number in range(2)]
        state = daemons[0].folder / "state"
        mounted = False
        honest = None
        try:
            daemons[0].stop()
            # Nothing here comes by TCP, and the port may be another program's by the next start.
            config = daemons[0].folder / "provider.toml"
            config.write_text("\n".join(line for line in config.read_text().splitlines()
                                        if not line.startswith(("[http]", "listen"))))
            state.mkdir(exist_ok=True)
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs",
                                      str(state)], check=False).returncode == 0
            daemons[0].start()
            honest = Honest(programs, daemons, folder)
            honest.expect_progress("at the beginning")
            job = daemons[0].as_operator("GET", "/v1/jobs").json()["jobs"][0]["id"]
            if "--logs" not in sys.argv:
                attack_all(honest, daemons[0])
            if mounted:
                fill_the_disk(honest, daemons[0], state, job)
                subprocess.run(["mount", "-o", "remount,size=128m", str(state)], check=True)
            else:
                print("no full disk: nothing can be mounted here")
            damage_the_logs(honest, daemons[0], state, job)
            honest.end()
            damage_is_found(daemons[0], state)
        finally:
            if honest is not None:
                honest.ranks.wait(0)
            try:
                for daemon in daemons:
                    daemon.stop()
            finally:
                if mounted:
                    subprocess.run(["umount", str(state)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
