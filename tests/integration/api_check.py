#!/usr/bin/env python3
"""schemathesis against a live daemon, for scripts/api-check.sh, which says what it checks.

    api_check.py PROGRAMS ENVIRONMENT [--examples N] [--seed N]

ENVIRONMENT is the virtual environment that has schemathesis.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from live_daemons import Daemon, eventually
from live_job import Ranks

# What schemathesis is told besides the document. Some of what it draws for a path's parameters is what
# there is, or it would never get beyond 404. Not drawn: a stream of events, since schemathesis reads each
# answer to its end; the end of the token that it uses itself; and a body behind GET, HEAD and DELETE, which is
# refused for its own sake before the method is looked at.
HOOKS = '''
import json
import os

import schemathesis

THERE_IS = json.loads(os.environ["API_CHECK_THERE_IS"])
OWN_TOKENS = json.loads(os.environ["API_CHECK_TOKENS"])
drawn = 0


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    global drawn
    drawn += 1
    if drawn % 2:
        for name, value in THERE_IS.items():
            if name in (path_parameters or {}):
                path_parameters[name] = value
    return path_parameters


@schemathesis.hook
def filter_case(context, case):
    if str((case.query or {}).get("follow", "")).lower() == "true":
        return False
    if "event-stream" in (case.headers or {}).get("Accept", ""):
        return False
    bodiless = case.method.upper() in ("GET", "HEAD", "DELETE")
    if bodiless and type(case.body).__name__ != "NotSet":
        return False
    ends = case.method.upper() == "DELETE"
    return not ends or (case.path_parameters or {}).get("id") not in OWN_TOKENS
'''
# The daemon allows a caller 50 requests a second; above it answers 429, which tells nothing new.
RATE = "40/s"
# Checks that do not apply. positive_data_acceptance and negative_data_rejection: the document's texts have
# a form that JSON Schema does not say (a type of event that there is, a tenant's number), and an unknown
# parameter of a query is refused by some routes and ignored by others.
# unsupported_method: to a tenant, the operators' paths do not exist, whatever the method.
NOT_CHECKED = "positive_data_acceptance,negative_data_rejection"
NOT_CHECKED_FOR_TENANTS = NOT_CHECKED + ",unsupported_method"


def work_on(library, communicator, _):
    """A rank's work, until told that it is enough."""
    del library
    rounds = 0
    leaves = False
    while not leaves:
        if communicator.all_reduce(256) != 2:
            raise AssertionError("a sum is wrong")
        rounds += 1
        time.sleep(0.01)
        # The ranks end together, whichever sees the file first.
        leaves = communicator.all_reduce(1, first=int(os.path.exists(os.environ["ENOUGH"]))) > 0
    communicator.destroy()
    return rounds


def run_schemathesis(options, folder, daemon, scope, token, job):
    reports = options.environment / "reports"
    reports.mkdir(exist_ok=True)
    hooks = folder / "hooks_of_api_check.py"
    hooks.write_text(HOOKS)
    words = [str(options.environment / "bin" / "schemathesis"), "run",
             f"http://127.0.0.1:{daemon.port}/v1/openapi.json",
             "--url", f"http://127.0.0.1:{daemon.port}",
             "--header", f"Authorization: Bearer {token}", "--checks", "all",
             "--exclude-checks", NOT_CHECKED_FOR_TENANTS if scope == "tenant" else NOT_CHECKED,
             "--suppress-health-check", "filter_too_much", "--rate-limit", RATE, "--request-timeout", "20",
             "--max-examples", str(options.examples), "--continue-on-failure", "--no-color",
             "--report", "junit", "--report-junit-path", str(reports / f"{scope}.xml")]
    if options.seed is not None:
        words += ["--seed", str(options.seed)]
    print(f"== as {scope}", flush=True)
    tokens = daemon.as_operator("GET", "/v1/tokens").json()["tokens"]
    environment = dict(
        os.environ, SCHEMATHESIS_HOOKS=hooks.stem, PYTHONPATH=str(folder),
        API_CHECK_TOKENS=json.dumps([one["id"] for one in tokens]),
        API_CHECK_THERE_IS=json.dumps({"job": job, "host": "this", "type": "rank.late",
                                       "version": "1"}))
    return subprocess.run(words, env=environment, cwd=folder, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("environment", type=lambda path: pathlib.Path(path).absolute())
    parser.add_argument("--examples", type=int, default=60)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    well = True
    with tempfile.TemporaryDirectory(prefix="harmonaize-api-") as name:
        folder = pathlib.Path(name)
        daemon = Daemon(options.programs, folder, 0)
        ranks = Ranks(options.programs.parent / "lib" / "libnccl.so.2", [daemon.socket] * 2, work_on,
                      environment={"HARMONAIZE_JOB": "a job", "ENOUGH": str(folder / "enough")})
        try:
            job = eventually("the job is there", lambda: daemon.as_tenant(
                "GET", "/v1/jobs").json()["jobs"])[0]["id"]
            for scope in ("tenant", "operator", "operator-read-only"):
                order = {"tenant": str(os.getuid())} if scope == "tenant" else {}
                token = daemon.new_token(scope=scope, days=1, **order)
                well &= run_schemathesis(options, folder, daemon, scope, token, job)
                still = daemon.over_tcp("GET", "/v1/jobs", token).status
                if still != 200:
                    print(f"the token is worth {still} afterwards")
                    well = False
        finally:
            (folder / "enough").touch()
            ended = ranks.wait(60)
            daemon.stop()
    print(f"the job's ranks made {' and '.join(ranks.said)} rounds meanwhile")
    well &= ended and ranks.statuses == [0, 0]
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
