"""Events as they come: of ranks that are lost, filtered, closed, and after a break."""

from __future__ import annotations

import asyncio
import gc
import os
import pathlib
import signal
import socket
import threading
import time

import pytest

import harmonaize
from daemons import PATIENCE_SECONDS, Daemon, Job, daemon_in_folder, eventually, job_at, next_event


def cut(stream: harmonaize.EventStream) -> None:
    """Cuts the stream's connection, as a network may."""
    connection = stream._connection
    assert connection is not None
    connection._socket.shutdown(socket.SHUT_RDWR)


def test_the_iterator_hears_of_a_killed_rank(daemon: Daemon) -> None:
    with job_at(daemon, "killed") as job, daemon.client().events("rank.*", "killed") as events:
        job.signal(1, signal.SIGKILL)
        event = next(iter(events))
        assert isinstance(event, harmonaize.Event)
        assert (event.name, event.ranks, event.severity) == ("rank.lost", (1,), "ERROR")
        assert (event.job, event.data["why"], event.severity_number) == (job.id, "killed", 17)
        assert "1" in event.text
        assert event.sequence is not None


def test_asyncio_hears_of_a_stopped_rank(daemon: Daemon) -> None:
    async def listen(job: Job) -> harmonaize.Event:
        async with daemon.client().events_async(["rank.late"], "stopped") as events:
            job.signal(1, signal.SIGSTOP)
            job.reduce(0)
            async for event in events:
                assert isinstance(event, harmonaize.Event)
                return event
        raise AssertionError("the stream has ended")

    with job_at(daemon, "stopped") as job:
        event = asyncio.run(listen(job))
        assert (event.name, event.ranks, event.data["doing"]) == ("rank.late", (1,), "stopped")
        assert event.subject == "ranks/1"


def test_asyncio_needs_no_block_and_connects_by_itself(daemon: Daemon, job: Job) -> None:
    async def await_text(events: harmonaize.AsyncEventStream, text: str) -> None:
        async for event in events:
            if isinstance(event, harmonaize.Event) and event.text == text:
                return
        raise AssertionError("the stream has ended")

    async def listen() -> None:
        await await_text(daemon.client().events_async("power.limited", job.name, start="start"), "first")
        events = daemon.client().events_async("power.limited", job.name, start="start")
        await await_text(events, "first")
        # The loop that was left has dropped its connection, and the next one goes on.
        await await_text(events, "second")

    daemon.tell(job.id, "first")
    daemon.tell(job.id, "second")
    asyncio.run(listen())
    gc.collect()


def test_asyncio_can_be_cancelled_and_goes_on(daemon: Daemon, job: Job) -> None:
    async def listen() -> None:
        async with daemon.client().events_async(job=job.id) as events:
            waiting = asyncio.create_task(events.next())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await events.next()
            assert await events.next(timeout=0) is None
            await asyncio.to_thread(daemon.tell, job.id, "after the cancelling")
            event = await events.next(PATIENCE_SECONDS)
            assert isinstance(event, harmonaize.Event)
            assert event.text == "after the cancelling"

    asyncio.run(listen())


def test_closing_ends_what_waits_in_asyncio(daemon: Daemon) -> None:
    async def listen() -> None:
        events = daemon.client().events_async()
        async with events:
            waiting = asyncio.create_task(events.next())
            await asyncio.sleep(0.02)
            with pytest.raises(RuntimeError, match="another task"):
                await events.next()
            events.close()
            assert await waiting is None
            assert [event async for event in events] == []

    asyncio.run(listen())


def test_asyncio_goes_on_after_a_cut(daemon: Daemon, job: Job) -> None:
    async def listen() -> None:
        async with daemon.client().events_async("power.limited", job.id) as events:
            for number in range(3):
                assert events._connection is not None
                events._connection.close()
                await asyncio.to_thread(daemon.tell, job.id, f"after cut {number}")
                event = await events.next(PATIENCE_SECONDS)
                assert isinstance(event, harmonaize.Event)
                assert event.text == f"after cut {number}"

    asyncio.run(listen())


def test_only_what_is_asked_for_comes(daemon: Daemon) -> None:
    with (
        job_at(daemon, "one") as one,
        job_at(daemon, "two") as two,
        daemon.client().events(job=one.id[:12]) as of_one,
        daemon.client().events("rank.*", start="start") as of_ranks,
        daemon.client().events(severity="ERROR") as severe,
    ):
        for job in (two, one):
            daemon.tell(job.id, f"to {job.name}")
        assert next_event(of_one).text == "to one"
        two.signal(0, signal.SIGKILL)
        # Those of the start are there as well.
        while next_event(of_ranks).job != two.id:
            pass
        event = next_event(severe)
        assert (event.job, event.name) == (two.id, "rank.lost")
        assert of_one.next(timeout=0) is None


def test_names_that_nobody_knows_are_refused(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    with pytest.raises(harmonaize.ProblemError, match=r"rank\.late") as caught:
        client.events("rank.lat")
    assert caught.value.status == 400
    with pytest.raises(harmonaize.ProblemError, match="no event is kept"):
        client.events(job="nobody's")
    with pytest.raises(harmonaize.ProblemError, match="severity"):
        client.events(severity="LOUD")
    with pytest.raises(harmonaize.ProblemError, match="id"):
        client.events(after="yesterday")

    async def listen() -> None:
        async with client.events_async("rank.lat", job.name):
            pass

    with pytest.raises(harmonaize.ProblemError, match=r"rank\.late"):
        asyncio.run(listen())
    with pytest.raises(ValueError, match="'start' or 'now'"):
        client.events(start="yesterday")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="visible"):
        client.events(after="id\r\nX-Header: 1")
    with pytest.raises(ValueError, match="not empty"):
        client.events(job="")


def test_a_loop_with_a_timeout_ends_and_another_goes_on(daemon: Daemon, job: Job) -> None:
    with daemon.client().events("power.limited", job.id, timeout=0.01) as events:
        assert list(events) == []
        assert events.connected
        daemon.tell(job.id, "later")
        assert next_event(events).text == "later"
        assert list(events) == []


def test_a_thread_and_a_signal_end_the_waiting(daemon: Daemon) -> None:
    events = daemon.client().events()
    closing = threading.Timer(0.05, events.close)
    closing.start()
    assert events.next() is None
    closing.join()
    assert events.next() is None
    assert list(events) == []

    by_signal = daemon.client().events()
    before = signal.signal(signal.SIGUSR1, lambda *_: by_signal.close())
    raising = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    raising.start()
    assert by_signal.next() is None
    raising.join()
    signal.signal(signal.SIGUSR1, before)


def test_streams_that_nobody_closes_give_their_descriptors_back(daemon: Daemon) -> None:
    client = daemon.client()
    client.events()
    descriptors = pathlib.Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(10):
        client.events()
    assert len(list(descriptors.iterdir())) == before


def test_a_cut_connection_loses_nothing(daemon: Daemon, job: Job) -> None:
    with daemon.client().events("power.limited", job.id) as events:
        for number in range(3):
            # The first cut comes before any event was heard.
            cut(events)
            daemon.tell(job.id, f"during cut {number}")
            daemon.tell(job.id, f"during cut {number} again")
            assert next_event(events).text == f"during cut {number}"
            cut(events)
            assert next_event(events).text == f"during cut {number} again"
        assert events.next(timeout=0) is None


def test_a_stream_goes_on_where_another_was(daemon: Daemon, job: Job) -> None:
    client = daemon.client()
    with client.events("power.limited", job.id) as events:
        start = events.position
        daemon.tell(job.id, "first")
        first = next_event(events)
    assert events.position == first.cursor
    daemon.tell(job.id, "second")
    for after, expected in ((first.cursor, ["second"]), (first.id, ["second"]), (start, ["first", "second"])):
        with client.events("power.limited", job.id, after, timeout=0.2) as events:
            assert [event.text for event in events] == expected
        assert [event.text for event in client.kept_events("power.limited", job.id, after)] == expected


def test_kept_events_come_from_all_pages(daemon: Daemon, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harmonaize.kept_events._EVENTS_OF_PAGE", 2)
    for number in range(5):
        daemon.tell(job.id, f"page {number}")
    kept = [event.text for event in daemon.client().kept_events("power.limited", "llama")]
    assert kept[-5:] == [f"page {number}" for number in range(5)]


def test_a_stream_outlives_a_restart_of_the_daemon() -> None:
    with daemon_in_folder() as daemon, job_at(daemon, "restart") as job:
        client = daemon.client()
        with client.events(job=job.id) as events:
            daemon.tell(job.id, "before")
            assert next_event(events).text == "before"
            heard: list[harmonaize.Event | harmonaize.Missed] = []
            daemon.stop()
            job.end()
            while (event := events.next(timeout=0.2)) is not None:
                heard.append(event)
            assert not events.connected
            with pytest.raises(harmonaize.NoDaemonError):
                client.jobs()
            daemon.start()
            with job_at(daemon, "restart"):
                daemon.tell(job.id, "after")
                while not (
                    isinstance(event := events.next(PATIENCE_SECONDS), harmonaize.Event) and event.text == "after"
                ):
                    assert event is not None
                    heard.append(event)
            assert all(isinstance(event, harmonaize.Event) for event in heard)
            kept = [event.text for event in client.kept_events(job=job.id)]
            # What came at the very end of the daemon may be told only afterwards, and nothing twice.
            assert ["before", *(event.text for event in heard), "after"] == kept[: len(heard) + 2]


def test_what_is_kept_no_more_is_counted() -> None:
    with daemon_in_folder("[events]\nkeep_seconds = 1\n") as daemon, job_at(daemon, "late") as job:
        client = daemon.client()
        with client.events(job=job.id) as events:
            daemon.tell(job.id, "heard")
            heard = next_event(events)
        for number in range(3):
            daemon.tell(job.id, f"missed {number}")

        def has_missed() -> harmonaize.Missed | None:
            daemon.tell(job.id, "kept")
            first = next(client.kept_events(job=job.id, after=heard.cursor))
            return first if isinstance(first, harmonaize.Missed) and first.count >= 3 else None

        missed = eventually("events are kept no more", has_missed)
        assert missed.name == "events.missed"
        with client.events(job=job.id, after=heard.cursor) as events:
            notice = events.next(PATIENCE_SECONDS)
            assert isinstance(notice, harmonaize.Missed)
            assert notice.count >= 3
            assert notice.type == "io.harmonaize.events.missed"
            assert next_event(events).text == "kept"

        async def listen() -> harmonaize.Event | harmonaize.Missed | None:
            async with client.events_async(job=job.id, after=heard.cursor) as following:
                return await following.next(PATIENCE_SECONDS)

        assert isinstance(asyncio.run(listen()), harmonaize.Missed)


def test_a_daemon_that_falls_silent_is_left(daemon: Daemon, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon.client().events("power.limited", job.id) as events:
        monkeypatch.setattr("harmonaize.event_stream.SILENCE_SECONDS", 0.05)
        first = events._connection
        deadline = time.monotonic() + PATIENCE_SECONDS
        while events._connection is first:
            assert events.next(timeout=0.1) is None
            assert time.monotonic() < deadline
        monkeypatch.undo()
        daemon.tell(job.id, "after the silence")
        assert next_event(events).text == "after the silence"


def test_types_of_events_are_listed(daemon: Daemon) -> None:
    types = {one.type: one for one in daemon.client().event_types()}
    assert types["io.harmonaize.rank.lost"].severity == "ERROR"
    assert daemon.client().call("GET", types["io.harmonaize.rank.lost"].schema)["type"] == "object"
