#!/usr/bin/env python3
"""Draws the status page of a laboratory in both colour schemes. scripts/screenshot.sh calls it.

    page_pictures.py PROGRAMS FOLDER
"""

import pathlib
import subprocess
import sys

from live_browser import Browser, find_browser
from live_laboratory import laboratory_of

FABRIC = "perf/fabric/fabrics/two-racks.toml"
JOB_SECONDS = 300
# Time in which the charts come by something to show.
SHOWN_AFTER_SECONDS = 75
MOST_PICTURE_BYTES = 150_000
WIDTH = 1280


def start_job(laboratory, programs, name, kind, hosts, *words):
    where = ["--hosts", hosts] if hosts else []
    environment = dict(laboratory.environment, HARMONAIZE_JOB=name, HARMONAIZE_JOB_KIND=kind)
    return subprocess.Popen([str(programs / "fabric"), "run", "--name", laboratory.name, "--no-prefix", "--no-preload", *where,
                             "--", str(programs / "timeline_perf"), "-s", str(JOB_SECONDS), "--until",
                             str(laboratory.folder / "enough"), *words],
                            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def socket_of(laboratory, host):
    return str(laboratory.folder / "state" / laboratory.name / "hosts" / host / "harmonaized.sock")


def start_agent(laboratory, programs, name, host, places):
    """A launcher that would start more ranks of the job at the host. It has started one process, which only waits."""
    environment = dict(laboratory.environment, HARMONAIZE_SOCKET=socket_of(laboratory, host))
    return subprocess.Popen([str(programs / "harmonaize"), "run", "--no-preload", "-n", "1", "--elastic", f"1:{places + 1}", "--name",
                             name, "--", "sleep", str(JOB_SECONDS)],
                            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def take(browser, folder):
    for scheme, name in (("light", "status-page.webp"), ("dark", "status-page-dark.webp")):
        browser.scheme(scheme)
        browser.listen(3)
        path = folder / name
        browser.picture(path, browser.value("document.documentElement.scrollHeight"))
        print(f"{path}: {path.stat().st_size} bytes")
        if path.stat().st_size > MOST_PICTURE_BYTES:
            raise AssertionError(f"{path} is larger than {MOST_PICTURE_BYTES} bytes")


def main():
    programs, target = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    program = find_browser()
    if program is None:
        print("no Chromium is installed", file=sys.stderr)
        return 1
    with laboratory_of(programs, pathlib.Path(FABRIC).read_text()) as laboratory:
        folder = laboratory.folder
        jobs, agents = [], []
        dashboard = None
        try:
            laboratory.serve()
            jobs.append(start_job(laboratory, programs, "llama-70b", "training", "", "-b", "4M", "-c", "0.02"))
            jobs.append(start_job(laboratory, programs, "ranking-eval", "inference", "host0,host2", "-b", "64K", "-c", "0.001"))
            agents += [start_agent(laboratory, programs, "llama-70b", host, places) for host, places in (("host0", 3), ("host3", 7))]
            dashboard = subprocess.Popen([str(programs / "harmonaize"), "dashboard", "--operator", "--no-browser", "--socket",
                                          socket_of(laboratory, "host0")], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            browser = Browser(program, str(folder / "profile"), width=WIDTH)
            try:
                browser.open(dashboard.stdout.readline().strip())
                browser.eventually("both jobs are shown", "document.querySelectorAll('#job-rows tr:not(.detail)').length === 2")
                # A stranger's flow, for something to tell of.
                browser.listen(SHOWN_AFTER_SECONDS / 2)
                laboratory.disturb("flow", "host1", "host3", "--rate", "250Mbit", "--path", "0")
                browser.listen(SHOWN_AFTER_SECONDS / 4)
                laboratory.disturb("flow-end")
                browser.listen(SHOWN_AFTER_SECONDS / 4)
                browser.eventually("both agents are shown", "document.querySelectorAll('#agent-rows tr').length === 2")
                take(browser, target)
            finally:
                browser.close()
        finally:
            laboratory.enough()
            for agent in agents:
                agent.terminate()
            for process in jobs + agents:
                process.wait()
            if dashboard is not None:
                dashboard.terminate()
                dashboard.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
