#!/usr/bin/env python3
"""compare_jobs: what it reckons, what it asks for, and three jobs in a laboratory.

    compare_jobs_test.py PROGRAMS FABRICS

PROGRAMS is the folder of the programs, FABRICS that of fabric files. Exit status 77: the laboratory
cannot be used here.
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(sys.argv[1])
FABRICS = pathlib.Path(sys.argv[2])


def load(path):
    loader = importlib.machinery.SourceFileLoader("compare_jobs", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare_jobs", loader))
    loader.exec_module(module)
    return module


def check_reckoning(module):
    assert module.jain([3, 3, 3]) == 1
    assert abs(module.jain([1, 0, 0]) - 1 / 3) < 1e-9
    jobs = [module.Job(0, "user=5,weight=3"), module.Job(1, "user=6"), module.Job(2, "user=6,size=1M")]
    assert module.due(jobs, 80, [None] * 3) == [60, 10, 10]
    # Who does not want its share leaves it to the others.
    assert module.due(jobs, 80, [30, 100, 12]) == [30, 38, 12]
    assert module.due(jobs, 80, [10, 10, 10]) == [10, 10, 10]
    rows = [[{"unix_seconds": 10 + i, "interval_seconds": 1, "bytes_per_second": 100} for i in range(9)],
            [{"unix_seconds": 12 + i, "interval_seconds": 1, "bytes_per_second": i} for i in range(9)]]
    assert module.rates(rows) == [100, 3.5], module.rates(rows)
    assert 'user = "5"\nweight = 3.0' in module.provider_configuration(jobs)


def run(*words):
    return subprocess.run([PROGRAMS / "compare_jobs", *words], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_wrong_words():
    for words in (["--job", "colour=red"], ["--job", "weight=0"], ["--job", "user=me"],
                  ["--job", "kind=gossip"]):
        done = run(str(FABRICS / "one-rack.toml"), *words)
        assert done.returncode == 2, done
        assert words[1].split("=")[0] in done.stderr, done.stderr
    done = run("/nowhere.toml", "--job", "size=8M")
    assert done.returncode == 1 and "/nowhere.toml" in done.stderr, done


def check_unbuilt_programs():
    """Beside a build of a part, what is missing is named, and the command that builds it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(PROGRAMS / "compare_jobs", folder)
        (pathlib.Path(folder) / "harmonaized").touch()
        done = subprocess.run([copy, str(FABRICS / "one-rack.toml"), "--job", "size=8M"], text=True,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 1 and "has no fabric and no timeline_perf" in done.stderr, done
        assert "--target fabric timeline_perf" in done.stderr, done


def check_jobs():
    """They run as users of their own, side by side. How fast is no matter here."""
    done = run(str(FABRICS / "one-rack.toml"), "--json", "--seconds", "5", "--job", "size=256K,weight=2",
               "--job", "size=1M,kind=all_gather", "--job", "user=1001,size=256K,hosts=host0+host1")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [job["user"] for job in result["jobs"]] == [1001, 1002, 1001]
    assert all(job["bytes_per_second"] > 0 for job in result["jobs"]), result
    assert 0 < result["jain"] <= 1


if __name__ == "__main__":
    check_reckoning(load(PROGRAMS / "compare_jobs"))
    check_wrong_words()
    check_unbuilt_programs()
    reachable = load(PROGRAMS / "compare_jobs").others_can_run(PROGRAMS.resolve() / "timeline_perf")
    if os.geteuid() != 0 or shutil.which("setpriv") is None or not reachable:
        sys.exit(77)
    check_jobs()
