#!/usr/bin/env python3
"""Three processes on three hosts exchange messages over NCCL's net plugin, each with each, while a link
that carries them is cut without a word, and mended. No call fails, and no message is wrong.

    nccl_net_links_test.py PROGRAMS EXCHANGE

PROGRAMS is the folder of fabric and harmonaize, EXCHANGE the program nccl_net_exchange. Nothing is timed:
the test waits for what has to come. Exit status 77: the laboratory cannot be used here.
"""

import json
import sys

from live_laboratory import PATIENCE_SECONDS, eventually, laboratory_of, lines_of

HOSTS = ("host0", "host1", "host2")
# One of the two ways to host2.
LINK = "leaf0-spine0"
# Of each host's one NIC, in Mbit/s.
SPEED = 100
# Messages of each connection between two looks.
MESSAGES = 8
# Bytes that a link carries only if messages go over it: more than what daemons tell each other meanwhile.
CARRIED = 1_000_000


class Exchange:
    def __init__(self, laboratory, program, output):
        self.laboratory = laboratory
        self.output = output
        with output.open("w") as file:
            self.job = laboratory.start_program(file, program, str(laboratory.folder), hosts=HOSTS)

    def progress(self):
        """Messages that have come so far, by rank, in the connection in which the fewest have."""
        found = dict.fromkeys(range(len(HOSTS)), 0)
        for line in lines_of(self.output):
            found[line["rank"]] = line["messages"]
        return found

    def speeds(self):
        """What NCCL is told of the hosts' devices."""
        return {line["speed"] for line in lines_of(self.output) if "speed" in line}

    def goes_on(self, what):
        before = self.progress()
        eventually(what, lambda: all(self.progress()[rank] >= count + MESSAGES
                                     for rank, count in before.items()),
                   [self.job], seen=lambda: f"{before} has become {self.progress()}")

    def carried(self):
        status = json.loads(self.laboratory.run("status", "--json", "--name", self.laboratory.name).stdout)
        return next(sum(link["sent_bytes"]) for link in status["links"] if link["name"] == LINK)

    def uses_the_link(self):
        before = self.carried()
        eventually(f"{LINK} carries messages", lambda: self.carried() > before + CARRIED, [self.job],
                   seen=lambda: f"{before} bytes have become {self.carried()}")


def exchange_while_a_link_fails(laboratory, program, output):
    exchange = Exchange(laboratory, program, output)
    try:
        exchange.goes_on("messages come")
        assert exchange.speeds() == {SPEED}, exchange.speeds()
        exchange.uses_the_link()
        laboratory.disturb("link-down", LINK, "--silent")
        exchange.goes_on(f"messages come without {LINK}")
        laboratory.disturb("link-up", LINK)
        exchange.uses_the_link()
        exchange.goes_on(f"messages come with {LINK} again")
    finally:
        laboratory.enough()
        status = exchange.job.wait(timeout=PATIENCE_SECONDS)
    # Every rank has looked at what it got.
    assert status == 0, f"the exchange ended with {status}"
    print(f"messages of the slowest connections: {exchange.progress()}")


def main():
    with laboratory_of(sys.argv[1]) as laboratory:
        output = laboratory.folder / "exchange"
        try:
            exchange_while_a_link_fails(laboratory, sys.argv[2], output)
        except AssertionError:
            print(output.read_text()[-4000:])
            raise


if __name__ == "__main__":
    main()
