#!/usr/bin/env python3
"""A link loses four fifths of its rate while a job runs, and recovers, and then is cut, and mended:
the daemon of the job's home finds out which one it is, plans follow, and no result is wrong.

    live_plans_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and timeline_perf. Nothing is timed: the test
waits for what has to come. Exit status 77: the laboratory cannot be used here.
"""

import sys

from live_laboratory import PATIENCE_SECONDS, eventually, laboratory_of, lines_of

JOB_SECONDS = 4 * PATIENCE_SECONDS


def check(laboratory, folder):
    output = folder / "job"
    try:
        disturb_and_watch(laboratory, output)
    except AssertionError:
        print(output.read_text())
        raise


def disturb_and_watch(laboratory, output):
    with output.open("w") as file:
        job = laboratory.start_job(file, JOB_SECONDS, "-b", "512K")
    try:
        eventually("the job runs", lambda: len(lines_of(output)) > 3, [job])
        assert laboratory.slow_links() == set(), laboratory.slow_links()
        laboratory.disturb("rate", "leaf0-spine0", "12Mbit")
        eventually("the slow link is found, both ways",
                   lambda: laboratory.slow_links() >= {("leaf0", "spine0"), ("spine0", "leaf0")}, [job])
        before = len(lines_of(output))
        eventually("the job goes on", lambda: len(lines_of(output)) > before + 3, [job])
        laboratory.disturb("rate", "leaf0-spine0", "nominal")
        laboratory.all_links_are_well([job])
        laboratory.disturb("link-down", "leaf1-spine1", "--silent")
        eventually("the cut link is found, both ways",
                   lambda: laboratory.slow_links() >= {("leaf1", "spine1"), ("spine1", "leaf1")}, [job])
        before = len(lines_of(output))
        eventually("the job goes on beside the cut",
                   lambda: len(lines_of(output)) > before + 3, [job])
        laboratory.disturb("link-up", "leaf1-spine1")
        laboratory.all_links_are_well([job])
        history = (laboratory.ask_home("explain", "1", "--history") or {}).get("history", [])
        for change in history:
            assert change["outcome"] in ("committed", "called off", "under way"), change
            assert "carries" in change["reason"] or "carry" in change["reason"], change
        print(f"{len(history)} changes of plans")
    finally:
        laboratory.enough()
        status = job.wait()
    # Every rank has looked at what it got.
    assert status == 0, f"the job ended with {status}"


def main():
    with laboratory_of(sys.argv[1]) as laboratory:
        check(laboratory, laboratory.folder)


if __name__ == "__main__":
    main()
