#!/usr/bin/env python3
"""opportunities.py: what it reckons, what it refuses, and the smallest form of five experiments in a laboratory.

    opportunities_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaized and opportunity_job. Times are not looked at. Exit status 77: the
laboratory cannot be used here.
"""

import json
import math
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "perf" / "opportunities"
sys.path.insert(0, str(FOLDER))

from experiments.elastic_cluster import why_not_elastic  # pylint: disable=wrong-import-position
from experiments.failing_job import make_failures, outcome_of  # pylint: disable=wrong-import-position
from experiments.failure_history import HOST_PRIOR, seen_for  # pylint: disable=wrong-import-position
from experiments.laboratory import LaboratoryError, why_not_here  # pylint: disable=wrong-import-position
from experiments.measure import LESS, MORE, Measures, table  # pylint: disable=wrong-import-position

EXPERIMENTS = ("compression-fp8", "adapt")
# Where NumPy is there.
ELASTIC_EXPERIMENTS = ("adapt-elastic-both", "elastic", "failures-20")


def check_reckoning():
    measures = Measures("one", "O2")
    for arm, values in (("without", (4.0, 5.0, 6.0)), ("with", (2.0, 2.5, 3.0)), ("alone", (1.0,))):
        for value in values:
            measures.add(arm, "time", "ms", LESS, value)
            measures.add(arm, "rate", "MB/s", MORE, value)
            measures.add(arm, "overlapping", "", LESS, value if arm != "with" else value + 1.5)
    measures.add("without", "untold", "ms", LESS, None)
    measures.add("without", "half told", "ms", LESS, 1.0)
    measures.add("with", "half told", "ms", LESS, None)
    time, rate, overlapping, half_told = measures.all()
    assert time.ratio() == 0.5 and time.verdict() == "better", time
    assert rate.verdict() == "worse", rate
    assert overlapping.verdict() == "no difference", overlapping
    assert half_told.ratio() is None and half_told.verdict() == "not told", half_told
    lines = table(measures.all())
    assert lines[2] == "| O2 | one | time, ms; alone 1 | 5 (4 to 6) | 2.5 (2 to 3) | 0.50 | better |", lines[2]
    assert lines[5].split("|")[5].strip() == "-", lines[5]


def steps(begin, first, count):
    """A step each tenth of a second."""
    return [{"event": "step", "unix_seconds": begin + 0.1 * place, "step": first + place} for place in range(count)]


def check_outcome():
    """A job that saves after 10 steps, for 0.5 s, fails 20 steps later, and is back after 2 s."""
    lines = [*steps(100.0, 1, 10), {"event": "saved", "unix_seconds": 101.4, "step": 10, "stall_seconds": 0.5},
             *steps(101.5, 11, 20), {"event": "restored", "unix_seconds": 105.5, "step": 10, "is_whole": True},
             *steps(105.6, 11, 45)]
    outcome = outcome_of(lines, [103.5], 100.0, 110.0)
    assert math.isclose(outcome.step, 0.1, rel_tol=1e-6), outcome
    # 54 steps were kept of those that were made in 10 s.
    assert math.isclose(outcome.goodput, 0.54, rel_tol=1e-6), outcome
    assert (outcome.saves, outcome.stall) == (1, 0.5), outcome
    assert math.isclose(outcome.cost, 0.5, rel_tol=1e-6), outcome
    assert math.isclose(outcome.restart, 2.0) and math.isclose(outcome.lost, 2.0, rel_tol=1e-6), outcome
    assert outcome.failures == (3.5,), outcome
    # Steps that a save slows down are part of its cost.
    late = [dict(line, unix_seconds=line["unix_seconds"] + (0.2 if line["unix_seconds"] > 101.55 else 0))
            for line in lines]
    assert math.isclose(outcome_of(late, [103.5], 100.0, 110.0).cost, 0.7, rel_tol=1e-6)
    try:
        outcome_of([dict(line, is_whole=False) for line in lines], [103.5], 100.0, 110.0)
    except LaboratoryError:
        pass
    else:
        raise AssertionError("a state that is not whole was taken")


def check_failures():
    failures = make_failures(1, 20, 20000, ("a", "b"), 0.25)
    assert failures == make_failures(1, 20, 20000, ("a", "b"), 0.25) != make_failures(2, 20, 20000, ("a", "b"), 0.25)
    assert 900 < len(failures) < 1100, len(failures)
    assert 0.2 < sum(one.is_host for one in failures) / len(failures) < 0.3
    assert {one.host for one in failures} == {"a", "b"}
    times = [one.at for one in failures]
    assert times == sorted(times) and times[-1] < 20000, times
    events, seconds = HOST_PRIOR
    assert math.isclose((events + seen_for(0.01, HOST_PRIOR)) / seconds, 0.01)


def run(*words):
    return subprocess.run([sys.executable, str(FOLDER / "opportunities.py"), *words], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_wrong_words():
    for words, said in ((("flor",), "flor"), (("--runs", "0"), "--runs"), (("--slow-to", "2"), "--slow-to")):
        done = run(*words)
        assert done.returncode == 2 and said in done.stderr, done


def check_experiments(programs):
    done = run(*EXPERIMENTS, "--quick", "--json", "-", "--programs", str(programs))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert not document["errors"], document["errors"]
    assert [one["name"] for one in document["experiments"]] == list(EXPERIMENTS), document["experiments"]
    measures = {(one["experiment"], one["measure"]): one for one in document["measures"]}
    assert {name for name, _ in measures} == set(EXPERIMENTS)
    for key, measure in measures.items():
        for arm in ("without", "with"):
            assert len(measure[arm]) <= 1, (key, measure)
            assert all(math.isfinite(value) and value > 0 for value in measure[arm]), (key, measure)
    for told in document["experiments"]:
        check_curves(told)
    check_training(measures)


def check_elastic_experiments(programs):
    """Trainings go on through offers: all end, and what one rank of them does is done by some rank."""
    done = run(*ELASTIC_EXPERIMENTS, "--quick", "--json", "-", "--programs", str(programs))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert not document["errors"], document["errors"]
    measures = {(one["experiment"], one["measure"]): one for one in document["measures"]}
    assert {name for name, _ in measures} == set(ELASTIC_EXPERIMENTS)
    for arm in ("without", "with"):
        assert measures["adapt-elastic-both", "samples"][arm][0] % 64 == 0, measures
        assert 0 < measures["elastic", "places that train"][arm][0] <= 100, measures
    # Static jobs hear no offer, and the others do: their places are more than they ask for.
    assert "elastic: 0 offers" in done.stderr, done.stderr
    assert "grow by" in done.stderr, done.stderr
    check_failing_job(document)


def check_failing_job(document):
    """It goes on after failures, by both ways to save, with no more work than it had time for."""
    (told,) = (one for one in document["experiments"] if one["name"] == "failures-20")
    assert {curve["arm"] for curve in told["curves"]} == {"write, Young", "memory, advice"}, told
    for curve in told["curves"]:
        (point,) = curve["points"]
        assert point["failures"] >= 1 and 0 <= point["goodput"] < 1, curve
        assert 0 <= point["simulated"] < 1, curve


def check_curves(told):
    """Each run learns something."""
    assert {curve["arm"] for curve in told["curves"]} == {"without", "with"}, told["curves"]
    for curve in told["curves"]:
        losses = [point["loss"] for point in curve["points"]]
        assert len(losses) > 2 and losses[-1] < losses[0] - 0.3, (told["name"], losses)
        seconds = [point["seconds"] for point in curve["points"]]
        assert seconds == sorted(seconds), seconds


def check_training(measures):
    """Compression changes the loss a little at most, and a goal that was reached took samples."""
    loss = measures["compression-fp8", "held-out loss after 20 steps"]
    assert abs(loss["with"][0] - loss["without"][0]) < 0.2 * loss["without"][0], loss
    for arm in ("without", "with"):
        samples = measures["adapt", "samples"][arm][0]
        assert samples % 32 == 0, samples  # Two ranks, of 16 samples a pass.
        assert measures["adapt", "rank-seconds"][arm][0] > 0


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    check_reckoning()
    check_outcome()
    check_failures()
    check_wrong_words()
    if reason := why_not_here(programs):
        print(reason)
        return 77
    check_experiments(programs)
    if reason := why_not_elastic():
        print(f"no elastic experiments: {reason}")
    else:
        check_elastic_experiments(programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
