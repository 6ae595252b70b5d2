"""What can be compared: the libraries, how each is started, and the series that a library gives."""

import os
import shutil
from dataclasses import dataclass

COLLECTIVES = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "alltoall",
               "gather", "scatter", "sendrecv"]
# With each rank as the root in turn: perf/compare/peer_work.h.
IN_TURNS = {"broadcast_turns": "broadcast", "reduce_turns": "reduce"}
OURS = ["registered", "heap", "stream"]
PEERS = ["openmpi", "mpich", "ucc", "gloo"]
BOUND = "bound"
SERIES = OURS + PEERS + [BOUND]

# The rank program and its ways of doing the same, as the requests name them. A series is the
# fastest of its ways.
_WAYS = {"registered": ("harmonaize", ["registered"]),
         "heap": ("harmonaize", ["heap"]),
         "stream": ("harmonaize", ["stream"]),
         BOUND: (BOUND, ["slots", "pass", "streaming"])}


def library_of(series):
    return _WAYS.get(series, (series, None))[0]


def ways_of(series):
    return _WAYS.get(series, (None, ["-"]))[1]


@dataclass(frozen=True)
class Places:
    """Where programs are and what they need to know of this run."""
    programs: str      # the folder of compare_bound and the others
    largest_size: int  # bytes
    realtime: bool = False

    def path(self, name):
        return os.path.join(self.programs, name)


def _launcher(library):
    return {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}.get(library)


def missing(library, places):
    """Why a library cannot be compared with here, or None."""
    launcher = _launcher(library)
    if launcher and shutil.which(launcher) is None:
        return f"{launcher} is not installed"
    needed = [f"compare_{library}"]
    if library == "harmonaize":
        needed += ["harmonaize", "harmonaized"]
    for name in needed:
        if not os.path.exists(places.path(name)):
            return f"{name} was not built" + ("" if library in ("harmonaize", BOUND)
                                              else " (is the library installed?)")
    return None


def command(library, places, ranks, folder):
    """The command that starts all ranks of a library; they meet in `folder`."""
    program = places.path(f"compare_{library}")
    priority = ["chrt", "-f", "1"] if places.realtime else []
    if library == "harmonaize":
        launch = [places.path("harmonaize"), "run", "-n", str(ranks), "--daemon", "none",
                  "--no-preload", "--no-prefix", "--", program, folder]
    elif library == "openmpi":
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        launch = [_launcher(library), "--oversubscribe", *as_root, "-n", str(ranks), program,
                  folder]
    elif library == "mpich":
        launch = [_launcher(library), "-n", str(ranks), program, folder]
    elif library == BOUND:
        launch = [program, str(ranks), folder, str(places.largest_size)]
    else:
        launch = [program, str(ranks), folder]
    return priority + launch
