"""What the checks of the tree share: their command line, and the small trees by which they check themselves."""

import argparse
import pathlib
import tempfile


def run_self_tests(tests, check):
    """Writes each tree to a folder and checks it. `tests`: pairs of a tree, which is the text of each path, and what
    the one complaint must hold; None for no complaint. `check(root)` returns the complaints, and the number of files.
    Returns how many tests have failed."""
    failures = 0
    for number, (tree, expected) in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in tree.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            wrong, _ = check(root)
        good = not wrong if expected is None else len(wrong) == 1 and expected in wrong[0]
        if not good:
            failures += 1
            print(f"self-test {number}: expected {expected!r}, got {wrong}")
    print(f"{len(tests) - failures} of {len(tests)} self-tests passed")
    return failures


def main(description, check, self_test, what):
    """Runs a check by its command line and returns the status to exit with. `what` completes "3 wrong"."""
    parser = argparse.ArgumentParser(description=description)
    here = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=here)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 1 if self_test() else 0
    wrong, files = check(arguments.root.resolve())
    for line in wrong:
        print(line)
    print(f"{files} files, {len(wrong)} wrong {what}")
    return 1 if wrong or not files else 0
