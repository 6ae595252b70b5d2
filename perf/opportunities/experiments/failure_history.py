"""What daemons have seen of failures before a run begins: as much as months would have shown them."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import sqlite3

# What daemons believe of ranks and hosts before they have seen anything (daemon/checkpoint_advice/hazard.cc): so many
# failures in so many seconds of one.
RANK_PRIOR = (0.25, 50 * 86400.0)
HOST_PRIOR = (0.5, 100 * 86400.0)
# The form of the file in which a daemon keeps records (daemon/promises/record_store.cc).
APPLICATION_ID = 0x487A5263
VERSION = 1
TABLE = ("CREATE TABLE records(kind TEXT NOT NULL,key TEXT NOT NULL,text TEXT NOT NULL,PRIMARY KEY(kind,key))"
         "WITHOUT ROWID")
# Bytes of a job's id.
JOB_BYTES = 16


def seen_for(rate: float, prior: tuple[float, float]) -> float:
    """Returns the failures that have to be seen, in no time, for a rate in failures of one rank or host in a second."""
    events, seconds = prior
    return max(0.0, rate * seconds - events)


def write_history(host_folder: pathlib.Path, job: str, user: int, rank_failures: float, hosts_lost: float) -> None:
    """Writes it for the daemon of a host, which does not run yet: of a user's job of this name, and of hosts."""
    state = host_folder / "state"
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o700)
    number = hashlib.sha256(b"name\0" + user.to_bytes(4, "little") + job.encode()).digest()[:JOB_BYTES].hex()
    tenant = f"uid {user}"
    saves = {"tenant": tenant, "job": number, "times": [], "rank_failures": rank_failures, "rank_days": 0.0, "saved": 0,
             "lasting": 0, "lasting_step": 0, "failed": 0}
    hazard = {"hosts_lost": hosts_lost, "host_days": 0.0, "links_cut": 0.0, "link_days": 0.0, "own_seconds": 0.0}
    file = state / "promises.sqlite3"
    os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(file)
    with database:
        database.execute(TABLE)
        database.execute(f"PRAGMA application_id={APPLICATION_ID}")
        database.execute(f"PRAGMA user_version={VERSION}")
        database.executemany("INSERT INTO records VALUES(?,?,?)",
                             [("checkpoints", f"{number} {tenant}", json.dumps(saves)),
                              ("hazard", "hosts", json.dumps(hazard))])
    database.close()
