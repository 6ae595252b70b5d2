"""What a program of the comparison does: it measures or reads a record, and shows it.

A comparison is a module: one_host.py, across_hosts.py. It has PROGRAM, OURS, parse, public_command,
describe, accepts, run, Printer and summary; one_host.py says what they are."""

import datetime
import json
import os
import signal
import sys
import tempfile

from comparison import machine, tables
from comparison.programs import RunError, adopt_orphans

INTERRUPTED = 130  # as a shell tells of a program that SIGINT ended


def _temporary_parent():
    """Where the ranks' meeting places are: in memory, and with a path short enough for a socket."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _interrupt_once():
    """A terminated run cleans up, and keeps what it has, like an interrupted one. Who loses
    patience and interrupts again would stop the cleaning up: that does nothing."""
    def interrupt(number, frame):
        del number, frame
        for handled in (signal.SIGINT, signal.SIGTERM):
            signal.signal(handled, lambda number, frame: None)
        raise KeyboardInterrupt
    for handled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(handled, interrupt)


def show(line):
    print(line, flush=True)


def _measure(comparison, options, words):
    """Measures and prints. Returns the record; of an interrupted run, what there is."""
    record = {
        "version": 2,
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": comparison.public_command(words),
        "machine": machine.describe(),
        **comparison.describe(options),
        "rounds": options.rounds,
        "statistic": options.statistic,
        "series": [],
        "interrupted": False,
        "results": [],
    }
    for line in tables.machine_lines(record):
        show("# " + line)
    printer = comparison.Printer(record, show)
    with tempfile.TemporaryDirectory(prefix="harmonaize-compare-",
                                     dir=_temporary_parent()) as folder:
        steps = comparison.run(options, record, folder, lambda text: show("# " + text))
        try:
            record["series"] = next(steps)
            for cell in steps:
                record["results"].append(cell)
                printer.add(cell)
        except KeyboardInterrupt:
            record["interrupted"] = True
        finally:
            steps.close()
    return record


def _read(comparison, path, statistic):
    """Returns a record that an earlier run wrote, with `statistic` as the one to show."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from None
    if not isinstance(record, dict) or record.get("version") != 2 or not comparison.accepts(record):
        raise RunError(f"{path} was not written by this version of {comparison.PROGRAM}")
    record["statistic"] = statistic
    printer = comparison.Printer(record, show)
    for cell in record["results"]:
        printer.add(cell)
    return record


def _write(path, text):
    if not path:
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from None


def main(comparison, words):
    """Runs the comparison with these arguments; returns the exit status."""
    options = comparison.parse(words)
    _interrupt_once()
    adopt_orphans()
    try:
        if options.read:
            record = _read(comparison, options.read, options.statistic)
        else:
            record = _measure(comparison, options, words)
            _write(options.json, json.dumps(record, indent=1) + "\n")
        for line in comparison.summary(record):
            show(line)
        _write(options.report, tables.report(record, comparison.Printer, comparison.summary))
    except RunError as error:
        sys.exit(f"{comparison.PROGRAM}: {error}")
    except KeyboardInterrupt:
        return INTERRUPTED  # before or after the measurements
    except BrokenPipeError:
        # Nobody reads any more. Nor shall Python write there when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    if not options.read and record["interrupted"]:
        return INTERRUPTED
    return int(_failed(comparison, record))


def _failed(comparison, record):
    """Whether a series of ours failed somewhere, or never gave a time."""
    cells = record["results"]
    return not cells or any(
        any(name in cell["errors"] for cell in cells)
        or not any(name in cell["times_us"] for cell in cells)
        for name in comparison.OURS if name in record["series"])
