"""The laboratory of emulated hosts (docs/laboratory.md), by its program `fabric`."""

import contextlib
import json
import os
import subprocess

from comparison.programs import RunError

_PATIENCE_SECONDS = 60


def call(command, patience=_PATIENCE_SECONDS):
    """What a command that is soon over writes; a RunError with its own words when it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=patience, check=False, start_new_session=True)
    except OSError as error:
        raise RunError(f"cannot start {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"'{' '.join(command)}' took more than {patience} s") from None
    if done.returncode:
        words = " / ".join(line for line in done.stderr.splitlines() if line.strip())
        raise RunError(words or f"'{' '.join(command)}' ended with status {done.returncode}")
    return done.stdout


class Laboratory:
    """One laboratory; this object's to remove when it made it."""

    def __init__(self, program, name):
        self.name = name
        self.program = program
        self._made = False

    def command(self, word, *words):
        """A command line of `fabric` for this laboratory."""
        return [self.program, word, "--name", self.name, *words]

    def is_up(self):
        try:
            self.status()
        except RunError as error:
            if "no laboratory" in str(error):
                return False
            raise
        return True

    def bring_up(self, file):
        """Makes the fabric of `file`, or takes the laboratory of this name that is up. Says whether
        it made it."""
        if self.is_up():
            self._check(file)
            return False
        self._made = True  # also what is half made is ours to remove
        call([self.program, "up", file, "--name", self.name])
        return True

    def _check(self, file):
        status = self.status()
        with open(file, "rb") as wanted, open(os.path.join(status["folder"], "fabric.toml"),
                                              "rb") as there:
            if wanted.read() != there.read():
                raise RunError(f"laboratory {self.name} is up, and is not of {file}: give another "
                               f"--name, or end it with 'fabric down --name {self.name}'")
        busy = [process for process in status["processes"] if process["role"] == "daemon"]
        if busy:
            raise RunError(f"a daemon serves {busy[0]['host']} of laboratory {self.name} already, "
                           "and not with the configuration that is to be measured: end it (process "
                           f"{busy[0]['pid']}), or give another --name")

    def take_down(self):
        """Ends all that runs there and removes it, if this object made it."""
        if self._made:
            call(self.command("down"))
            self._made = False

    def status(self):
        """The JSON of `fabric status`."""
        return json.loads(call(self.command("status", "--json")))

    def last_words(self, hosts):
        """The last line that the daemon of each of these hosts logged, as far as it can be read:
        who takes the laboratory down takes the logs along."""
        folder = os.path.join(self.status()["folder"], "hosts")
        words = []
        for host in dict.fromkeys(hosts):
            with contextlib.suppress(OSError), open(os.path.join(folder, host, "harmonaized.log"),
                                                    encoding="utf-8", errors="replace") as log:
                lines = [line.strip() for line in log if line.strip()]
                words += [f"the daemon of {host}: {lines[-1]}"] if lines else []
        return words

    def payload(self, first, second, seconds):
        """One plain TCP transfer: (bytes a second that arrived, those that links state)."""
        measured = json.loads(call(self.command("measure", first, second, "--seconds", str(seconds),
                                                "--one-way", "--json")))[0]
        return measured["payload_bytes_per_second"], measured["nominal_bytes_per_second"]

    def place(self, hosts, ranks):
        """The host of each rank, as `fabric run` with these options places them."""
        words = placement_words(hosts, ranks)
        lines = call(self.command("run", *words, "--daemon", "none", "--no-preload", "--no-prefix",
                                  "--", "sh", "-c", 'echo "$RANK $HARMONAIZE_FABRIC_HOST"'))
        places = dict(line.split() for line in lines.splitlines())
        return [places[str(rank)] for rank in range(len(places))]


def placement_words(hosts, ranks):
    """The options of `fabric run` that place ranks."""
    return ((["--hosts", hosts] if hosts else []) + (["-n", str(ranks)] if ranks else []))


def planning_words(status):
    """What 'fabric run' tells its daemons of messages' costs, as options of 'harmonaize plan'."""
    return [word for name, value in status["costs"].items()
            for word in ("--" + name.replace("_", "-"), str(value))]


def nics(status):
    """{host: [the devices of its NICs]}"""
    return {node["name"]: [nic["device"] for nic in node["nics"]]
            for node in status["nodes"] if node["kind"] == "host"}


def racks(status):
    """{host: its rack, or ""}, in the order of the fabric file."""
    return {node["name"]: node.get("rack", "") for node in status["nodes"]
            if node["kind"] == "host"}


def bytes_into_hosts(status):
    """What all links together have carried into hosts."""
    hosts = racks(status)
    entered = 0
    for link in status["links"]:
        forth, back = link["sent_bytes"]
        entered += forth if link["to"].partition(":")[0] in hosts else 0
        entered += back if link["from"].partition(":")[0] in hosts else 0
    return entered


def difference(one, other):
    """In what the links of two laboratories of one fabric differ: words, or None."""
    for here, there in zip(one["links"], other["links"]):
        if [here[key] for key in ("up", "bytes_per_second")] != [
                there[key] for key in ("up", "bytes_per_second")]:
            return f"link {here['name']}"
    return "background flows" if one["flows"] or other["flows"] else None
