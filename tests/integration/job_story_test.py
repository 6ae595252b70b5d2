#!/usr/bin/env python3
"""A job of four ranks on four hosts of the laboratory lives through what a cluster does to it. Its
subscribers, a rank of its own and `harmonaize events --follow` at another host, hear of each thing: of a
congested connection, a changed plan, a stopped rank by its number, and announced maintenance. The status
page shows the job while it runs, where there is a browser.

    job_story_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and harmonaized; libnccl.so.2 lies in `lib` beside it. Exit
status 77: the laboratory cannot be used here.
"""

import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

from live_browser import Browser, find_browser
from live_daemons import UnixConnection, ask
from live_job import FLOAT32, Ranks
from live_laboratory import laboratory_of

RANKS = 4
NAME = "a story"
COUNT = 128 << 10  # elements: 512 KiB, which the laboratory's links carry in some 0.1 s
STOPPED = 2
SUBSCRIBER = 1
LATE_AFTER_SECONDS = 2
CONFIG = f"[ranks]\nlate_after_seconds = {LATE_AFTER_SECONDS}\n"
# The sum by which rank 0 tells all to end.
END = 1000
# Longest wait for each event. A plan changes after some rounds of measuring; all others come sooner.
PATIENCE_SECONDS = 60


class Story:
    def __init__(self, laboratory):
        self.laboratory = laboratory
        self.folder = laboratory.folder
        self.hosts = self.folder / "state" / laboratory.name / "hosts"
        self.release = self.folder / "release"
        self.heard_by_rank = self.folder / "heard-by-rank"
        self.heard_by_command = self.folder / "heard-by-command"
        self.ranks = None
        self.command = None
        self.before = {}  # lines that a subscriber had heard before the last cause

    def socket(self, host, name="harmonaized.sock"):
        return str(self.hosts / f"host{host}" / name)

    # What a rank does.

    def listen(self, library, subscription):
        with self.heard_by_rank.open("w") as file:
            while not self.release.exists():
                text = library.next_event(subscription, 200)
                if text is not None:
                    file.write(text + "\n")
                    file.flush()

    def body(self, library, communicator, rank):
        listener = None
        if rank == SUBSCRIBER:
            subscription = library.subscribe(communicator, b"", b"")
            listener = threading.Thread(target=self.listen, args=(library, subscription))
            listener.start()
        turns = 0
        while True:
            ends = rank == 0 and self.release.exists()
            if communicator.all_reduce(COUNT, FLOAT32, first=END if ends else 1) >= END:
                break
            turns += 1
        if listener is not None:
            listener.join()
        communicator.destroy()
        return turns

    # What the test does.

    def begin(self, library):
        with self.heard_by_command.open("w") as file:
            self.command = subprocess.Popen(
                [self.laboratory.harmonaize, "events", "--follow", "--from", "start", "--json",
                 "--socket", self.socket(3)], stdout=file, stderr=subprocess.PIPE, text=True)
        self.ranks = Ranks(library, [self.socket(host) for host in range(RANKS)], self.body,
                           environment={"HARMONAIZE_JOB": NAME, "HARMONAIZE_JOB_KIND": "training"},
                           name="world")
        self.eventually("the job runs", lambda: self.operations() > 3)

    def operations(self):
        answer = ask(UnixConnection(self.socket(0, "http.sock")), "GET", "/v1/jobs")
        jobs = [one for one in answer.json()["jobs"] if one["name"] == NAME]
        return jobs[0]["operations"] if jobs else 0

    def heard(self, path, kind):
        """The data of the events of a type that a subscriber has heard since the last cause."""
        lines = path.read_text().splitlines()[self.before.get(path, 0):] if path.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [one["data"] for one in events if one["type"] == f"io.harmonaize.{kind}"]

    def cause(self, act, *words):
        """Does something of which subscribers are to hear. What they heard before does not count."""
        for path in (self.heard_by_rank, self.heard_by_command):
            self.before[path] = len(path.read_text().splitlines())
        act(*words)

    def slow_down(self, rate, *spines):
        for spine in spines:
            self.laboratory.disturb("rate", f"leaf0-{spine}", rate)

    def announce(self):
        subprocess.run([self.laboratory.harmonaize, "maintenance", "announce", "--in", "10min",
                        "--for", "5min", "--socket", self.socket(2)],
                       check=True, stdout=subprocess.DEVNULL)

    def eventually(self, what, condition):
        begun = time.monotonic()
        while not condition():
            if self.ranks is not None and self.ranks.poll():
                raise AssertionError(f"the job ended before {what}: {self.ranks.said}")
            if time.monotonic() > begun + PATIENCE_SECONDS:
                raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}; heard by the rank:\n"
                                     f"{self.heard_by_rank.read_text()}")
            time.sleep(0.02)
        return time.monotonic() - begun

    def both_hear(self, what, kind, fits=lambda data: True):
        """Waits until both subscribers have heard of it."""
        for path in (self.heard_by_rank, self.heard_by_command):
            seconds = self.eventually(f"{what} is heard ({path.name})",
                                      lambda one=path: any(map(fits, self.heard(one, kind))))
            print(f"{what}: {kind}, {path.name}, after {seconds:.2f} s", flush=True)

    def live_through(self):
        # Every connection between the racks keeps a tenth of its rate: another plan cannot avoid them.
        self.cause(self.slow_down, "6Mbit", "spine0", "spine1")
        self.both_hear("congestion", "congestion.changed", lambda data: data["to"] != "none")
        self.cause(self.slow_down, "nominal", "spine0", "spine1")
        self.both_hear("its end", "congestion.changed", lambda data: data["to"] == "none")
        # One of two ways alone is slow, so the plan moves to the other.
        self.cause(self.slow_down, "6Mbit", "spine0")
        self.both_hear("a plan", "plan.changed")
        self.slow_down("nominal", "spine0")

        self.cause(self.ranks.signal, STOPPED, signal.SIGSTOP)
        self.both_hear("a stopped rank", "rank.late",
                       lambda data: data["ranks"] == [STOPPED] and data["doing"] == "stopped")
        self.cause(self.ranks.signal, STOPPED, signal.SIGCONT)
        self.both_hear("its return", "rank.recovered", lambda data: data["ranks"] == [STOPPED])

        self.cause(self.announce)
        self.both_hear("maintenance", "maintenance.scheduled", lambda data: data["ranks"] == [2])

    def is_shown(self, program):
        """The status page, as the operator of rank 0's host sees it."""
        dashboard = subprocess.Popen(
            [self.laboratory.harmonaize, "dashboard", "--operator", "--no-browser", "--socket",
             self.socket(0)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        browser = Browser(program, str(self.folder / "profile"))
        try:
            browser.open(dashboard.stdout.readline().strip())
            browser.eventually("the job is listed",
                               f"document.querySelector('#job-rows')?.innerText.includes({NAME!r})")
            row = "[...document.querySelectorAll('#job-rows tr')].find((one) => one.innerText.includes('a story')).innerText"
            first = browser.value(row)
            browser.eventually("its numbers grow", f"({row}) !== {json.dumps(first)}")
            browser.eventually("the fabric is drawn", "document.querySelector('#fabric svg') !== null")
            browser.eventually("what has happened is told",
                               "document.querySelector('#event-list').innerText.includes('maintenance.scheduled')")
        finally:
            browser.close()
            dashboard.send_signal(signal.SIGINT)
            dashboard.wait()

    def end(self):
        self.release.touch()
        ended = self.ranks is None or self.ranks.wait(PATIENCE_SECONDS)
        if self.command is not None:
            self.command.send_signal(signal.SIGINT)
            self.command.wait()
        return ended


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with laboratory_of(programs) as laboratory:
        story = Story(laboratory)
        try:
            config = laboratory.folder / "daemons.toml"
            config.write_text(CONFIG)
            laboratory.serve("--daemon-config", str(config))
            story.begin(programs.parent / "lib" / "libnccl.so.2")
            story.live_through()
            program = find_browser()
            if program is None:
                print("there is no browser, so nothing looks at the status page")
            else:
                story.is_shown(program)
        finally:
            ended = story.end()
        assert ended and story.ranks.statuses == [0] * RANKS, story.ranks.said
        assert all(int(turns) > 0 for turns in story.ranks.said), story.ranks.said


if __name__ == "__main__":
    main()
