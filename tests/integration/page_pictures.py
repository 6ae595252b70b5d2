#!/usr/bin/env python3
"""Draws the status page of a laboratory in both colour schemes. scripts/screenshot.sh calls it.

    page_pictures.py PROGRAMS FOLDER
"""

import collections
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

from live_browser import Browser, find_browser
from live_laboratory import Laboratory

FABRIC = "perf/fabric/fabrics/two-racks.toml"
JOB_SECONDS = 300
# Time in which the charts come by something to show.
SHOWN_AFTER_SECONDS = 75
MOST_PICTURE_BYTES = 150_000
WIDTH = 1280


def start_job(laboratory, programs, name, kind, hosts, *words):
    where = ["--hosts", hosts] if hosts else []
    environment = dict(laboratory.environment, HARMONAIZE_JOB=name, HARMONAIZE_JOB_KIND=kind)
    return subprocess.Popen([str(programs / "fabric"), "run", "--name", laboratory.name, "--no-prefix", "--no-preload", *where,
                             "--", str(programs / "timeline_perf"), "-s", str(JOB_SECONDS), "--until",
                             str(laboratory.folder / "enough"), *words],
                            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# ---------------------------------------------------------------------------------------------
# Pictures of at most 256 colours, which take a third of the bytes


def chunks_of(png):
    at = 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        yield kind, png[at + 8:at + 8 + length]
        at += length + 12


def unfilter(kind, line, above, step):
    """Undoes what a row was filtered with (PNG, third edition, section 9)."""
    line = bytearray(line)
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            line[i] = (line[i] + left) & 255
        elif kind == 2:
            line[i] = (line[i] + above[i]) & 255
        elif kind == 3:
            line[i] = (line[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            guess = left + above[i] - corner
            line[i] = (line[i] + min((left, above[i], corner), key=lambda one, goal=guess: abs(goal - one))) & 255
    return bytes(line)


def pixels_of(png):
    """The rows of a picture, as lists of colours."""
    parts = list(chunks_of(png))
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    if depth != 8 or colour not in (2, 6) or interlaced:
        raise AssertionError(f"a browser's picture has depth {depth} and colours of kind {colour}")
    step = 3 if colour == 2 else 4
    data = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    above = bytes(width * step)
    rows = []
    for row in range(height):
        at = row * (width * step + 1)
        line = data[at + 1:at + 1 + width * step]
        above = line if data[at] == 0 else unfilter(data[at], line, above, step)
        rows.append([above[i:i + 3] for i in range(0, width * step, step)])
    return rows


def with_few_colours(png):
    rows = pixels_of(png)
    used = collections.Counter(pixel for row in rows for pixel in row)
    palette = [colour for colour, _ in used.most_common(256)]

    def nearest(colour):
        return min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(palette[i], colour)))

    places = {colour: i for i, colour in enumerate(palette)}
    for colour in used:
        if colour not in places:
            places[colour] = nearest(colour)
    data = b"".join(b"\0" + bytes(places[pixel] for pixel in row) for row in rows)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"PLTE", b"".join(palette)) +
            chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


# ---------------------------------------------------------------------------------------------


def take(browser, folder):
    for scheme, name in (("light", "status-page.png"), ("dark", "status-page-dark.png")):
        browser.scheme(scheme)
        browser.listen(3)
        path = folder / name
        browser.picture(path, browser.value("document.documentElement.scrollHeight"))
        path.write_bytes(with_few_colours(path.read_bytes()))
        print(f"{path}: {path.stat().st_size} bytes")
        if path.stat().st_size > MOST_PICTURE_BYTES:
            raise AssertionError(f"{path} is larger than {MOST_PICTURE_BYTES} bytes")


def main():
    programs, target = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    program = find_browser()
    if program is None:
        print("no Chromium is installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="harmonaize-pictures-") as folder:
        folder = pathlib.Path(folder)
        laboratory = Laboratory(programs, folder, pathlib.Path(FABRIC).read_text())
        up = laboratory.up()
        if up.returncode != 0:
            print(f"the laboratory does not come up: {up.stdout}", file=sys.stderr)
            return 1
        jobs = []
        dashboard = None
        try:
            laboratory.serve()
            jobs.append(start_job(laboratory, programs, "llama-70b", "training", "", "-b", "4M", "-c", "0.02"))
            jobs.append(start_job(laboratory, programs, "ranking-eval", "inference", "host0,host2", "-b", "64K", "-c", "0.001"))
            socket = folder / "state" / laboratory.name / "hosts" / "host0" / "harmonaized.sock"
            dashboard = subprocess.Popen([str(programs / "harmonaize"), "dashboard", "--operator", "--no-browser", "--socket",
                                          str(socket)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            browser = Browser(program, str(folder / "profile"), width=WIDTH)
            try:
                browser.open(dashboard.stdout.readline().strip())
                browser.eventually("both jobs are shown", "document.querySelectorAll('#job-rows tr:not(.detail)').length === 2")
                # A stranger's flow, for something to tell of.
                browser.listen(SHOWN_AFTER_SECONDS / 2)
                laboratory.disturb("flow", "host1", "host3", "--rate", "250Mbit", "--path", "0")
                browser.listen(SHOWN_AFTER_SECONDS / 4)
                laboratory.disturb("flow-end")
                browser.listen(SHOWN_AFTER_SECONDS / 4)
                take(browser, target)
            finally:
                browser.close()
        finally:
            laboratory.enough()
            for job in jobs:
                job.wait()
            if dashboard is not None:
                dashboard.terminate()
                dashboard.wait()
            laboratory.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
