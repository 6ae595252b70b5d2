#!/usr/bin/env python3
"""Checks NCCL's plugins under stock NCCL, as PyTorch brings it: two processes on one GPU, each with a host id of its
own, so that NCCL takes them for two hosts and sends over a network. scripts/gpu-checks.sh runs it. Exits with 0 where
the claim holds, and prints one line that says what was seen.

    plugin_checks.py net | tuner | profiler | cost | env

HARMONAIZE_PROGRAM names the command line; the plugins' libraries lie in ../lib/nccl-plugins beside it. What begins with
"rank_" is the part of one process, which a check starts.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import nccl_log

NAME = "Harmonaize"
RANKS = 2
# Two processes share the GPU in slices of time, and each step of a collective waits for the other's slice: few
# operations of few bytes.
CALLS = 20
SIZES = [1 << 10, 1 << 16, 1 << 22]
SECONDS_OF_RANKS = 100
NO_PLUGINS = {f"NCCL_{kind}_PLUGIN": "none" for kind in ("NET", "TUNER", "PROFILER")}
JOB = "gpu-checks"


# ----------------------------------------------------------------------------------------------------------------------
# Starting ranks


def program():
    return pathlib.Path(os.environ["HARMONAIZE_PROGRAM"])


def run_ranks(part, settings, ranks=RANKS, daemon="private"):
    """Has so many processes do `part`, at a daemon of their own, and returns the line that rank 0 ends with."""
    plugins = program().parent.parent / "lib" / "nccl-plugins"
    path = os.pathsep.join(filter(None, [str(plugins), os.environ.get("LD_LIBRARY_PATH")]))
    variables = {"LD_LIBRARY_PATH": path, **NO_PLUGINS, **settings}
    command = [program(), "run", f"--daemon={daemon}", "--timeout", SECONDS_OF_RANKS, "--no-preload", "--no-prefix",
               "--name", JOB, "-n", ranks]
    for name, value in variables.items():
        command += ["--env", f"{name}={value}"]
    command += ["--", sys.executable, os.path.abspath(__file__), part]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = done.stdout.splitlines() or [""]
    if done.returncode != 0:
        said = (done.stdout + done.stderr).splitlines()[-5:]
        sys.exit(f"{part} ended with status {done.returncode}: " + " / ".join(said))
    return lines[-1]


def ask_daemon(*words):
    """What the daemon answers to a command, as JSON."""
    return json.loads(subprocess.run([str(program()), *words, "--json"], check=True, capture_output=True,
                                     text=True).stdout)


# ----------------------------------------------------------------------------------------------------------------------
# What ranks do


@contextlib.contextmanager
def stock_nccl():
    """Makes the process group, with NCCL's log in a file. Yields torch, torch.distributed, this process's rank, and a
    function that returns the log up to now."""
    rank = int(os.environ["RANK"])
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "nccl.log"
        # NCCL refuses two ranks on one GPU of one host, and takes hosts with two ids for two. Ids of hosts that NVLink
        # connects would be looked at, too.
        os.environ.update(NCCL_HOSTID=f"gpu-checks-{rank}", NCCL_MNNVL_ENABLE="0", NCCL_DEBUG="INFO",
                          NCCL_DEBUG_SUBSYS="INIT,ENV,NET,TUNING,BOOTSTRAP", NCCL_DEBUG_FILE=str(log))
        import torch
        import torch.distributed as dist

        torch.cuda.set_device(0)
        dist.init_process_group("nccl")
        yield torch, dist, rank, lambda: log.read_text() if log.exists() else ""
        dist.destroy_process_group()


def reduce_and_check(torch, dist, rank, count):
    """An all-reduce of floats that are the same in any order of the ranks. Returns its seconds."""
    data = torch.arange(count, dtype=torch.float32, device="cuda") % 1024 + rank
    torch.cuda.synchronize()
    begun = time.perf_counter()
    dist.all_reduce(data)
    torch.cuda.synchronize()
    took = time.perf_counter() - begun
    size = dist.get_world_size()
    expected = size * (torch.arange(count, dtype=torch.float32, device="cuda") % 1024) + size * (size - 1) // 2
    if not torch.equal(data, expected):
        sys.exit(f"an all-reduce of {count} floats has a wrong result")
    return took


def reduce_all_sizes(torch, dist, rank, calls=CALLS):
    for size in SIZES:
        for _ in range(calls):
            reduce_and_check(torch, dist, rank, size // 4)


def require_plugin(log, kind):
    """Returns how NCCL names plugin, interface and its own version. Ends the process where another one is used."""
    names = nccl_log.used(log, kind)
    if NAME not in names:
        sys.exit(f"NCCL's {kind} plugins are {names}, and {NAME} is none of them")
    return f"NCCL {nccl_log.release(log) or '?'}, {kind} {nccl_log.interface(log, kind) or 'of a version it does not say'}"


def carriers(status):
    """The communicators in the daemon's status that carry NCCL's connections."""
    return [one for tenant in status["tenants"] for one in tenant["communicators"] if one["name"] == "nccl-net"]


def rank_net():
    with stock_nccl() as (torch, dist, rank, log):
        reduce_all_sizes(torch, dist, rank)
        whole = torch.full((SIZES[-1],), float(rank), device="cuda")
        dist.broadcast(whole, src=1)
        if whole[0].item() != 1 or whole[-1].item() != 1:
            sys.exit("a broadcast has a wrong result")
        dist.barrier()
        status = ask_daemon("status")
        # Neither ends its connections before the other has asked.
        dist.barrier()
        found = require_plugin(log(), "net")
        ways = nccl_log.channels(log())
        if set(ways) != {f"NET/{NAME}"}:
            sys.exit(f"NCCL's channels go by {ways or 'nothing'}")
        carried = sum(one["operations"] for one in carriers(status))
        if carried == 0:
            sys.exit(f"the daemon has carried no message: it shows {len(carriers(status))} communicators 'nccl-net'")
        if rank == 0:
            print(f"{found}: results are right; {sum(ways.values())} ends of channels; the daemon's communicators "
                  f"'nccl-net' have carried {carried} messages")


def rank_tuner():
    with stock_nccl() as (torch, dist, rank, log):
        reduce_all_sizes(torch, dist, rank, calls=1)
        found = require_plugin(log(), "tuner")
        if rank != 0:
            return
        chosen = nccl_log.choices(log())
        missing = [size for size in SIZES if ("AllReduce", size) not in chosen]
        if missing:
            sys.exit(f"NCCL says of no all-reduce of {missing} bytes what it has chosen")
        told = ", ".join("{} B: {} {} on {}".format(size, *chosen["AllReduce", size]) for size in SIZES)
        print(f"{found}: {told} channels")


def collective_rows(profile):
    """The rows of all-reduces in what the daemon knows of a job."""
    return [row for communicator in profile.get("communicators", []) for row in communicator["rows"]
            if row["kind"] == "collective" and row["function"] == "AllReduce"]


def await_events(wanted, seconds=10):
    """What the daemon knows of this job's all-reduces, once it knows of so many, or after so long."""
    until = time.monotonic() + seconds
    while True:
        rows = collective_rows(ask_daemon("profile", JOB))
        if sum(row["events"] for row in rows) >= wanted or time.monotonic() > until:
            return rows
        time.sleep(0.2)


def rank_profiler():
    with stock_nccl() as (torch, dist, rank, log):
        reduce_all_sizes(torch, dist, rank)
        dist.barrier()
        found = require_plugin(log(), "profiler")
        wanted = RANKS * CALLS * len(SIZES)
        rows = await_events(wanted)
        events = sum(row["events"] for row in rows)
        dist.barrier()
        if events < wanted:
            sys.exit(f"the daemon knows of {events} all-reduces, and the ranks have made {wanted}")
        if rank == 0:
            timed = sum(row["events"] for row in rows if row["timed"] == "gpu")
            kinds = sorted({(row["algorithm"], row["protocol"]) for row in rows}, key=str)
            print(f"{found}: {events} all-reduces, {timed} of them timed by the GPU, as {kinds}")


def rank_measure():
    """The median of the seconds of an all-reduce, by bytes, as JSON."""
    with stock_nccl() as (torch, dist, rank, _):
        medians = {}
        for size in (SIZES[0], SIZES[-1]):
            took = sorted(reduce_and_check(torch, dist, rank, size // 4) for _ in range(5 * CALLS))
            medians[size] = took[len(took) // 2]
        if rank == 0:
            print(json.dumps(medians))


def rank_env():
    with stock_nccl() as (torch, dist, rank, log):
        reduce_and_check(torch, dist, rank, 1024)
        found = require_plugin(log(), "env")
        on = nccl_log.bootstrap_interface(log())
        if on != "lo":
            sys.exit(f"the provider sets NCCL_SOCKET_IFNAME=lo, and NCCL meets on {on or 'an interface it does not say'}")
        print(f"{found}: NCCL meets on the interface that the provider sets")


# ----------------------------------------------------------------------------------------------------------------------
# Checks


def net():
    print(run_ranks("rank_net", {"NCCL_NET_PLUGIN": "harmonaize"}))


def tuner():
    print(run_ranks("rank_tuner", {"NCCL_TUNER_PLUGIN": "harmonaize"}))


def profiler():
    print(run_ranks("rank_profiler", {"NCCL_PROFILER_PLUGIN": "harmonaize"}))


def ratios(without, with_plugin):
    """How much longer an all-reduce takes with the plugin, by bytes, as text."""
    return ", ".join(f"{size} B: {with_plugin[size] / without[size]:.2f} ({1e6 * without[size]:.0f} us without)"
                     for size in without)


def cost():
    without, with_plugin = (
        json.loads(run_ranks("rank_measure", {"NCCL_PROFILER_PLUGIN": name})) for name in ("none", "harmonaize"))
    print(f"median time of an all-reduce with the profiler, as a multiple of that without: {ratios(without, with_plugin)}")


@contextlib.contextmanager
def provider(settings):
    """A daemon with these settings for NCCL. Ranks find it by HARMONAIZE_SOCKET."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "provider.toml"
        lines = [f'{name} = "{value}"' for name, value in settings.items()]
        config.write_text("\n".join(["[nccl.settings]", *lines, ""]))
        socket = pathlib.Path(folder) / "harmonaized.sock"
        daemon = subprocess.Popen([str(program().parent / "harmonaized"), "--config", str(config), "--socket",
                                   str(socket)], stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 20
            while not socket.exists():
                if daemon.poll() is not None or time.monotonic() > until:
                    sys.exit("the daemon does not start")
                time.sleep(0.05)
            os.environ["HARMONAIZE_SOCKET"] = str(socket)
            yield
        finally:
            daemon.terminate()
            daemon.wait()


def env():
    with provider({"NCCL_SOCKET_IFNAME": "lo"}):
        print(run_ranks("rank_env", {"NCCL_ENV_PLUGIN": "harmonaize"}, ranks=1, daemon="auto"))


CHECKS = {check.__name__: check for check in (net, tuner, profiler, cost, env)}
PARTS = {part.__name__: part for part in (rank_net, rank_tuner, rank_profiler, rank_measure, rank_env)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in {**CHECKS, **PARTS}:
        sys.exit(f"usage: {sys.argv[0]} {' | '.join(CHECKS)}")
    {**CHECKS, **PARTS}[sys.argv[1]]()
