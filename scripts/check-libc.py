#!/usr/bin/env python3
"""Holds that what goes into containers needs no newer C library than those of supported systems have, and no library
besides: Ubuntu 22.04 has glibc 2.35, RHEL 9 has 2.34. A symbol of a newer one creeps in with a call, or with the C++
runtime that is linked statically.

    scripts/check-libc.py LIBRARY...    checks shared libraries, and programs, by readelf
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
# A library that has to be there: " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]".
LIBRARY = re.compile(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]")
# Those that each image with glibc has.
OF_GLIBC = re.compile(r"(ld-linux.*|libc|libdl|libm|libpthread|librt)\.so\.\d+")


def newer_symbols(said):
    """What of readelf's tables of symbols and of versions needs a C library newer than MOST."""
    newer = [f"{feature} needs glibc 2.36" for feature in FEATURE.findall(said)]
    for name, major, minor in NEEDED.findall(said):
        if (int(major), int(minor)) > MOST:
            newer.append(f"{name} needs glibc {major}.{minor}")
    return newer


def other_libraries(said):
    """What readelf's dynamic section says is needed of an image besides glibc."""
    return [f"needs {name}" for name in LIBRARY.findall(said) if not OF_GLIBC.fullmatch(name)]


def check(library):
    """What is wrong with the library, as lines to print."""
    said = subprocess.run(["readelf", "--wide", "--dynamic", "--dyn-syms", "--version-info", library], check=True,
                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    if not NEEDED.search(said):
        return [f"{library}: needs no symbol of glibc, which cannot be: is it a shared library?"]
    return [f"{library}: {line}, and containers with nothing but glibc {MOST[0]}.{MOST[1]} could not load it"
            for line in newer_symbols(said) + other_libraries(said)]


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
    (" 0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]", None),
    (" 0x0000000000000001 (NEEDED)             Shared library: [ld-linux-aarch64.so.1]", None),
    (" 0x0000000000000001 (NEEDED)             Shared library: [libcrypto.so.3]", "needs libcrypto.so.3"),
    (" 0x000000000000000e (SONAME)             Library soname: [libnccl.so.2]", None),
]


def self_test():
    """Returns how many self-tests have failed."""
    failures = 0
    for line, expected in SELF_TESTS:
        found = newer_symbols(line + "\n") + other_libraries(line + "\n")
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
    print(f"{len(arguments.libraries)} libraries, {len(wrong)} wrong needs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
