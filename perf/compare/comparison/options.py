"""The command line of compare."""

import argparse
import os
import re

from comparison.series import COLLECTIVES, IN_TURNS, SERIES

_KIB, _MIB = 1 << 10, 1 << 20
TABLES = {"latency": [8 << shift for shift in range(11)],             # 8 B to 8 KiB
          "bandwidth": [16 * _KIB << shift for shift in range(15)]}   # 16 KiB to 256 MiB

DESCRIPTION = """\
Compares Harmonaize with other collective libraries, and with the machine, in one run.

The ranks of all libraries are started once. Then, for each cell (collective, ranks, size), rounds
of: ours with registered buffers, with heap buffers, and with these on a host stream, each peer, the
machine's own bound. So whatever else the machine is doing hits all alike, and the ratios mean
something where single numbers do not.
"""

EPILOG = """\
tables
  latency (8 B to 8 KiB) in microseconds, bandwidth (16 KiB to 256 MiB) in GB/s (10^9 bytes of the
  larger buffer / time). Each number is the median of the rounds, or the best (--statistic).
  reg/peer, heap/peer    how many times as fast as the fastest peer of that size ours is
  reg/bound, heap/bound  the share of what the machine can do that reaches the application
  A ~ behind a row: its times scatter, or others used the machine meanwhile; lines below say which.

series
  registered, heap            compare_harmonaize through the daemon, blocking calls
  stream                      the same from the heap on a host stream, each call waited for
  openmpi, mpich, ucc, gloo   the same loop over their library, heap buffers
  bound                       processes in shared memory and lock-step, without any API
  All: float32, sum, root 0, out of place; the broadcast is in place, as MPI has no other.

summary
  What the project demands of each cell, and whether it holds: "unsure" when the rounds disagree.

examples
  build/release/bin/compare
  build/release/bin/compare --collectives all --ranks 2,4,8 --json all.json --report all.md
  build/release/bin/compare --read all.json           (shows kept results; measures nothing)
  build/release/bin/compare_plot all.json             (draws them)
  build/release/bin/compare --series openmpi,mpich,bound --sizes 8,32K,8M   (without Harmonaize)

Exit status: 0; 1 when a series of ours failed or gave a wrong result; 2 for wrong arguments; 130
when interrupted: what was measured until then is shown and kept.
"""


def parse_size(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text, re.IGNORECASE | re.ASCII)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; write bytes, or K, M, G as in 32M")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


def list_of(parse):
    def parse_list(text):
        return [parse(part) for part in text.split(",")]
    return parse_list


COLLECTIVES_HELP = (f"{', '.join(COLLECTIVES)}, or all of these; {', '.join(IN_TURNS)}: the root "
                    "is each rank in turn, so that what is timed is how long one takes and not how "
                    "many go at a time (all_reduce)")


def names_of(all_of_them, others=()):
    known = [*all_of_them, *others]

    def parse(text):
        names = list(all_of_them) if text == "all" else text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(known)}, all")
        return names
    return parse


def at_least(lowest, kind):
    def parse(text):
        value = kind(text)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"{text} is less than {lowest}")
        return value
    parse.__name__ = kind.__name__  # what argparse calls a value that `kind` refuses
    return parse


def rank_count(text):
    value = at_least(1, int)(text)
    if value > 64:
        raise argparse.ArgumentTypeError(f"{text} ranks: at most 64")
    return value


def _add_what(parser):
    parser.add_argument("--collectives", type=names_of(COLLECTIVES, IN_TURNS),
                        default=["all_reduce"], metavar="LIST", help=COLLECTIVES_HELP)
    parser.add_argument("--ranks", type=list_of(rank_count), default=[2], metavar="LIST",
                        help="numbers of processes, 1 to 64 (2)")
    parser.add_argument("--tables", type=names_of(TABLES), default=list(TABLES), metavar="LIST",
                        help="latency, bandwidth, or all (all)")
    parser.add_argument("--sizes", type=list_of(parse_size), metavar="LIST",
                        help="these sizes instead of the tables' own, in bytes or with K, M, G")
    parser.add_argument("--series", "--peers", type=names_of(SERIES), default=SERIES,
                        metavar="LIST", help=f"{', '.join(SERIES)}, or all (all)")


def add_how(parser, budget, fewest):
    """How to measure. A series that is slow does `fewest` operations at least."""
    parser.set_defaults(fewest=fewest)
    parser.add_argument("--rounds", type=at_least(1, int), default=5, metavar="N",
                        help="times that each series is measured, in turn (5)")
    parser.add_argument("--iterations", type=at_least(0, int), default=0, metavar="N",
                        help="operations timed together; 0 chooses by size (0)")
    parser.add_argument("--budget", type=at_least(0, float), default=budget,
                        metavar="SECONDS",
                        help="a series that would take longer for the chosen operations does fewer "
                             f"({budget})")
    parser.add_argument("--statistic", choices=["median", "best"], default="median",
                        help="of the rounds, for tables and verdicts (median)")
    parser.add_argument("--timeout", type=at_least(0, float), default=120, metavar="SECONDS",
                        help="that one measurement may take (120)")


def _add_realtime(parser):
    parser.add_argument("--realtime", action="store_true",
                        help="run everything, the daemon too, with real-time priority (chrt -f 1, "
                             "as root): for a machine on which others work, in short runs")


def add_where(parser):
    """Where results go and programs are."""
    parser.add_argument("--json", metavar="FILE", help="keep every time of every round here")
    parser.add_argument("--report", metavar="FILE",
                        help="write command, machine, tables and summary here, as Markdown")
    parser.add_argument("--read", metavar="FILE",
                        help="measure nothing; show what --json has kept")
    parser.add_argument("--programs", metavar="FOLDER", default=_programs(),
                        help="where harmonaize, compare_harmonaize, ... are (beside this program; "
                             "from the source tree, build/release/bin)")


def _programs():
    beside = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    built = os.path.normpath(os.path.join(beside, "../../build/release/bin"))
    return beside if os.path.exists(os.path.join(beside, "harmonaize")) else built


def check(parser, options):
    """What no option says by itself."""
    options.sizes = sorted(set(options.sizes))
    if options.sizes[0] < 4:
        parser.error("--sizes: an element has 4 bytes")
    if options.read and options.json:
        parser.error("--read measures nothing, so there is nothing for --json")
    for name in ("json", "report"):
        folder = os.path.dirname(os.path.abspath(getattr(options, name) or "x"))
        if not os.path.isdir(folder):
            parser.error(f"--{name}: there is no folder {folder}")


def _add_daemon(parser):
    parser.add_argument("--daemon", metavar="SOCKET",
                        help="use the daemon that listens here; without it, one is started")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="compare", description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    _add_what(parser)
    add_how(parser, budget=0.1, fewest=3)
    _add_realtime(parser)
    add_where(parser)
    _add_daemon(parser)
    options = parser.parse_args(arguments)
    if not options.sizes:
        options.sizes = [size for table in options.tables for size in TABLES[table]]
    check(parser, options)
    return options


# What is said of a run must not say where files are.
_PLACES = {"--json", "--report", "--daemon", "--programs"}
# Of these the last part may be told.
_FILES = {"--fabric", "--ring"}


def public_command(arguments, program="compare"):
    """The command line, without the names of folders and of files that are written."""
    words = [program]
    before = ""
    for word in arguments:
        name, equals, value = word.partition("=")
        if before in _FILES:
            words.append(os.path.basename(word))
        elif before not in _PLACES and name in _FILES and equals:
            words.append(f"{name}={os.path.basename(value)}")
        elif before not in _PLACES and name not in _PLACES:
            words.append(word)
        before = "" if before in _PLACES | _FILES or equals else name
    return " ".join(words)
