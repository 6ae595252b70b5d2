#!/usr/bin/env python3
"""Holds the order of the project's layers: includes go down only, and a source includes its own
header first, so that compiling it shows that the header stands alone. Two headers of one namespace
do not define types of the same name: a program that sees both would not know which it gets.

    scripts/check-includes.py              checks the tree this script belongs to
    scripts/check-includes.py --root DIR   checks another tree
    scripts/check-includes.py --self-test  checks the checker on small bad trees
"""

import pathlib
import re
import sys

import tree_checker

# The library's modules, lowest first. Modules of one line are siblings and do not see each other.
LAYERS = [
    ["src/base"],
    ["src/numerics", "src/memory"],
    ["src/ipc", "src/schedule", "src/events", "src/requirements", "src/checkpoint"],
    ["src/topology", "src/transport", "src/probing", "src/store"],
    ["src/planner", "src/executor"],
    ["src/client"],
]

LIBRARY = [module for layer in LAYERS for module in layer]
# Stores of checkpoints are written by processes of tenants, and by the daemon's own room for that.
BELOW_CLIENT = [module for module in LIBRARY if module not in ("src/client", "src/store")]

# What brings libraries that must not be loaded into a tenant (hwloc, libcrypto, UCX), or is of no use there (events are
# made by daemons; a tenant gets them as text): the client and what stands on it go without, and so must whatever the
# client includes.
NOT_FOR_TENANTS = ["src/topology", "src/transport", "src/probing", "src/events", "src/store"]
TENANT_SIDE = [module for module in LIBRARY if module not in NOT_FOR_TENANTS]

# The daemon's rooms, lowest first, as the library's modules.
DAEMON_LAYERS = [
    ["daemon/config"],
    ["daemon/quota"],
    ["daemon/identity"],
    ["daemon/runtime"],
    ["daemon/events", "daemon/sources"],
    ["daemon/http", "daemon/nats"],
    ["daemon/host"],
    ["daemon/tenant"],
    ["daemon/jobs"],
    ["daemon/profiles"],
    ["daemon/promises"],
    ["daemon/cluster"],
    ["daemon/links", "daemon/transfer"],
    ["daemon/plans", "daemon/sharing"],
    ["daemon/communicator", "daemon/nccl_tuning"],
    ["daemon/multihost"],
    ["daemon/formation"],
    ["daemon/diagnosis"],
    ["daemon/job_events"],
    ["daemon/requirements", "daemon/adaptation"],
    ["daemon/checkpoint_advice"],
    ["daemon/agents"],
    ["daemon/offers", "daemon/elasticity"],
    ["daemon/sizing", "daemon/provider_store"],
    ["daemon/checkpoint"],
    ["daemon/control"],
    ["daemon/probing"],
    ["daemon/reports"],
    ["daemon/metrics"],
    ["daemon/access"],
    ["daemon/page"],
    ["daemon/api"],
    ["daemon/ras"],
    ["daemon/main"],
]
DAEMON = [module for layer in DAEMON_LAYERS for module in layer]

# What stands on the library sees of it what is listed here, and itself.
TOPS = {
    # The public headers stand alone: a user gets nothing else.
    "include": [],
    # Tenants run it, but do not load it: it may bring hwloc along. Daemons alone talk to daemons.
    "cli": [module for module in LIBRARY if module != "src/transport"],
    # It writes the checkpoints of a rank, as a process of its own.
    "writer": ["src/base", "src/ipc", "src/checkpoint", "src/store"],
    "shim": TENANT_SIDE + ["include"],
    "plugins": TENANT_SIDE + ["include"],
    "perf": ["include", "src/base", "src/numerics", "src/topology", "src/transport"],
    # The laboratory launches daemons and ranks as the command line does.
    "perf/fabric": ["cli", "src/base", "src/ipc", "src/planner", "src/probing", "src/topology"],
    # It calls plugins as NCCL does, and asks the daemon what came of it.
    "perf/nccl": ["plugins", "include", "src/base", "src/ipc"],
    # Schedules over the transport, without daemon and tenants.
    "perf/network": ["perf"] + BELOW_CLIENT,
    # It runs plans, and reads its options as the command line does.
    "perf/simulator": ["cli", "src/base", "src/planner", "src/schedule", "src/topology"],
    # It carries out what the policy decides, for jobs that are values.
    "perf/elasticity": ["daemon/elasticity", "src/base"],
    # It asks for advice as the daemon does, for a job that is a value.
    "perf/checkpoints": ["daemon/checkpoint_advice", "perf/elasticity", "src/base"],
    "examples": ["include", "src/base", "src/numerics"],
    # Tests may look everywhere; nobody looks into the tests.
    "tests": LIBRARY + DAEMON + ["include", "daemon", "cli", "writer", "shim", "plugins", "perf",
                        "perf/checkpoints", "perf/elasticity", "perf/fabric", "perf/nccl", "perf/network", "perf/simulator", "examples"],
}

# Modules that see less than their layer would let them.
ONLY_SEES = {
    "src/events": ["src/base"],
    "src/checkpoint": ["src/base"],
    "src/topology": ["src/base", "src/schedule"],
    "src/probing": ["src/base"],
    "src/store": ["src/base", "src/checkpoint"],
    "src/transport": ["src/base", "src/numerics", "src/memory", "src/ipc", "src/schedule"],
    # It is simulated without a daemon.
    "daemon/elasticity": ["src/base"],
}

SOURCES = {".h", ".hpp", ".c", ".cc", ".cpp", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def may_see():
    """Each module's name, and the modules that it may include."""
    seen = {}
    below = []
    for layer in LAYERS:
        for module in layer:
            seen[module] = below + [module]
            if module in ONLY_SEES:
                seen[module] = ONLY_SEES[module] + [module]
            elif module == "src/client":
                seen[module] = [one for one in seen[module] if one not in NOT_FOR_TENANTS]
        below = below + layer
    for top, allowed in TOPS.items():
        seen[top] = allowed + [top]
    # What the build makes lies in daemon/ itself.
    below = BELOW_CLIENT + ["daemon"]
    for layer in DAEMON_LAYERS:
        for module in layer:
            seen[module] = below + [module]
        below = below + layer
    seen["daemon/provider_store"].append("src/store")
    seen["daemon"] = BELOW_CLIENT + ["daemon"]
    return seen


def module_of(path):
    """The module that a path relative to the root belongs to, or None."""
    parts = pathlib.PurePosixPath(path).parts
    if not parts:
        return None
    if parts[0] == "src":
        return "/".join(parts[:2]) if len(parts) > 2 else None
    if parts[0] == "daemon":
        return "/".join(parts[:2]) if len(parts) > 2 else "daemon"
    if "/".join(parts[:2]) in TOPS and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in TOPS else None


def includes_in(text):
    """(line number, opening character, name) of each include that is no comment."""
    # A comment's newlines stay, so that line numbers do.
    text = BLOCK_COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def public_header(root, name):
    """The path of a public header that is included as a user includes it."""
    path = "include/" + name
    return path if "/" not in name and (root / path).is_file() else None


def why_not(root, path, module, mark, name, seen):
    """Why this include is wrong, or None."""
    is_project_path = module_of(name) is not None
    # A header may be made from a template of its name.
    if is_project_path and any((root / (name + end)).is_file() for end in ("", ".in")):
        if mark == "<":
            return "the project's own files are included with quotation marks"
        target = name
    elif (target := public_header(root, name)) is not None:
        # <nccl.h> may be NVIDIA's: that is for whoever compares with it.
        if mark == "<" and "include" not in seen[module]:
            return None
    elif mark == "<":
        return None
    elif (root / path).parent.joinpath(name).is_file():
        if module == "examples":
            return None  # what is made to be copied knows no root
        return f'write it from the project\'s root: "{(pathlib.PurePosixPath(path).parent / name)}"'
    elif module == "tests":
        return None  # made by the build
    else:
        return "there is no such file in the project; others' headers are included with <>"
    if module_of(target) in seen[module]:
        return None
    return explain(module, module_of(target), seen)


def explain(module, target, seen):
    allowed = [name for name in seen[module] if name != module]
    can = "nothing but itself" if not allowed else ", ".join(allowed)
    if module.startswith("src/") and target.startswith("src/"):
        reason = "includes go down only"
        if any(module in layer and target in layer for layer in LAYERS):
            reason = "siblings do not see each other"
    elif module.startswith("daemon") and target == "src/client":
        reason = "daemon and client share src/ipc and what is below it, and no more"
    elif module.startswith("daemon") and target.startswith("daemon"):
        reason = "the daemon's rooms see those below them"
    elif module.startswith("src/"):
        reason = "nothing in src/ knows who calls it"
    else:
        reason = f"{module} stands beside it"
    return f"{reason}: {module} may include {can}"


def lacks_guard(file, folder, text):
    # The public headers are C's own style; Highway includes an -inl.h once for each target.
    if file.suffix not in {".h", ".hpp"} or folder == "include" or file.stem.endswith("-inl"):
        return False
    return "#pragma once" not in text


# A type that a header defines for all, not within another type or a function: it begins its line.
TYPE = re.compile(r"^(?:class|struct|union|enum class) (?:\[\[nodiscard\]\] )?(\w+)(?: final)?"
                  r"(?:\s*:[^:;{][^;{]*)?\s*\{", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)


def types_in(text):
    """The types that a header defines, with their namespace."""
    text = BLOCK_COMMENT.sub("", text)
    spaces = list(NAMESPACE.finditer(text))
    for match in TYPE.finditer(text):
        before = [space.group(1) for space in spaces if space.start() < match.start()]
        yield (before[-1] if before else "", match.group(1))


def own_header_late(root, path, includes):
    """Where a source includes another header before its own, as (line, name of its own), or None."""
    own = path.with_suffix(".h")
    if path.suffix != ".cc" or not (root / own).is_file():
        return None
    if not includes:
        return 1, own.as_posix()
    line, _, name = includes[0]
    return None if name == own.as_posix() else (line, own.as_posix())


def check(root):
    """The wrong includes of a tree, as lines to print, and the number of files read."""
    seen = may_see()
    wrong = []
    files = 0
    defined = {}
    # A module within another's folder is found there.
    for folder in ["src", "daemon"] + [top for top in TOPS if "/" not in top]:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            module = module_of(path)
            files += 1
            if module is None or module not in seen:
                wrong.append(f"{path}:1: belongs to no module that scripts/check-includes.py knows")
                continue
            text = file.read_text(errors="replace")
            if lacks_guard(file, folder, text):
                wrong.append(f"{path}:1: lacks #pragma once")
            if file.suffix == ".h" and folder in {"src", "daemon", "cli", "shim", "writer"}:
                for name in types_in(text):
                    if name in defined:
                        wrong.append(f"{path}:1: defines {'::'.join(name)}, as {defined[name]} does")
                    defined.setdefault(name, path)
            includes = list(includes_in(text))
            if folder != "tests" and (late := own_header_late(root, file.relative_to(root), includes)):
                wrong.append(f"{path}:{late[0]}: includes something before its own {late[1]}")
            for line, mark, name in includes:
                reason = why_not(root, path, module, mark, name, seen)
                if reason:
                    wrong.append(f"{path}:{line}: includes {name}, but {reason}")
    return wrong, files


# Each: a tree, and what the one complaint must hold; None for no complaint.
SELF_TESTS = [
    ({"src/base/a.h": "", "src/ipc/b.cc": '#include "src/base/a.h"\n'}, None),
    ({"src/base/a.cc": '\n#include "src/ipc/b.h"\n', "src/ipc/b.h": ""},
     "src/base/a.cc:2: includes src/ipc/b.h, but includes go down only"),
    ({"src/ipc/a.cc": '#include "src/schedule/b.h"\n', "src/schedule/b.h": ""}, "siblings"),
    ({"src/numerics/a.cc": '#include "src/base/b.h"\n', "src/base/b.h": ""}, None),
    ({"daemon/a.cc": '#include "src/client/b.h"\n', "src/client/b.h": ""}, "share src/ipc"),
    ({"daemon/a.cc": '#include "src/executor/b.h"\n', "src/executor/b.h": ""}, None),
    ({"src/client/a.cc": '#include "daemon/b.h"\n', "daemon/b.h": ""}, "who calls it"),
    ({"src/client/a.cc": '#include "nccl.h"\n', "include/nccl.h": ""}, "who calls it"),
    ({"shim/a.cc": '#include "nccl.h"\n', "include/nccl.h": ""}, None),
    ({"shim/a.cc": '#include "daemon/b.h"\n', "daemon/b.h": ""}, "stands beside"),
    ({"perf/a.cc": '#include "src/client/b.h"\n', "src/client/b.h": ""}, "perf may include"),
    ({"perf/fabric/a.cc": '#include "cli/b.h"\n', "cli/b.h": ""}, None),
    ({"perf/a.cc": '#include "cli/b.h"\n', "cli/b.h": ""}, "perf may include"),
    ({"examples/a.c": '#include <nccl.h>\n', "include/nccl.h": ""}, None),
    ({"include/h.h": '#include "src/base/b.h"\n', "src/base/b.h": ""}, "nothing but itself"),
    ({"src/base/a.cc": '#include "b.h"\n', "src/base/b.h": ""}, 'root: "src/base/b.h"'),
    ({"src/base/a.cc": '#include "fmt/format.h"\n'}, "no such file"),
    ({"src/base/a.cc": "#include <fmt/format.h>\n"}, None),
    ({"src/base/a.cc": '#include <src/base/b.h>\n', "src/base/b.h": ""}, "quotation marks"),
    ({"src/base/a.cc": '// #include "src/ipc/b.h"\n/*\n#include "src/ipc/b.h"\n*/\n',
      "src/ipc/b.h": ""}, None),
    ({"src/base/a.cc": '  #  include "src/ipc/b.h"\n', "src/ipc/b.h": ""}, "go down only"),
    ({"daemon/a.cc": '#include "daemon/b.h"\n', "daemon/b.h.in": ""}, None),
    ({"examples/a.c": '#include "b.h"\n', "examples/b.h": ""}, None),
    ({"src/base/a.h": "int a;\n"}, "lacks #pragma once"),
    ({"src/numerics/a-inl.h": "int a;\n"}, None),
    ({"src/base/a.cc": '#include "src/base/a.h"\n', "src/base/a.h": ""}, None),
    ({"src/base/a.cc": '#include <string>\n#include "src/base/a.h"\n', "src/base/a.h": ""},
     "before its own"),
    ({"src/unheard/a.cc": ""}, "no module"),
    ({"src/client/a.cc": '#include "src/topology/b.h"\n', "src/topology/b.h": ""},
     "src/client may include"),
    ({"shim/a.cc": '#include "src/topology/b.h"\n', "src/topology/b.h": ""}, "shim may include"),
    ({"src/topology/a.cc": '#include "src/schedule/b.h"\n', "src/schedule/b.h": ""}, None),
    ({"src/topology/a.cc": '#include "src/ipc/b.h"\n', "src/ipc/b.h": ""},
     "src/topology may include"),
    ({"src/executor/a.cc": '#include "src/topology/b.h"\n', "src/topology/b.h": ""}, None),
    ({"src/transport/a.cc": '#include "src/topology/b.h"\n', "src/topology/b.h": ""},
     "src/transport may include"),
    ({"src/client/a.cc": '#include "src/transport/b.h"\n', "src/transport/b.h": ""},
     "src/client may include"),
    ({"cli/a.cc": '#include "src/transport/b.h"\n', "src/transport/b.h": ""}, "cli may include"),
    ({"src/probing/a.cc": '#include "src/ipc/b.h"\n', "src/ipc/b.h": ""},
     "src/probing may include"),
    ({"perf/fabric/a.cc": '#include "src/probing/b.h"\n', "src/probing/b.h": ""}, None),
    ({"daemon/a.cc": '#include "src/transport/b.h"\n', "src/transport/b.h": ""}, None),
    ({"tests/unit/a.cc": '#include "daemon/b.h"\n', "daemon/b.h": ""}, None),
    ({"daemon/a.cc": '#include "tests/b.h"\n', "tests/b.h": ""}, "stands beside"),
    ({"daemon/formation/a.cc": '#include "daemon/communicator/b.h"\n', "daemon/communicator/b.h": ""},
     None),
    ({"daemon/cluster/a.cc": '#include "daemon/formation/b.h"\n', "daemon/formation/b.h": ""},
     "see those below them"),
    ({"daemon/links/a.cc": '#include "daemon/sharing/b.h"\n', "daemon/sharing/b.h": ""},
     "see those below them"),
    ({"daemon/unheard/a.cc": ""}, "no module"),
    ({"src/base/a.h": "#pragma once\nnamespace h {\nstruct A {\n};\n}\n",
      "src/ipc/b.h": "#pragma once\nnamespace h {\nclass A final : public B {\n};\n}\n"},
     "src/ipc/b.h:1: defines h::A, as src/base/a.h does"),
    ({"src/base/a.h": "#pragma once\nnamespace h {\nstruct A {\n};\n}\n",
      "src/ipc/b.h": "#pragma once\nnamespace g {\nstruct A {\n};\n}\n"}, None),
    ({"src/base/a.h": "#pragma once\nnamespace h {\nstruct A {\n};\n}\n",
      "src/ipc/b.h": "#pragma once\nnamespace h {\nclass A;\nclass B {\n  struct A {\n  };\n};\n}\n"},
     None),
]


def with_guards(tree):
    """A header without a text stands for one that holds nothing wrong."""
    return {path: "#pragma once\n" if path.endswith(".h") and not text else text
            for path, text in tree.items()}


def self_test():
    return tree_checker.run_self_tests([(with_guards(tree), expected) for tree, expected in SELF_TESTS],
                                       check)


if __name__ == "__main__":
    sys.exit(tree_checker.main(__doc__.splitlines()[0], check, self_test, "includes"))
