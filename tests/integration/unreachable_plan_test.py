#!/usr/bin/env python3
"""A plan that two hosts would have to carry out which cannot reach each other is called off: all go on
by the old one, and the provider is told why. When they can, it is taken. Every result is checked.

    unreachable_plan_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize and timeline_perf. Nothing is timed: the test waits for
what has to come. Exit status 77: the laboratory cannot be used here.
"""

import sys

from live_laboratory import PATIENCE_SECONDS, eventually, laboratory_of, lines_of

# By the first plan hosts exchange messages with their neighbours alone.
FABRIC = """
[[host]]
name = ["host0", "host1", "host2", "host3"]
forwards = true
[[link]]
from = "host0"
to = "host1"
rate = "60Mbit"
[[link]]
from = "host1"
to = "host2"
rate = "60Mbit"
[[link]]
from = "host2"
to = "host3"
rate = "60Mbit"
[[link]]
from = "host3"
to = "host0"
rate = "60Mbit"
"""
CONFIGURATION = "[plans]\nswitch_every_ms = 200\n"
# Hosts that face each other, and of which neither is the home.
ONE, OTHER = "host1", "host3"


def addresses_of(laboratory, host):
    said = laboratory.run("exec", "--name", laboratory.name, host, "--", "ip", "-4", "-o", "addr",
                          "show", "scope", "global").stdout
    addresses = [word.split("/")[0] for line in said.splitlines()
                 for before, word in zip(line.split(), line.split()[1:]) if before == "inet"]
    assert addresses, said
    return addresses


def forbid(laboratory, verb):
    """What ONE itself sends to OTHER, but not what it passes on."""
    for address in addresses_of(laboratory, OTHER):
        laboratory.run("exec", "--name", laboratory.name, ONE, "--", "ip", "rule", verb, "iif", "lo",
                       "to", address, "pref", "1", "prohibit")


def changes(laboratory):
    return (laboratory.ask_home("explain", "1", "--history") or {}).get("history", [])


def plans_of(change):
    return {plan["algorithm"] for plan in change["after"]}


def watch(laboratory, output):
    with output.open("w") as file:
        job = laboratory.start_job(file, 4 * PATIENCE_SECONDS, "-b", "64K")
    called_off = []

    def any_called_off():
        called_off[:] = [change for change in changes(laboratory)
                         if "cannot be reached" in change.get("called_off", "")]
        return called_off

    def taken_after_all():
        wanted = plans_of(called_off[0])
        return any(change["outcome"] == "committed" and plans_of(change) == wanted
                   for change in changes(laboratory))

    try:
        eventually("the job runs", lambda: len(lines_of(output)) > 3, [job])
        eventually("a plan is called off", any_called_off, [job])
        assert not taken_after_all(), changes(laboratory)
        before = len(lines_of(output))
        eventually("the job goes on", lambda: len(lines_of(output)) > before + 3, [job])
        forbid(laboratory, "del")
        eventually("it is taken after all", taken_after_all, [job])
    finally:
        laboratory.enough()
        status = job.wait(timeout=PATIENCE_SECONDS)
    # Every rank has looked at what it got.
    assert status == 0, f"the job ended with {status}"


def main():
    with laboratory_of(sys.argv[1], FABRIC) as laboratory:
        folder = laboratory.folder
        (folder / "provider.toml").write_text(CONFIGURATION)
        try:
            laboratory.serve("--daemon-config", str(folder / "provider.toml"))
            forbid(laboratory, "add")
            watch(laboratory, folder / "job")
        except AssertionError:
            print((folder / "job").read_text()[-2000:])
            print(changes(laboratory))
            raise


if __name__ == "__main__":
    main()
