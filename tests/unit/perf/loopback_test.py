#!/usr/bin/env python3
"""Runs the benchmark programs, linked with a NCCL of scalar loops, through their options.

Arguments: the programs. Each must accept what is right, and see each fault that the NCCL injects.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

ROW = re.compile(r"^ +\d+ +\d+ +\w+ +\w+ +-?\d+ ")


def run(program, *options, fault=None):
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    if fault:
        environment["PERF_LOOPBACK_FAULT"] = fault
    return subprocess.run([program, *options], env=environment, capture_output=True, text=True,
                          timeout=120)


def expect(condition, what, result):
    if not condition:
        sys.exit(f"{what}\n{' '.join(result.args)}\nstatus {result.returncode}\n"
                 f"{result.stdout}{result.stderr}")


def rows(result):
    return [line.split() for line in result.stdout.splitlines() if ROW.match(line)]


def check_right(program, quick):
    sweep = ["-n", "2", "-w", "1", "-m", "2"]
    # All operators once, and then the one that uses all that there is.
    for ranks, operators in ((["-t", "3", "-p", "1"], "all"), (["-g", "3"], "mulsum"),
                             (["-t", "2", "-g", "2", "-r", "all"], "mulsum"), ([], "mulsum")):
        result = run(program, *ranks, *sweep, "-b", "0", "-e", "2048", "-i", "1000", "-d", "all",
                     "-o", operators)
        expect(result.returncode == 0, "a right result was refused", result)
        expect("Out of bounds values : 0 OK" in result.stdout, "no footer", result)
        expect(len(rows(result)) >= 12 * 3, "rows are missing", result)
    for extra in () if quick else (["-z", "1"], ["-y", "1"], ["-R", "1"], ["-R", "2"], ["-C", "1"],
                                   ["-a", "3"], ["-N", "2"], ["-c", "0"], ["-T", "60"]):
        result = run(program, "-t", "2", *sweep, "-b", "4K", "-e", "128K", "-f", "4", *extra)
        expect(result.returncode == 0, "an option does not work", result)


def check_wrong(program, quick):
    point_to_point = "sendrecv" in program
    for fault in ("element", "outside", "input"):
        if point_to_point:
            continue  # the faults are injected into collectives
        result = run(program, "-t", "2", "-b", "1K", "-e", "1K", "-n", "1", fault=fault)
        expect(result.returncode == 1, f"fault '{fault}' was not seen", result)
        expect("FAILED" in result.stdout, "the footer does not say so", result)
        wrong = rows(result)[0][8]
        expect(wrong not in ("0", "N/A"), "#wrong does not say so", result)
    if quick:
        return
    result = run(program, "-t", "2", "-b", "1K", "-e", "1K", "-T", "1", fault="hang")
    expect(result.returncode == 1 and "within 1 s" in result.stderr, "a hang was not ended", result)
    result = run(program, "-t", "2", "-b", "1K", "-e", "1K", fault="refuse")
    expect(result.returncode == 1, "a rank that gave up kept the others waiting", result)


def check_options(program):
    for options, text in ((["-G", "1"], "CUDA graph"), (["-b", "2", "-e", "1"], "more than"),
                          (["-d", "flaot"], "float"), (["-o", "maxx"], "max"), (["-r", "x"], "-r"),
                          (["-b", "1T"], "suffix"), (["-t", "65536", "-g", "65536"], "ranks"),
                          (["--no-such"], "no-such")):
        result = run(program, *options)
        expect(result.returncode == 2 and text in result.stderr, f"no word of {text}", result)
    help_text = run(program, "--help")
    expect(help_text.returncode == 0 and "Examples" in help_text.stdout, "no help", help_text)


def check_root(program):
    """Where there is no root, -r is accepted and means nothing."""
    rooted = any(name in program for name in ("broadcast", "gather_perf", "reduce_perf",
                                              "scatter_perf"))
    rooted = rooted and not any(name in program for name in ("all_", "reduce_scatter"))
    result = run(program, "-r", "9", "-b", "1K", "-e", "1K", "-n", "1")
    expect(result.returncode == (1 if rooted else 0), "-r 9", result)


def check_json(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        result = run(program, "-t", "2", "-b", "1K", "-e", "4K", "-f", "2", "-n", "3", "-J", path)
        expect(result.returncode == 0, "no JSON", result)
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    sizes = [row["size"] for row in record["results"]]
    expect(sizes == [1024, 2048, 4096], f"JSON has sizes {sizes}", result)
    expect(record["ranks"] == 2 and record["config"]["iterations"] == 3, "JSON is wrong", result)
    expect(record["results"][0]["out_of_place"]["nwrong"] == 0, "JSON has no nwrong", result)


def main():
    for number, program in enumerate(sys.argv[1:]):
        quick = number > 0  # what all programs share is tried with the first
        check_right(program, quick)
        check_wrong(program, quick)
        check_root(program)
        if not quick:
            check_options(program)
            check_json(program)
        print(os.path.basename(program), "ok", flush=True)


if __name__ == "__main__":
    main()
