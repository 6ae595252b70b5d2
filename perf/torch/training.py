"""Times steps of data-parallel training over several backends in one run, and what of the exchange they hide.

    build/torch-venv/bin/python perf/torch/training.py
    build/torch-venv/bin/python perf/torch/training.py --ranks 2 --networks 100m

The networks are that of examples/torch_ddp ("digits") and one of 100 million parameters ("100m"). "compute" is a step
without exchange of gradients, "alone" the all-reduces of as many bytes in buckets of 25 MiB one after the other.
"hidden" is the part of "alone" that the backward pass hides: 100% means that a step takes no longer than "compute".
Backends take turns, and a cell is the median over rounds of the slowest rank's milliseconds.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import typing

import gang

BUCKET_BYTES = 25 << 20  # DistributedDataParallel's default


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (default: 2,4)")
    parser.add_argument("--networks", default="digits,100m", help="default: digits,100m")
    parser.add_argument("--backends", default="gloo,harmonaize", help="default: gloo,harmonaize")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    gang.add_launch_option(parser)
    return parser.parse_args()


def slowest_ms(answers: list[dict[str, typing.Any]]) -> float:
    """Returns the milliseconds of the slowest rank."""
    errors = [answer["error"] for answer in answers if "error" in answer]
    if errors:
        raise SystemExit(errors[0])
    return float(max(answer["seconds"] for answer in answers)) * 1e3


def alone_ms(ranks: gang.Gang, size: int) -> float:
    """Returns the milliseconds of all-reduces of so many bytes, in buckets. DDP's memory is the backend's own."""
    memory = "registered" if ranks.backend == "harmonaize" else "plain"
    bucket = min(size, BUCKET_BYTES)
    order = {"kind": "collective", "collective": "all_reduce", "size": bucket, "memory": memory, "mode": "sync"}
    calls = -(-size // bucket)
    return slowest_ms(ranks.order(**order, calls=calls)) * calls


def measure(ranks: gang.Gang, network: str, times: dict[str, list[float]]) -> None:
    """Adds one round of a backend."""
    order = {"kind": "training", "network": network, "steps": 20 if network == "digits" else 2}
    size = ranks.order(**order, exchange=True)[0].get("bytes", 0)  # the warm-up
    times["compute"].append(slowest_ms(ranks.order(**order, exchange=False)))
    times["step"].append(slowest_ms(ranks.order(**order, exchange=True)))
    times["alone"].append(alone_ms(ranks, size))


def row_of(times: dict[str, list[float]], first_step: float) -> str:
    """Returns the columns of one backend."""
    compute, step, alone = (statistics.median(times[what]) for what in ("compute", "step", "alone"))
    hidden = min(1.0, max(0.0, 1 - (step - compute) / alone))
    return f"{compute:.1f} | {alone:.1f} | {step:.1f} ({first_step / step:.2f}) | {hidden:.0%}"


def run(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    """Measures all, and prints it."""
    backends = arguments.backends.split(",")
    print(
        "| ranks | network | backend | compute | alone | step | hidden |\n|---:|---|---|---:|---:|---:|---:|",
        flush=True,
    )
    for ranks in (int(word) for word in arguments.ranks.split(",")):
        gangs = gang.start_gangs(backends, ranks, arguments.launch, folder)
        for network in arguments.networks.split(","):
            times: dict[str, dict[str, list[float]]] = {
                name: {"compute": [], "step": [], "alone": []} for name in backends
            }
            for turn in range(arguments.rounds):
                for name in backends[turn % len(backends) :] + backends[: turn % len(backends)]:
                    measure(gangs[name], network, times[name])
            first = statistics.median(times[backends[0]]["step"])
            for name in backends:
                print(f"| {ranks} | {network} | {name} | {row_of(times[name], first)} |", flush=True)
        for one in gangs.values():
            one.end()


def main() -> None:
    """Measures and prints."""
    arguments = parse_arguments()
    with gang.folder_with_daemon(arguments.launch) as folder:
        run(arguments, folder)


if __name__ == "__main__":
    main()
