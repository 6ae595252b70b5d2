#!/usr/bin/env python3
"""Holds that what is loaded into tenants reads the environment by secure_getenv alone: the caller of a
setuid program must not steer it through variables.

What it reads by name, as Setting("NAME") or secure_getenv("NAME"), a program must be able to learn of: the names
stand in shim/parameters.cc, or below as names that belong to others.

    scripts/check-environment.py              checks the tree this script belongs to
    scripts/check-environment.py --root DIR   checks another tree
    scripts/check-environment.py --self-test  checks the checker on small trees
"""

import pathlib
import re
import sys
import tempfile

import tree_checker

FOLDERS = ["src", "shim", "plugins"]
PARAMETERS = pathlib.Path("shim") / "parameters.cc"
# Variables of the system, the loader and launchers, which steer nothing of ours alone.
OF_OTHERS = {"HOME", "LD_LIBRARY_PATH", "LOCAL_RANK", "RANK", "XDG_RUNTIME_DIR"}
SOURCES = {".h", ".c", ".cc", ".inc", ".cu", ".cuh"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# secure_getenv is one word, and is not found by this.
READS = re.compile(r"\b(getenv|environ|__environ)\b")
NAMED = re.compile(r'\b(?:Setting|secure_getenv|FromEnvironment)\("([A-Z_0-9]+)"\)')


def wrong_lines(root):
    """What reads the environment of a setuid program too, as lines to print, and the number of files read."""
    wrong = []
    files = 0
    listed = set(OF_OTHERS)
    if (root / PARAMETERS).is_file():
        listed.update(re.findall(r'"([A-Z_0-9]+)",', (root / PARAMETERS).read_text()))
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            files += 1
            # A comment's newlines stay, so that line numbers do.
            text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"),
                               file.read_text(errors="replace"))
            for match in READS.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                wrong.append(f"{file.relative_to(root)}:{line}: {match.group()} reads what the caller of a "
                             "setuid program chose: secure_getenv does not")
            for match in NAMED.finditer(text):
                # A plugin's variables are its own.
                if folder == "plugins" or match.group(1) in listed:
                    continue
                line = text.count("\n", 0, match.start()) + 1
                wrong.append(f"{file.relative_to(root)}:{line}: {match.group(1)} is read, and {PARAMETERS} does not "
                             "list it: ncclParamGetAllParameterKeys would not tell of it")
    return wrong, files


# Each: the folder of a source, the source, and the line of the one complaint; None for no complaint.
SELF_TESTS = [
    ("src", 'char* value = secure_getenv("HOME");\n', None),
    ("shim", '\nchar* value = secure_getenv("A");\n', 2),
    ("src", 'char* value = Setting("A");\n', 1),
    ("src", 'char* value = secure_getenv(name);\n', None),
    ("shim", 'char* value = std::getenv("A");\n', 1),
    ("plugins", '\nchar* value = getenv ("A");\n', 2),
    ("shim", "Read(std::getenv);\n", 1),
    ("src", "/* getenv\n */ // getenv\nextern char** environ;\n", 3),
    ("plugins", 'char* value = secure_getenv("A");\n', None),
]


def self_test():
    failures = 0
    for number, (folder_of_source, source, expected) in enumerate(SELF_TESTS, 1):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / folder_of_source / "some" / "a.cc"
            path.parent.mkdir(parents=True)
            path.write_text(source)
            wrong, files = wrong_lines(pathlib.Path(folder))
        good = not wrong if expected is None else len(wrong) == 1 and f"a.cc:{expected}:" in wrong[0]
        if not good or files != 1:
            failures += 1
            print(f"self-test {number}: expected a complaint at {expected}, got {wrong}")
    print(f"{len(SELF_TESTS) - failures} of {len(SELF_TESTS)} self-tests passed")
    return failures


if __name__ == "__main__":
    sys.exit(tree_checker.main(__doc__.splitlines()[0], wrong_lines, self_test,
                               "reads of the environment"))
