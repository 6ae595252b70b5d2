#!/usr/bin/env python3
"""Checks that every path of the project that a document names exists: paths between backticks that begin
with one of the project's folders, and the targets of links, with their headings.

    scripts/check-docs.py              checks the tree this script belongs to
    scripts/check-docs.py --root DIR   checks another tree
    scripts/check-docs.py --self-test  checks the checker on small trees
"""

import itertools
import re
import sys

import tree_checker

FOLDERS = ["src", "daemon", "cli", "shim", "tests", "perf", "scripts", "docs", "examples", "include", "cmake",
           "writer"]
# A header may be named without its ending. A name in capitals stands for many.
ENDINGS = ["", ".h", ".cc"]
NAMED = re.compile(r"`((?:%s)/[\w./{},*+-]*)`" % "|".join(FOLDERS))
PLACEHOLDER = re.compile(r"(?<![A-Za-z])[A-Z]{2,}(?![a-z])")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def alternatives(path):
    """`a/{b,c}.h` as a/b.h and a/c.h."""
    parts = re.split(r"\{([^}]*)\}", path)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def exists(root, path):
    if PLACEHOLDER.search(path):
        return True
    if "*" in path:
        return any(root.glob(path))
    return any((root / (path + end)).exists() for end in ENDINGS)


def anchors(text):
    """The names by which a page's headings are linked to."""
    names = set()
    for heading in HEADING.findall(CODE_BLOCK.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        names.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return names


def check(root):
    """What is wrong, as lines to print, and the number of documents."""
    wrong = []
    documents = sorted(p for p in root.rglob("*.md")
                       if not {"build", ".git"} & set(p.relative_to(root).parts))
    for document in documents:
        text = document.read_text()
        name = document.relative_to(root).as_posix()
        for number, line in enumerate(text.splitlines(), 1):
            for path in NAMED.findall(line):
                missing = [one for one in alternatives(path) if not exists(root, one)]
                wrong += [f"{name}:{number}: names {one}, which does not exist" for one in missing]
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                page = document if not file else (document.parent / file)
                if not page.exists():
                    wrong.append(f"{name}:{number}: links to {target}, which does not exist")
                elif anchor and page.suffix == ".md" and anchor not in anchors(page.read_text()):
                    wrong.append(f"{name}:{number}: links to {target}: there is no such heading")
    return wrong, len(documents)


# Each: a tree, and what the one complaint must hold; None for no complaint.
SELF_TESTS = [
    ({"docs/a.md": "see `src/base/b.h`\n", "src/base/b.h": ""}, None),
    ({"docs/a.md": "\nsee `src/base/b.h`\n"}, "docs/a.md:2: names src/base/b.h"),
    ({"docs/a.md": "see `src/base/b`\n", "src/base/b.h": ""}, None),
    ({"docs/a.md": "see `src/{a,b}/c.h`\n", "src/a/c.h": ""}, "src/b/c.h"),
    ({"docs/a.md": "see `src/*/c.h`\n", "src/a/c.h": ""}, None),
    ({"docs/a.md": "see `src/*/c.h`\n"}, "src/*/c.h"),
    ({"docs/a.md": "see `tests/fuzz/TARGET_fuzzer.cc`\n"}, None),
    ({"docs/a.md": "see [b](b.md)\n", "docs/b.md": ""}, None),
    ({"docs/a.md": "see [b](b.md)\n"}, "links to b.md"),
    ({"docs/a.md": "see [b](b.md#some-heading)\n", "docs/b.md": "## Some heading\n"}, None),
    ({"docs/a.md": "see [b](b.md#other)\n", "docs/b.md": "## Some heading\n"}, "no such heading"),
    ({"docs/a.md": "# `A` and b\nsee [b](#a-and-b), [c](https://example.org/none)\n"}, None),
]


if __name__ == "__main__":
    sys.exit(tree_checker.main(__doc__.splitlines()[0], check,
                               lambda: tree_checker.run_self_tests(SELF_TESTS, check), "names"))
