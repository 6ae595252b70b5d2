#!/usr/bin/env python3
"""Holds that what is loaded into tenants needs no newer C library than containers of supported systems have: Ubuntu
22.04 has glibc 2.35, RHEL 9 has 2.34. A symbol of a newer one creeps in with a call, or with the C++ runtime that is
linked into the library.

    scripts/check-libc.py LIBRARY...    checks shared libraries by readelf
    scripts/check-libc.py --self-test   checks the checker on what readelf says of made-up libraries
"""

import argparse
import os
import re
import subprocess
import sys

# The oldest C library with which the libraries load, as docs/containers.md has it.
MOST = (2, 34)
# A symbol of the dynamic table that another library has to have: "... UND name@GLIBC_2.34 (5)".
NEEDED = re.compile(r"\bUND (\S+?)@+GLIBC_(\d+)\.(\d+)")
# A feature of the loader that the library needs: "0x00a0:   Name: GLIBC_ABI_DT_RELR  Flags: none  Version: 7". The
# first there was came with 2.36.
FEATURE = re.compile(r"\bName: (GLIBC_ABI_\w+)")


def newer_symbols(said):
    """What of readelf's tables of symbols and of versions needs a C library newer than MOST."""
    newer = [f"{feature} needs glibc 2.36" for feature in FEATURE.findall(said)]
    for name, major, minor in NEEDED.findall(said):
        if (int(major), int(minor)) > MOST:
            newer.append(f"{name} needs glibc {major}.{minor}")
    return newer


def check(library):
    """What is wrong with the library, as lines to print."""
    said = subprocess.run(["readelf", "--wide", "--dyn-syms", "--version-info", library], check=True,
                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    if not NEEDED.search(said):
        return [f"{library}: needs no symbol of glibc, which cannot be: is it a shared library?"]
    return [f"{library}: {line}, and containers with glibc {MOST[0]}.{MOST[1]} could not load it"
            for line in newer_symbols(said)]


# Each: a line of readelf, and what it is complained of; None for nothing.
SELF_TESTS = [
    ("   2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND dladdr@GLIBC_2.34 (2)", None),
    ("   2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND memcpy@GLIBC_2.2.5 (2)", None),
    ("   3: 0000000000000000    65 FUNC    GLOBAL DEFAULT  UND arc4random@GLIBC_2.36 (15)",
     "arc4random needs glibc 2.36"),
    ("   3: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND later@GLIBC_3.0 (15)", "later needs glibc 3.0"),
    ("   4: 0000000000001000    65 FUNC    GLOBAL DEFAULT   12 own@@GLIBC_2.36", None),
    ("  0x0080:   Name: GLIBC_ABI_DT_RELR  Flags: none  Version: 7", "GLIBC_ABI_DT_RELR needs glibc 2.36"),
    ("  0x0090:   Name: GLIBC_2.34  Flags: none  Version: 8", None),
    ("   5: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND __gmon_start__", None),
]


def self_test():
    """Returns how many self-tests have failed."""
    failures = 0
    for line, expected in SELF_TESTS:
        found = newer_symbols(line + "\n")
        if found != ([] if expected is None else [expected]):
            failures += 1
            print(f"self-test: expected {expected!r} of {line!r}, got {found}")
    print(f"{len(SELF_TESTS) - failures} of {len(SELF_TESTS)} self-tests passed")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 1 if self_test() else 0
    if not arguments.libraries:
        parser.error("name a library")
    wrong = [line for library in arguments.libraries for line in check(library)]
    for line in wrong:
        print(line)
    print(f"{len(arguments.libraries)} libraries, {len(wrong)} wrong symbols")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
