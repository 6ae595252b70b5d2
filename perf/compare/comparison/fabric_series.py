"""What can be compared across hosts: the series, and how the ranks of each are started."""

import os
import shlex
from dataclasses import dataclass

from comparison import series as catalogue
from comparison.laboratory import placement_words

COLLECTIVES = catalogue.COLLECTIVES
ADAPTIVE, STATIC_RING, FIXED_RING = "harmonaize", "static-ring", "fixed-ring"
OURS = [ADAPTIVE]
# Ours as well, but to be beaten.
YARDSTICKS = [STATIC_RING, FIXED_RING]
PEERS = ["openmpi", "gloo"]
BOUND = catalogue.BOUND
PREDICTED = "predicted"
# By the planner, from the payload of a plain transfer.
RECKONED = [PREDICTED, BOUND]
SERIES = OURS + YARDSTICKS + PEERS + RECKONED


@dataclass(frozen=True)
class Job:
    """What all series have in common: where their ranks are."""
    places: catalogue.Places
    hosts: str            # --hosts and -n, as given
    ranks: int
    host_of_rank: list
    nics: str             # the folder that write_nics filled
    oversubscribed: bool  # more ranks than processors


def missing(name, places):
    """Why a series cannot be measured here, or None."""
    if name in RECKONED:
        return None
    return catalogue.missing("harmonaize" if name in OURS + YARDSTICKS else name, places)


def daemon_configuration(name, ring_file):
    """The daemons' TOML of one of our series."""
    if name == STATIC_RING:
        return '[plans]\npolicy = "static-ring"\n'
    if name == FIXED_RING:
        return f'[plans]\npolicy = "fixed"\nfile = "{ring_file}"\n'
    return ""


def best_ring(rack_of_host, host_of_rank):
    """The job's hosts in the order of the ring that an operator would make: rack by rack, so that
    it crosses between racks as seldom as can be."""
    racks = list(dict.fromkeys(rack_of_host.values()))
    return sorted((host for host in rack_of_host if host in host_of_rank),
                  key=lambda host: racks.index(rack_of_host[host]))


def ring_plan(order):
    """The plan file (docs/planning.md) of a ring in this order, on the ways that ECMP gives: what
    one can have by hand without choosing paths."""
    hosts = ", ".join(f'"{host}"' for host in order)
    return f'[plan]\nalgorithm = "ring"\norder = [{hosts}]\npieces = 2\npaths = "ecmp"\n'


def write_nics(folder, nics):
    """A file for each host with its NICs as Open MPI wants them named: at_host reads it. Explicit
    paths have devices too, and whoever is told nothing would use them all."""
    for host, own in nics.items():
        with open(os.path.join(folder, host), "w", encoding="utf-8") as file:
            file.write(",".join(own) + "\n")


def _fabric_run(job, laboratory, *words):
    return laboratory.command("run", *placement_words(job.hosts, job.ranks), "--no-preload",
                              "--no-prefix", *words)


def _at_host(job, laboratory):
    """A remote shell: what follows is a host and a command for the shell there."""
    return [job.places.path("compare_at_host"), laboratory.program, laboratory.name, job.nics]


def _openmpi(job, laboratory, folder):
    hosts = os.path.join(folder, "hosts")
    with open(hosts, "w", encoding="utf-8") as file:
        file.writelines(f"{host}\n" for host in job.host_of_rank)  # a line for each rank
    parameters = {
        "plm_rsh_agent": shlex.join(_at_host(job, laboratory)),
        "orte_tmpdir_base": folder,
        # Shared memory within a host, TCP between them; nothing that would look through namespaces.
        "pml": "ob1",
        "btl": "tcp,self,vader",
        "btl_vader_backing_directory": folder,
        "mpi_yield_when_idle": str(int(job.oversubscribed)),
    }
    words = ["exec", "mpirun.openmpi", *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
             # The daemons of Open MPI stay our descendants, to be counted and ended with us.
             "--leave-session-attached", "-n", str(len(job.host_of_rank)), "--hostfile", hosts,
             "--map-by", "seq", "--bind-to", "none"]
    for name, value in parameters.items():
        words += ["--mca", name, value]
    # Each rank's host says which NICs are to be used; mpirun would give all of them its own.
    words += ["sh", "-c", 'OMPI_MCA_btl_tcp_if_include=$COMPARE_NICS exec "$@"', "sh",
              job.places.path("compare_openmpi"), folder]
    return [*_at_host(job, laboratory), job.host_of_rank[0], shlex.join(words)]


def command(name, job, laboratory, folder, configuration):
    """The command that starts all ranks of a series; they meet in `folder`."""
    if name == "openmpi":
        return _openmpi(job, laboratory, folder)
    if name == "gloo":
        return _fabric_run(job, laboratory, "--daemon", "none", "--",
                           job.places.path("compare_gloo"), folder)
    return _fabric_run(job, laboratory, "--daemon-config", configuration, "--",
                       job.places.path("compare_harmonaize"), folder)
