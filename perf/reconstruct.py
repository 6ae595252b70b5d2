#!/usr/bin/env python3
"""A tenant's attempt to reconstruct racks from everything it may read, and from measuring its own transfers,
in a laboratory of three racks; scored against chance.

    reconstruct.py [PROGRAMS] [--fabric FILE] [--permutations N] [--seed N]

PROGRAMS is the folder of fabric and harmonaized (build/release/bin). One rank runs at each host. The tenant
makes a communicator of each pair of ranks, uses each alone and each two that have no rank in common at the
same time, and again while links lose their rates. It then reads, at each host, every route, `harmonaize
status --json` and all events.

Each number that is told of pairs, or measured, is taken for a distance between ranks, with either sign, and
clustered into as many groups as there are racks, which the tenant is given. The score is the adjusted Rand
index of the best number: 1 for the racks as they are, 0 on average for a random guess. As the best of many
numbers is above 0 by chance, the same is done for random racks of the same sizes: p is how often these do
as well. Needs root.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

# pylint: disable=wrong-import-position
from live_daemons import UnixConnection, ask
from live_job import Ranks
from live_laboratory import laboratory_of

TENANT = 64001
JOB = "reconstruct"
SMALL, LARGE = 2, 128 << 10  # elements: 8 B and 512 KiB
REPEATS = 3
# Links that lose their rates one after the other, as another tenant's traffic would take them.
DISTURBED_SECONDS = 6
# Fields whose values are drawn by chance.
DRAWN = ("id", "job")


def racks_of(fabric):
    """The rack of each host, in the order of the file."""
    racks = []
    for host in tomllib.loads(fabric)["host"]:
        names = host["name"] if isinstance(host["name"], list) else [host["name"]]
        racks += [(name, host["rack"]) for name in names]
    return racks


def uplinks_of(fabric):
    """Names of the links between leaves and spines."""
    found = []
    for link in tomllib.loads(fabric)["link"]:
        ends = [one if isinstance(one, list) else [one] for one in (link["from"], link["to"])]
        found += [f"{a}-{b}" for a, b in itertools.product(*ends) if not a.startswith("host")]
    return found


# ---- What the tenant does

def name_of(pair):
    return f"pair {pair[0]} {pair[1]}"


class Work:
    """What each rank does: all pairs alone, all two at a time, and all in turn until told to end."""

    def __init__(self, ranks, folder):
        self.ranks = ranks
        self.folder = folder
        self.pairs = list(itertools.combinations(range(ranks), 2))
        self.both = [(p, q) for p, q in itertools.combinations(self.pairs, 2) if not set(p) & set(q)]

    def __call__(self, library, world, rank):
        own = {}
        for pair in self.pairs:
            if rank in pair:
                own[pair] = self.join(library, pair, rank)
            world.all_reduce(1)
        measured = collections.defaultdict(list)
        for pair in self.pairs:
            for count in (SMALL, LARGE):
                self.step(world, own, [pair], count, ("alone", count), measured)
        for p, q in self.both:
            self.step(world, own, [p, q], LARGE, "both", measured)
        (self.folder / "at-rest" / str(rank)).touch()
        turn = 0
        while True:
            last = world.all_reduce(1, first=100 if rank == 0 and (
                self.folder / "enough").exists() else 1)
            if last > self.ranks:
                break
            self.step(world, own, [self.pairs[turn % len(self.pairs)]], LARGE, "disturbed", measured)
            turn += 1
        (self.folder / "done" / str(rank)).touch()
        while not (self.folder / "read").exists():
            time.sleep(0.05)
        return json.dumps([[what, list(pair), seconds]
                           for (what, pair), seconds in measured.items()])

    def join(self, library, pair, rank):
        """The pair's communicator. Its id goes by a file."""
        file = self.folder / "ids" / f"{pair[0]}-{pair[1]}"
        if rank == pair[0]:
            unique_id = library.unique_id()
            file.with_suffix(".part").write_bytes(bytes(unique_id))
            file.with_suffix(".part").rename(file)
        while not file.exists():
            time.sleep(0.002)
        unique_id = library.id_from(file.read_bytes())
        return library.join(unique_id, 2, pair.index(rank), name_of(pair))

    @staticmethod
    def step(world, own, pairs, count, what, measured):
        """One use of some pairs at the same time."""
        world.all_reduce(1)
        for pair in pairs:
            if pair not in own:
                continue
            times = []
            for _ in range(REPEATS):
                begun = time.perf_counter()
                own[pair].all_reduce(count)
                times.append(time.perf_counter() - begun)
            measured[str(what), pair].append(statistics.median(times))


# ---- What the tenant reads

def as_tenant(what):
    """What `what()` returns, as a document, in a process of the tenant."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(TENANT)
            os.setuid(TENANT)
            with os.fdopen(writer, "w") as pipe:
                json.dump(what(), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def leaves(document, path=""):
    """(path, number) of every number, truth value and text in a document. A text counts as one that is
    there or not."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key not in DRAWN:
                yield from leaves(value, f"{path}.{key}")
    elif isinstance(document, list):
        yield f"{path}#", len(document)
        for value in document:
            yield from leaves(value, path)
    elif isinstance(document, (bool, int, float)):
        yield path, float(document)
    elif isinstance(document, str):
        yield f"{path}='{document[:40]}'", 1.0


def read_host(http, control, harmonaize):
    """What one host's daemon tells: documents of communicators by their name, by where they stand."""
    def read():
        said = []
        jobs = ask(UnixConnection(http), "GET", "/v1/jobs").json()["jobs"]
        for job in jobs:
            if job["name"] != JOB:
                continue
            for part in ("", "/communicators", "/ranks", "/operations"):
                answer = ask(UnixConnection(http), "GET", f"/v1/jobs/{job['id']}{part}")
                said.append([f"jobs{part}", answer.json()])
        place = "from=start"
        while True:
            page = ask(UnixConnection(http), "GET", f"/v1/events?{place}&limit=1000").json()
            said += [["events", event["data"] | {"type": event["type"]}] for event in page["events"]]
            if not page["more"] or not page["next"]:
                break
            place = "after=" + page["next"]
        done = subprocess.run([harmonaize, "status", "--json", "--socket", control],
                              stdout=subprocess.PIPE, text=True, check=False)
        said.append(["status", json.loads(done.stdout)])
        return said
    return as_tenant(read)


def about_pairs(said, found):
    """Adds to `found`, by what it is and by pair, the numbers of all that names a pair's communicator."""
    def walk(where, document):
        if isinstance(document, list):
            for one in document:
                walk(where, one)
        elif isinstance(document, dict):
            name = document.get("communicator", document.get("name"))
            if isinstance(name, str) and name.startswith("pair "):
                pair = tuple(map(int, name.split()[1:]))
                kind = document.get("type", "")
                found[f"{where} {kind}, how many"][pair].append(1.0)
                for path, number in leaves(document):
                    if name not in path:
                        found[f"{where} {kind} {path}"][pair].append(number)
                return
            for value in document.values():
                walk(where, value)
    for where, document in said:
        walk(where, document)


# ---- What it makes of that

def groups_of(distance, ranks, count):
    """Average linkage: the group of each rank."""
    groups = [[rank] for rank in range(ranks)]
    while len(groups) > count:
        def between(two):
            a, b = groups[two[0]], groups[two[1]]
            return statistics.fmean(distance[min(x, y), max(x, y)] for x in a for y in b)
        a, b = min(itertools.combinations(range(len(groups)), 2), key=between)
        groups[a] += groups.pop(b)
    label = {rank: number for number, group in enumerate(groups) for rank in group}
    return tuple(label[rank] for rank in range(ranks))


def adjusted_rand(one, other):
    """Source: Hubert and Arabie, Comparing partitions, 1985."""
    def twos(counts):
        return sum(count * (count - 1) // 2 for count in counts)
    both = twos(collections.Counter(zip(one, other)).values())
    first, second = twos(collections.Counter(one).values()), twos(collections.Counter(other).values())
    expected = first * second / (len(one) * (len(one) - 1) / 2)
    most = (first + second) / 2
    return (both - expected) / (most - expected) if most != expected else 0.0


def score(what, found, truth, draws, permutations):
    """Tells the best number's score and how far chance gets with as many numbers."""
    ranks = len(truth)
    pairs = list(itertools.combinations(range(ranks), 2))
    guesses = {}
    for name, by_pair in found.items():
        distance = {pair: sum(by_pair.get(pair, [0.0])) / max(1, len(by_pair.get(pair, []))) for pair in
                    pairs}
        if len(set(distance.values())) < 2:
            continue
        for sign in (1, -1):
            signed = {pair: sign * value for pair, value in distance.items()}
            guesses[f"{'+-'[sign < 0]} {name}"] = groups_of(signed, ranks, len(set(truth)))
    if not guesses:
        print(f"{what}: {len(found)} numbers, of which none differs between pairs: nothing to go by")
        return
    scores = {name: adjusted_rand(guess, truth) for name, guess in guesses.items()}
    best = max(scores, key=scores.get)
    chance = []
    for _ in range(permutations):
        racks = list(truth)
        draws.shuffle(racks)
        chance.append(max(adjusted_rand(guess, racks) for guess in set(guesses.values())))
    as_well = sum(one >= scores[best] - 1e-9 for one in chance) / permutations
    print(f"{what}: {len(guesses)} distances from {len(found)} numbers, {len(set(guesses.values()))} "
          f"different guesses; best score {scores[best]:.2f} by '{best}' as {guesses[best]}; the best of "
          f"as many by chance {statistics.fmean(chance):.2f} on average, p = {as_well:.3f}")
    for name in sorted(scores, key=scores.get, reverse=True)[:5]:
        print(f"    {scores[name]:5.2f}  {name}")


def attempt(options, laboratory, folder, fabric):
    racks = racks_of(fabric)
    # Ties between distances are broken by the ranks' numbers, which must tell nothing.
    draws = random.Random(options.seed)
    draws.shuffle(racks)
    hosts = [name for name, _ in racks]
    truth = [rack for _, rack in racks]
    state = folder / "state" / laboratory.name / "hosts"
    for path in (folder, folder / "state", state.parent, state, *state.iterdir()):
        path.chmod(0o755)
    for name in ("ids", "at-rest", "done"):
        (folder / name).mkdir()
        os.chown(folder / name, TENANT, TENANT)
    sockets = [str(state / host / "harmonaized.sock") for host in hosts]
    work = Work(len(hosts), folder)
    ranks = Ranks(options.programs.parent / "lib" / "libnccl.so.2", sockets, work, user=TENANT,
                  environment={"HARMONAIZE_JOB": JOB}, name="world")

    def all_in(place):
        deadline = time.monotonic() + 300
        while len(list((folder / place).iterdir())) < len(hosts):
            if ranks.poll() or time.monotonic() > deadline:
                raise AssertionError(f"the job ended early: {ranks.said}")
            time.sleep(0.1)

    def read_all():
        found = collections.defaultdict(lambda: collections.defaultdict(list))
        said = [read_host(str(state / host / "http.sock"), socket, str(folder / "harmonaize"))
                for host, socket in zip(hosts, sockets)]
        for one in said:
            about_pairs(one, found)
        events = sum(1 for one in said for where, _ in one if where == "events")
        print(f"read {events} events and {len(json.dumps(said))} bytes at {len(hosts)} hosts")
        return found

    try:
        all_in("at-rest")
        at_rest = read_all()
        for link in uplinks_of(fabric):
            laboratory.disturb("rate", link, "20Mbit")
            time.sleep(DISTURBED_SECONDS)
            laboratory.disturb("rate", link, "nominal")
        (folder / "enough").touch()
        all_in("done")
        disturbed = read_all()
        (folder / "read").touch()
        if not ranks.wait(60) or any(ranks.statuses):
            raise AssertionError(f"the job ended with {ranks.statuses}: {ranks.said}")
    finally:
        ranks.wait(0)
    measured = collections.defaultdict(lambda: collections.defaultdict(list))
    for said in ranks.said:
        for what, pair, seconds in json.loads(said):
            measured[what][tuple(pair)] += seconds
    measured["slowdown by others"] = {
        pair: [statistics.fmean(measured["both"][pair]) /
               statistics.fmean(measured[str(("alone", LARGE))][pair])] for pair in work.pairs}
    print(f"{len(hosts)} ranks in racks {truth}")
    score("the API, quiet links", at_rest, truth, draws, options.permutations)
    score("the API, links disturbed", disturbed, truth, draws, options.permutations)
    score("own transfers", measured, truth, draws, options.permutations)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path, nargs="?",
                        default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--fabric", type=pathlib.Path,
                        default=ROOT / "perf" / "fabric" / "fabrics" / "three-racks-unequal.toml")
    parser.add_argument("--permutations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.programs = options.programs.absolute()
    fabric = options.fabric.read_text()
    with laboratory_of(options.programs, fabric) as laboratory:
        folder = laboratory.folder
        (folder / "harmonaize").write_bytes((options.programs / "harmonaize").read_bytes())
        (folder / "harmonaize").chmod(0o755)
        laboratory.serve()
        attempt(options, laboratory, folder, fabric)
    return 0


if __name__ == "__main__":
    sys.exit(main())
