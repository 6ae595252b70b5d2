r"""Times collectives of torch.distributed over several backends in one run, and prints a table with ratios.

    build/torch-venv/bin/python perf/torch/collectives.py
    build/torch-venv/bin/python perf/torch/collectives.py --ranks 4 --sizes 1K,64K,25M --collectives all_reduce

For each number of ranks there are as many processes for each backend, which sleep while another one is measured. The
series take turns within each round, so all of them see the same machine. A cell is the median over rounds of the
slowest rank's time for one call, in microseconds; in brackets is how many times as fast as the first series that is.
"registered" stands for memory from harmonaize_torch.empty, "plain" for ordinary tensors. In the mode "async" a call is
made with async_op=True and waited for at once.

The size is that of the larger side: of the output of all_gather, and of the input of reduce_scatter. A daemon is
started for the run, unless HARMONAIZE_SOCKET names one. Ranks elsewhere are started by a launcher that sets RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT, such as that of the laboratory:

    build/torch-venv/bin/python perf/torch/collectives.py --ranks 2 \
        --launch 'harmonaize=fabric run -n {ranks} --hosts host0,host1 --no-preload --' \
        --launch 'gloo=env GLOO_SOCKET_IFNAME=nic0 fabric run -n {ranks} --hosts host0,host1 --no-preload --daemon none --'
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import typing

import gang

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
SIZES = "1K,8K,64K,512K,4M,25M,64M,256M"
# Time that the calls of one measurement take together, in seconds, as far as it is known before.
MEASURED_SECONDS = 0.15
MOST_CALLS = 2000
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclasses.dataclass(frozen=True)
class Series:
    """What is measured beside the others."""

    backend: str
    memory: str

    @property
    def name(self) -> str:
        """How tables call it."""
        return self.backend if self.backend != "harmonaize" else f"harmonaize, {self.memory}"


ALL_SERIES = (Series("gloo", "plain"), Series("harmonaize", "registered"), Series("harmonaize", "plain"))


def bytes_of(text: str) -> int:
    """Returns the size that a word such as 64K says."""
    unit = text[-1].upper() if text[-1].isalpha() else ""
    return int(text[: len(text) - len(unit)]) * UNITS[unit]


def text_of(size: int) -> str:
    """Returns the word for a size."""
    for unit in ("G", "M", "K"):
        if size >= UNITS[unit] and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}"
    return str(size)


def measure(ranks: gang.Gang, **order: typing.Any) -> float | None:
    """Returns the slowest rank's seconds for one call; None where the backend does not have the collective."""
    answers = ranks.order(kind="collective", **order)
    errors = [answer["error"] for answer in answers if "error" in answer]
    if errors:
        print(f"{ranks.backend}, {order['collective']}: {errors[0]}", file=sys.stderr)
        return None
    return float(max(answer["seconds"] for answer in answers))


def calls_for(ranks: gang.Gang, order: dict[str, typing.Any]) -> int:
    """Returns how many calls fill a measurement; 0 where there is none. They are the warm-up as well."""
    if measure(ranks, **order, calls=2) is None:
        return 0
    once = measure(ranks, **order, calls=3)
    return 0 if once is None else max(2, min(MOST_CALLS, int(MEASURED_SECONDS / max(once, 1e-7))))


def measure_cell(
    gangs: dict[str, gang.Gang], series: list[Series], order: dict[str, typing.Any], rounds: int
) -> dict[str, float | None]:
    """Returns the median microseconds of each series, which take turns."""
    found: dict[str, list[float]] = {one.name: [] for one in series}
    calls = {one.name: calls_for(gangs[one.backend], {**order, "memory": one.memory}) for one in series}
    for turn in range(rounds):
        for one in series[turn % len(series) :] + series[: turn % len(series)]:
            if calls[one.name] == 0:
                continue
            ranks = gangs[one.backend]
            # The memory of another series was measured in between.
            measure(ranks, **order, memory=one.memory, calls=2)
            seconds = measure(ranks, **order, memory=one.memory, calls=calls[one.name])
            if seconds is not None:
                found[one.name].append(seconds * 1e6)
    return {name: statistics.median(times) if times else None for name, times in found.items()}


def row_of(cell: dict[str, float | None], series: list[Series]) -> str:
    """Returns the columns of a cell."""
    first = cell[series[0].name]
    columns = []
    for one in series:
        time_us = cell[one.name]
        ratio = "" if first is None or time_us is None or one is series[0] else f" ({first / time_us:.1f})"
        columns.append("-" if time_us is None else f"{time_us:.1f}{ratio}")
    return " | ".join(columns)


def run(arguments: argparse.Namespace, folder: pathlib.Path) -> list[dict[str, typing.Any]]:
    """Measures all cells, and prints them as they come."""
    series = [one for one in ALL_SERIES if one.backend in arguments.backends.split(",")]
    results: list[dict[str, typing.Any]] = []
    print("| ranks | collective | mode | bytes | " + " | ".join(one.name for one in series) + " |")
    print("|---:|---|---|---:|" + "---:|" * len(series), flush=True)
    for ranks in (int(word) for word in arguments.ranks.split(",")):
        gangs = gang.start_gangs(sorted({one.backend for one in series}), ranks, arguments.launch, folder)
        for collective in arguments.collectives.split(","):
            for mode in arguments.modes.split(","):
                for size in (bytes_of(word) for word in arguments.sizes.split(",")):
                    order = {"collective": collective, "size": size, "mode": mode}
                    cell = measure_cell(gangs, series, order, arguments.rounds)
                    print(f"| {ranks} | {collective} | {mode} | {text_of(size)} | {row_of(cell, series)} |", flush=True)
                    results.append({"ranks": ranks, **order, "microseconds": cell})
        for one_gang in gangs.values():
            one_gang.end()
    return results


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (default: 2,4)")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES), help=f"default: {','.join(COLLECTIVES)}")
    parser.add_argument("--sizes", default=SIZES, help=f"in bytes, with K, M or G (default: {SIZES})")
    parser.add_argument("--modes", default="sync,async", help="default: sync,async")
    parser.add_argument("--backends", default="gloo,harmonaize", help="default: gloo,harmonaize")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of a cell (default: 5)")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results as JSON")
    gang.add_launch_option(parser)
    return parser.parse_args()


def main() -> None:
    """Measures and prints."""
    arguments = parse_arguments()
    with gang.folder_with_daemon(arguments.launch) as folder:
        results = run(arguments, folder)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
