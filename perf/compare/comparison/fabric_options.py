"""The command line of the comparison across hosts."""

import argparse
import os
import tomllib

from comparison import options
from comparison.fabric_series import COLLECTIVES, SERIES
from comparison.series import IN_TURNS

PROGRAM = "compare_fabric"
_SIZES = [8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]

DESCRIPTION = """\
Compares Harmonaize with Open MPI and Gloo across the emulated hosts of a laboratory, in one run.

It brings the laboratory of a fabric file up, starts the ranks of all series at its hosts, and then
measures each cell (collective, size) in rounds of: Harmonaize, its static ring and its fixed ring,
each peer, and one plain TCP transfer, from whose payload the fabric's bound is computed. What it
brought up it takes down. Needs root, as the laboratory does; docs/laboratory.md is its guide.
"""

EPILOG = """\
series
  harmonaize    a daemon at each host, which plans as it sees fit
  static-ring   the same, with policy static-ring: a ring in the order of the ranks, as NCCL has it
  fixed-ring    the same, with policy fixed: the best ring by hand, rack by rack, on ECMP's ways
  openmpi       TCP over all NICs of a host, shared memory within it
  gloo          TCP over one NIC of a host
  predicted     what 'harmonaize plan' thinks that our plan takes
  bound         what the fabric's narrowest cut lets through ('harmonaize plan'), at the payload
                that one TCP transfer reaches in the same round
  Each policy has daemons, and so a laboratory, of its own: NAME, NAME-static-ring, NAME-fixed-ring.
  All: float32, sum, root 0, out of place (the broadcast in place); every element is checked, and so
  is that the bytes crossed the links.

tables
  time      of one operation, the median of the rounds, or the best (--statistic)
  algbw     GB/s (10^9 bytes of the larger buffer / time); busbw as nccl-tests defines it
  of bound, of peer, of ring
            how many times as fast as the bound, the best peer, and static-ring
  A ~ behind a size: its times scatter, or others used the machine meanwhile; lines below say which.

summary
  What the project demands of each cell, and whether it holds: "unsure" when the rounds disagree.

examples
  compare_fabric --fabric perf/fabric/fabrics/two-racks.toml --hosts host0:2,host2:2,host1:2,host3:2
  compare_fabric --fabric perf/fabric/fabrics/two-hosts.toml --series harmonaize,openmpi,gloo
  compare_fabric --fabric perf/fabric/fabrics/rails.toml --collectives all_reduce,all_gather \\
      --rounds 3 --json rails.json --report rails.md
  compare_fabric --read rails.json        (shows kept results; measures nothing)

Exit status: 0; 1 when a series of ours failed or gave a wrong result, or nothing could be measured;
2 for wrong arguments; 130 when interrupted: what was measured until then is shown and kept.
"""


def _add_what(parser):
    parser.add_argument("--fabric", metavar="FILE", help="the fabric file (docs/fabric-file.md)")
    parser.add_argument("--hosts", metavar="LIST",
                        help="as for 'fabric run': a,b gives ranks to these in turn, a:2,b:2 so "
                             "many to each (all hosts in turn)")
    parser.add_argument("-n", "--ranks", type=options.rank_count, metavar="N",
                        help="how many ranks, at most 64 (one a host)")
    parser.add_argument("--name", help="the laboratory's; one of this name that is up is used, and "
                                       "stays (the fabric's)")
    parser.add_argument("--collectives", "--collective", default=["all_reduce"],
                        type=options.names_of(COLLECTIVES, IN_TURNS), metavar="LIST",
                        help=options.COLLECTIVES_HELP)
    parser.add_argument("--sizes", type=options.list_of(options.parse_size), default=_SIZES,
                        metavar="LIST",
                        help="bytes of a rank's larger buffer, as nccl-tests counts; K, M, G "
                             "(8,1K,64K,1M,16M,64M)")
    parser.add_argument("--series", type=options.names_of(SERIES), default=SERIES, metavar="LIST",
                        help=f"{', '.join(SERIES)}, or all (all)")
    parser.add_argument("--ring", metavar="FILE",
                        help="the plan file (docs/planning.md) of fixed-ring (a ring rack by rack)")
    parser.add_argument("--buffers", choices=["heap", "registered"], default="heap",
                        help="Harmonaize's: from the heap, as the peers' are, or from ncclMemAlloc "
                             "with ncclCommRegister (heap)")
    parser.add_argument("--reconnect", action="store_true",
                        help="start all ranks and daemons anew for each round: ECMP then deals "
                             "their connections out anew, where otherwise one deal, lucky or not, "
                             "lasts the whole run")


def parse(arguments):
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    _add_what(parser)
    # An operation may take seconds.
    options.add_how(parser, budget=0.5, fewest=1)
    options.add_where(parser)
    chosen = parser.parse_args(arguments)
    options.check(parser, chosen)
    if not chosen.read:
        _look_at_files(parser, chosen)
    return chosen


def _look_at_files(parser, chosen):
    if not chosen.fabric:
        parser.error("--fabric: name a fabric file, as perf/fabric/fabrics/two-racks.toml")
    if chosen.ring and not os.path.isfile(chosen.ring):
        parser.error(f"--ring: there is no file {chosen.ring}")
    try:
        with open(chosen.fabric, "rb") as file:
            stated = tomllib.load(file).get("fabric", {})
    except OSError as error:
        parser.error(f"--fabric: cannot read {chosen.fabric}: {error.strerror}")
    except tomllib.TOMLDecodeError as error:
        parser.error(f"--fabric: {chosen.fabric} is not TOML: {error}")
    own = os.path.basename(chosen.fabric).removesuffix(".toml")
    chosen.fabric_name = stated.get("name", own) if isinstance(stated, dict) else own
    chosen.name = chosen.name or chosen.fabric_name


def public_command(arguments):
    return options.public_command(arguments, PROGRAM)
