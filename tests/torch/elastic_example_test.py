"""The elastic example's comparison tells the story that its documents tell: the same course, and less work lost than by
restarts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import typing

import pytest
from long import LONG
from ranks import BUILD, PATIENCE_SECONDS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "elastic_training" / "compare.py"
# One rank leaves, one joins, one is killed, and the daemon is restarted.
SIZES = [4, 3, 4, 3, 3]

pytest.importorskip("sklearn", reason="scikit-learn is not installed (Debian: python3-sklearn)")


def compare(folder: pathlib.Path) -> tuple[dict[str, typing.Any], str]:
    """Runs the comparison, and returns its numbers and what it printed."""
    if not (BUILD / "bin" / "harmonaized").exists() or not (BUILD / "bin" / "harmonaize").exists():
        pytest.skip(f"there is no daemon or launcher in {BUILD}: build them, or set HARMONAIZE_BUILD")
    paths = [str(ROOT / "plugins" / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "HARMONAIZE_BUILD": str(BUILD),
        "HARMONAIZE_HOME": str(BUILD),
    }
    files = ["--json", str(folder / "numbers.json"), "--picture", str(folder / "picture.png")]
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), "--quick", *files],
        check=False,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
    )
    assert ended.returncode == 0, ended.stdout
    return json.loads((folder / "numbers.json").read_text()), ended.stdout


@LONG
def test_elastic_training_loses_less_than_restarts_and_ends_with_the_same_loss(tmp_path: pathlib.Path) -> None:
    numbers, said = compare(tmp_path)
    undisturbed, elastic, restarting = numbers["courses"]
    assert [one["sizes"] for one in numbers["courses"]] == [[4], SIZES, SIZES], said
    for one in (elastic, restarting):
        assert one["test_loss"] == pytest.approx(undisturbed["test_loss"], abs=numbers["noise"]), said
        assert [moment["what"] for moment in one["moments"]] == [
            "reclaim",
            "grow",
            "kill -9 of rank 0",
            "kill -9 of the daemon",
        ]
    assert undisturbed["steps_again"] == 0, said
    # At most the step that was under way, at each change.
    assert elastic["steps_again"] <= len(elastic["moments"]), said
    assert elastic["steps_again"] < restarting["steps_again"], said
    assert f"| steps done again | 0 | {elastic['steps_again']} | {restarting['steps_again']} |" in said
    if importlib.util.find_spec("matplotlib") is None:
        assert "There is no picture: Matplotlib is not installed" in said
    else:
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG"), said
