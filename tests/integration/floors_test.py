#!/usr/bin/env python3
"""A job has a floor on the link between two racks, beside one of another tenant that sends all it can:
the controller promises the floor and holds the other one back. A second floor, for which there is no
room, is refused. When the link carries less than was promised, the job is told that its floor is
missed, and that it is kept again when the link is mended. Every result is checked.

    floors_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and timeline_perf. Nothing is timed: the test
waits for what has to come. Exit status 77: the laboratory cannot be used here.
"""

import json
import pathlib
import subprocess
import sys

from controller_test import CONTROLLER, FABRIC, OTHER_USER, controller_of, held_back
from live_laboratory import PATIENCE_SECONDS, eventually, laboratory_of, lines_of, why_no_users

JOB_SECONDS = 6 * PATIENCE_SECONDS
# Links carry 7.5 MB/s, of which 6 MB/s can be promised, and half is a share.
FLOOR = 5e6
CONFIGURATION = '[policy]\nmost_bandwidth_floor = "1 GB/s"\n'
REQUIREMENTS = '[collectives]\nbandwidth_floor = "5 MB/s"\n'
THIRD_USER = 1002


def floors(laboratory):
    """How the floors of the jobs that the controller knows fare, by user."""
    return {job["uid"]: job["floor"]
            for job in controller_of(laboratory, CONTROLLER).get("jobs", [])}


def events(laboratory, kind):
    """The events of this kind that host0 has told."""
    socket = laboratory.folder / "state" / laboratory.name / "hosts" / "host0" / "harmonaized.sock"
    done = subprocess.run([laboratory.harmonaize, "events", "--json", "--types", kind, "--socket",
                           str(socket)], text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return [json.loads(line)["data"] for line in done.stdout.splitlines()]


def watch(laboratory, start, jobs):
    jobs.append(start("greedy", ("host1", "host3"), OTHER_USER, False))
    jobs.append(start("promised", ("host0", "host2"), None, True))
    eventually("the floor is promised", lambda: floors(laboratory).get(0) == "kept", jobs,
               seen=lambda: f"there is {controller_of(laboratory, CONTROLLER)}")
    eventually("the other one is held back for it",
               lambda: held_back(laboratory) == {OTHER_USER}, jobs)
    jobs.append(start("late", ("host1", "host3"), THIRD_USER, True))
    eventually("a second floor is refused",
               lambda: floors(laboratory).get(THIRD_USER) == "refused", jobs)
    assert floors(laboratory)[0] == "kept", floors(laboratory)
    laboratory.disturb("rate", "leaf0-leaf1", "15Mbit")
    eventually("the floor is told as missed",
               lambda: events(laboratory, "requirement.unmet"), jobs,
               seen=lambda: f"there is {controller_of(laboratory, CONTROLLER)}")
    told = events(laboratory, "requirement.unmet")[0]
    assert told["requirement"] == "bandwidth_floor" and told["granted"] == FLOOR, told
    assert told["measured"] < FLOOR, told
    laboratory.disturb("rate", "leaf0-leaf1", "nominal")
    eventually("the floor is told as kept again",
               lambda: events(laboratory, "requirement.met"), jobs)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    if why := why_no_users(programs / "timeline_perf"):
        print(why)
        return 77
    with laboratory_of(programs, FABRIC, shared=True) as laboratory:
        folder = laboratory.folder
        (folder / "provider.toml").write_text(CONFIGURATION)
        (folder / "job.toml").write_text(REQUIREMENTS)
        jobs = []

        def start(name, hosts, user, asks):
            with (folder / name).open("w") as file:
                return laboratory.start_job(file, JOB_SECONDS, "-b", "256K", hosts=hosts, user=user,
                                            requirements=folder / "job.toml" if asks else None)

        try:
            laboratory.serve("--controller", CONTROLLER, "--daemon-config",
                             str(folder / "provider.toml"))
            watch(laboratory, start, jobs)
            laboratory.enough()
            ends = [job.wait(timeout=PATIENCE_SECONDS) for job in jobs]
            assert ends == [0] * len(jobs), ends
            assert all(lines_of(folder / name) for name in ("greedy", "promised", "late"))
        except AssertionError:
            for name in ("greedy", "promised", "late"):
                print((folder / name).read_text()[-2000:] if (folder / name).exists() else "")
            raise
        finally:
            laboratory.enough()
    return 0


if __name__ == "__main__":
    sys.exit(main())
