#!/usr/bin/env python3
"""The answers of NCCL's tuner plugin follow links: while a job runs, a link is cut and mended.
All ranks of a communicator on four hosts change their choices at the same call.

    tuner_follows_test.py PROGRAMS

PROGRAMS is the folder of fabric, harmonaize, timeline_perf and nccl_tuner_perf. Nothing is timed:
the test waits for what has to come. Exit status 77: the laboratory cannot be used here.
"""

import json
import pathlib
import subprocess
import sys
import time

from live_laboratory import PATIENCE_SECONDS, eventually, laboratory_of, lines_of

JOB_SECONDS = 4 * PATIENCE_SECONDS
RANKS = 4
# Questions of nccl_tuner_perf: five collectives at twelve sizes. The first answers to them are no change.
QUESTIONS = 60


def start_tuners(laboratory, programs, output):
    """Ranks that ask their tuners, one on each host."""
    library = programs.parent / "lib" / "nccl-plugins" / "libnccl-tuner-harmonaize.so"
    return subprocess.Popen(
        [laboratory.fabric, "run", "--name", laboratory.name, "--no-prefix", "--no-preload", "--",
         str(programs / "nccl_tuner_perf"), "--library", str(library), "--follow",
         "-s", str(JOB_SECONDS), "--until", str(laboratory.folder / "enough")],
        env=laboratory.environment, stdout=output, stderr=subprocess.STDOUT, text=True)


def answers_of(path):
    """What the ranks have said, by rank, in order."""
    answers = {rank: [] for rank in range(RANKS)}
    for line in path.read_text().splitlines():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue  # half of a line
        answers[one["rank"]].append(one)
    return answers


class Changes:
    """Waits for changes of the choices at all ranks."""

    def __init__(self, path, jobs):
        self.path = path
        self.jobs = jobs
        self.last_call = QUESTIONS - 1

    def changed_call(self):
        """The first call after those seen before whose answer changed, once it has at all ranks."""
        calls = []
        for answers in answers_of(self.path).values():
            later = [one["call"] for one in answers if one.get("call", 0) > self.last_call]
            if not later:
                return None
            calls.append(min(later))
        return min(calls) if min(calls) == max(calls) else None

    def expect(self, what):
        begun = time.time()
        eventually(f"the choices change when {what}", lambda: self.changed_call() is not None, self.jobs,
                   seen=lambda: f"after call {self.last_call}: {answers_of(self.path)}")
        call = self.changed_call()
        seconds = [one["at"] for answers in answers_of(self.path).values() for one in answers
                   if one.get("call") == call]
        print(f"{what}: from call {call} on, {max(seconds) - begun:.2f} s later")
        # A table has answers for all questions.
        time.sleep(0.5)
        self.last_call = max(one["call"] for answers in answers_of(self.path).values()
                             for one in answers if "call" in one)


def disturb_and_watch(laboratory, programs):
    job_output = laboratory.folder / "job"
    tuner_output = laboratory.folder / "tuners"
    with job_output.open("w") as job_file, tuner_output.open("w") as tuner_file:
        job = laboratory.start_job(job_file, JOB_SECONDS, "-b", "512K")
        tuners = start_tuners(laboratory, programs, tuner_file)
    jobs = [job, tuners]
    try:
        eventually("the job runs", lambda: len(lines_of(job_output)) > 3, jobs)
        eventually("all ranks have answers to all questions",
                   lambda: all(len(of) >= QUESTIONS for of in answers_of(tuner_output).values()), jobs)
        changes = Changes(tuner_output, jobs)
        laboratory.disturb("link-down", "leaf1-spine1", "--silent")
        changes.expect("a link between switches is cut")
        laboratory.disturb("link-up", "leaf1-spine1")
        changes.expect("it is mended")
    finally:
        laboratory.enough()
        statuses = [one.wait() for one in jobs]
    assert statuses == [0, 0], statuses
    return answers_of(tuner_output)


def check_alike(answers):
    calls = min(of[-1]["calls"] for of in answers.values())
    assert all(of[-1]["advised"] for of in answers.values()), answers
    said = {rank: [(one["call"], one["algorithm"], one["protocol"], one["channels"])
                   for one in of if one.get("call", calls) < calls] for rank, of in answers.items()}
    for rank, of in said.items():
        assert of == said[0], f"rank {rank} chose otherwise than rank 0: {of} and {said[0]}"
    print(f"{calls} calls, {len(said[0]) - QUESTIONS} changed answers, alike at all ranks")


def main():
    programs = pathlib.Path(sys.argv[1]).absolute()
    with laboratory_of(programs) as laboratory:
        laboratory.serve()
        check_alike(disturb_and_watch(laboratory, programs))


if __name__ == "__main__":
    main()
