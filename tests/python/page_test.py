"""The examples of docs/python.md do what the page says."""

from __future__ import annotations

import asyncio
import pathlib
import re
import signal
import threading
import time
import typing

import pytest

import harmonaize
from daemons import PATIENCE_SECONDS, Daemon, Job, eventually, job_at

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


@pytest.fixture
def page(daemon: Daemon, job: Job, monkeypatch: pytest.MonkeyPatch) -> dict[str, typing.Any]:
    """What the page's examples have defined, after all of them have run."""
    assert job.name == "llama"
    monkeypatch.setenv("HARMONAIZE_SOCKET", str(daemon.socket))
    return run_examples()


def run_examples() -> dict[str, typing.Any]:
    """Runs all examples, and returns what they have defined."""
    names: dict[str, typing.Any] = {}
    for number, text in enumerate(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)):
        exec(compile(text, f"{PAGE.name}, example {number + 1}", "exec"), names)  # noqa: S102
    return names


def test_the_examples_run(
    daemon: Daemon, job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARMONAIZE_SOCKET", str(daemon.socket))
    page = run_examples()
    said = capsys.readouterr().out
    assert "world ready 2 ranks" in said
    assert "404 there is no such job here" in said
    assert page["client"].job("llama").id == job.id


def test_the_loop_saves_and_acknowledges(
    page: dict[str, typing.Any], daemon: Daemon, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMONAIZE_JOB", job.name)
    saved: list[int] = []
    maintenance = ""

    def train_step(step: int) -> None:
        nonlocal maintenance
        if step == 2:
            maintenance = daemon.announce(3600)
        # A step takes long enough for what was announced to come.
        time.sleep(0.05)

    def any_rank(yes: bool) -> bool:  # noqa: FBT001
        return yes

    def has_saved() -> bool:
        page["train"](0, 6, train_step, any_rank, saved.append)
        return bool(saved)

    eventually("the loop has heard of it", has_saved)
    (promise,) = (one for one in daemon.client().promises().promises if one.id == maintenance)
    assert promise.told[0].acknowledged is not None
    (event,) = (
        event
        for event in daemon.client().kept_events("maintenance.scheduled", job.id)
        if isinstance(event, harmonaize.Event) and event.data["maintenance"] == maintenance
    )
    page["ask_for_ten_minutes"](daemon.client(), event)
    daemon.withdraw(maintenance)
    # An answer that comes too late is told, and does not end the loop.
    page["acknowledge"](daemon.client(), event)


def test_the_examples_hear_of_a_lost_rank(
    page: dict[str, typing.Any], daemon: Daemon, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill(other: Job) -> None:
        other.signal(1, signal.SIGKILL)

    # The job's name is the shared one's, so this is the same job.
    for listen in (page["watch"], lambda client: asyncio.run(page["first_loss"](client))):
        with job_at(daemon, "llama") as other:
            killing = threading.Timer(0.3, kill, (other,))
            killing.start()
            listen(daemon.client())
            killing.join(PATIENCE_SECONDS)
    assert "ranks (1,) are gone: killed" in capsys.readouterr().out
    assert job.id in {one.id for one in daemon.client().jobs()}


def test_the_examples_answer_offers(page: dict[str, typing.Any], daemon: Daemon, job: Job) -> None:
    operator = daemon.operator()

    def answered(spare_ranks: int, kind: typing.Literal["grow", "reclaim"], ranks: int) -> harmonaize.Offer:
        offer = operator.make_offer(job.name, kind, ranks=ranks, within_seconds=600, insist=True)
        page["answer_offers"](daemon.client(), job.name, spare_ranks)
        answered = operator.offer(offer)
        if not answered.ended:
            operator.withdraw_offer(offer)
        return answered

    assert answered(0, "grow", 4).state == "accepted"
    assert answered(1, "reclaim", 1).state == "accepted"
    countered = answered(1, "reclaim", 2)
    assert countered.counter is not None
    assert countered.counter.ranks == 1
    assert answered(0, "reclaim", 2).state == "declined"


def test_the_page_names_what_there_is() -> None:
    text = PAGE.read_text()
    table = re.findall(r"^\| `(\w+)", text, re.MULTILINE)
    for name in table:
        assert hasattr(harmonaize.Client, name) or hasattr(harmonaize, name), name
    for link in re.findall(r"\]\(([\w/-]+\.md)", text):
        assert (PAGE.parent / link).exists(), link
    calls = {name for name in vars(harmonaize.Client) if not name.startswith("_")}
    assert [name for name in sorted(calls) if f"{name}(" not in text] == []
