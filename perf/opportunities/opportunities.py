#!/usr/bin/env python3
"""Runs representative jobs with and without cooperation with the provider, and tells what it brings: see --help."""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import signal
import statistics
import sys
import typing

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "compare")]

from comparison import machine  # type: ignore[import-not-found]  # noqa: E402
from comparison.programs import adopt_orphans  # type: ignore[import-not-found]  # noqa: E402
from experiments.adapt import Adapt  # noqa: E402
from experiments.adapt_ranks import AdaptRanks  # noqa: E402
from experiments.compression import Compression  # noqa: E402
from experiments.elastic import Elastic  # noqa: E402
from experiments.experiment import Experiment, Settings  # noqa: E402
from experiments.failures import Failures  # noqa: E402
from experiments.floor import Floor  # noqa: E402
from experiments.laboratory import LaboratoryError, why_not_here  # noqa: E402
from experiments.measure import Measure, Measures, table  # noqa: E402
from experiments.mix import Mix  # noqa: E402
from experiments.serving_beside_training import ServingBesideTraining  # noqa: E402

SKIPPED = 77
INTERRUPTED = 130  # As a shell tells of a program that SIGINT ended.

EXPERIMENTS: tuple[Experiment, ...] = (
    ServingBesideTraining(spinning=False), ServingBesideTraining(spinning=True), Compression("bf16"),
    Compression("fp8"), Floor(), Mix("priority"), Mix("floors"),
    Adapt(tuned=False), Adapt(tuned=True), AdaptRanks("ranks"), AdaptRanks("batch"), AdaptRanks("both"), Elastic(),
    Failures(10, 60), Failures(20, 80), Failures(60, 120))

EPILOGUE = """\
Each run has a laboratory of its own: emulated hosts, links of a fixed rate, and a daemon at each
host (docs/laboratory.md). "Without", jobs state nothing and follow nothing. "With", they state
requirements (docs/requirements.md), and follow advice. The provider's configuration is the same
in both, and so are seeds. The runs take turns, so that what disturbs the machine disturbs all alike.

The table has the median of the runs, the least and the largest one in parentheses, and the ratio of
the medians. "better" and "worse" stand where all runs with are on one side of all runs without;
"no difference" where they overlap. docs/opportunities.md tells what the figures show, and what not.

Exit status: 0 if all ran; 1 if a run failed; 2 for a wrong command line; 77 where the laboratory
cannot be used (it needs root).

Examples:
  sudo perf/opportunities/opportunities.py
  sudo perf/opportunities/opportunities.py serving-beside-training floor --runs 5 --json out.json
  sudo perf/opportunities/opportunities.py adapt --slow-to 0.25
"""


def parse(words: typing.Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    names = [experiment.name for experiment in EXPERIMENTS]
    parser = argparse.ArgumentParser(
        prog="opportunities.py", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOGUE,
        description="Runs representative jobs in the laboratory with and without cooperation with the provider, "
                    "and prints cost, time and tail of both.")
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT",
                        help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--runs", type=int, default=3, help="with and without, in turns (default: 3)")
    parser.add_argument("--seconds", type=float, default=10,
                        help="for which jobs beside each other are measured (default: 10)")
    parser.add_argument("--slow-to", type=float, default=0.5, metavar="PART",
                        help="adapt: the part of their rate that links keep (default: 0.5)")
    parser.add_argument("--quick", action="store_true",
                        help="one short run each, to see that all works; its figures mean nothing")
    parser.add_argument("--json", metavar="FILE", help="also write a document; - for standard output alone")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "release" / "bin",
                        help="folder of the programs (default: build/release/bin)")
    options = parser.parse_args(words)
    unknown = sorted(set(options.experiments) - set(names))
    if unknown:
        parser.error(f"there is no experiment '{unknown[0]}': it is one of {', '.join(names)}")
    if options.runs < 1 or options.seconds <= 0 or not 0 < options.slow_to < 1:
        parser.error("--runs is 1 or more, --seconds above 0, and --slow-to between 0 and 1")
    if options.quick:
        options.runs = 1
    return options


def run_experiment(experiment: Experiment, settings: Settings) -> tuple[list[Measure], dict[str, typing.Any]]:
    """Runs all turns; returns the measures, and what was said of the experiment for JSON."""
    settings.say(f"{experiment.name} ({experiment.opportunity}): {experiment.words}")
    measures = Measures(experiment.name, experiment.opportunity)
    others: list[float] = []
    for turn in range(settings.runs):
        arms = list(experiment.arms(settings))
        for arm in arms[turn % len(arms):] + arms[:turn % len(arms)]:
            settings.say(f"{experiment.name}: run {turn + 1} of {settings.runs}, {arm}")
            load = machine.Load()
            experiment.run(settings, arm, turn, measures)
            others.append(load.since_last()["others"])
    return measures.all(), {"name": experiment.name, "opportunity": experiment.opportunity,
                            "words": experiment.words, "others": others, "curves": measures.curves()}


def run_all(options: argparse.Namespace, say: typing.Callable[[str], None]) -> dict[str, typing.Any]:
    """Runs what was asked for; returns the document. What fails is told in it, and the others go on."""
    settings = Settings(programs=options.programs.absolute(), fabrics=ROOT / "perf" / "fabric" / "fabrics",
                        runs=options.runs, quick=options.quick, seconds=options.seconds,
                        slow_to=options.slow_to, say=say)
    document: dict[str, typing.Any] = {
        "version": 1, "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine.describe(), "runs": options.runs, "quick": options.quick, "experiments": [],
        "measures": [], "errors": {}}
    measures: list[Measure] = []
    for experiment in EXPERIMENTS:
        if options.experiments and experiment.name not in options.experiments:
            continue
        try:
            found, told = run_experiment(experiment, settings)
        except LaboratoryError as error:
            say(f"{experiment.name} has failed: {error}")
            document["errors"][experiment.name] = str(error)
            continue
        measures += found
        document["experiments"].append(told)
    document["measures"] = [measure.document() for measure in measures]
    document["table"] = table(measures)
    return document


def main(words: typing.Sequence[str]) -> int:
    """Runs the program; returns its exit status."""
    options = parse(words)
    if reason := why_not_here(options.programs.absolute()):
        print(f"opportunities.py: skipped: {reason}", file=sys.stderr)
        return SKIPPED
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # What is up is taken down then, too.
    adopt_orphans()  # Daemons' processor time is ours, and not that of other programs.
    alone = options.json == "-"
    said_to = sys.stderr if alone else sys.stdout
    try:
        document = run_all(options, lambda text: print(f"# {text}", file=said_to, flush=True))
    except KeyboardInterrupt:
        return INTERRUPTED
    if alone:
        print(json.dumps(document, indent=1))
    else:
        print("\n".join(document["table"]))
        busy = [share for told in document["experiments"] for share in told["others"]]
        if busy:
            print(f"# other programs used {statistics.median(busy):.0%} of the processors, "
                  f"{max(busy):.0%} in the busiest run")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if document["errors"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
