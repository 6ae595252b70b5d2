#!/usr/bin/env python3
"""Metrics and usage of live daemons: who may read them, that they count what a job does, and that
usage outlives a daemon.

    metrics_test.py PROGRAMS

PROGRAMS is the folder of harmonaized and all_reduce_perf.
"""

import os
import pathlib
import sys

from live_daemons import (UnixConnection, ask, eventually, run_job,
                          samples_in, two_daemons)

OTHER_USER = 1001
# What other routes there are, as far as a caller that may read metrics could try them.
OTHER_TARGETS = [("GET", target) for target in
                 ("/v1/jobs", "/v1/jobs/all", "/v1/events", "/v1/event-types", "/v1/tokens",
                  "/v1/usage", "/v1/schemas/rank.late/1", "/Metrics", "/metrics/all",
                  "/v1/metrics", "/v1/stuck", "/v1/hosts", "/v1/plans", "/v1/tenants")]
OTHER_TARGETS += [("POST", "/v1/tokens"), ("POST", "/v1/events"), ("DELETE", "/v1/tokens/0")]


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def own_usage(daemon):
    usage = daemon.as_tenant("GET", "/v1/usage").json()["usage"]
    check(len(usage) <= 1, f"a tenant sees {usage}")
    return usage[0] if usage else None


def only_those_who_may(daemon):
    check(daemon.as_operator("GET", "/metrics").status == 200, "an operator reads the metrics")
    check(daemon.as_tenant("GET", "/metrics").status == 404, "a tenant does not")
    check(daemon.over_tcp("GET", "/metrics").status == 401, "a stranger does not")
    check(daemon.over_tcp("GET", "/metrics", "hz_no").status == 401, "a wrong token does not")
    token = daemon.new_token(scope="metrics", days=1)
    page = daemon.over_tcp("GET", "/metrics", token)
    check(page.status == 200, f"a token of scope metrics does: {page.status}")
    check(page.type == "text/plain; version=0.0.4; charset=utf-8", page.type)
    for method, target in OTHER_TARGETS:
        answer = daemon.over_tcp(method, target, token, {} if method == "POST" else None)
        check(answer.status == 404, f"it gets {answer.status} for {method} {target}")
    check(daemon.over_tcp("POST", "/metrics", token, {}).status == 405, "it writes nothing there")
    tenants = daemon.new_token(scope="tenant", tenant=str(os.getuid()), days=1)
    check(daemon.over_tcp("GET", "/metrics", tenants).status == 404, "a tenant's token does not")
    readers = daemon.new_token(scope="operator-read-only", days=1)
    check(daemon.over_tcp("GET", "/metrics", readers).status == 200, "a read-only operator does")


def the_job_is_counted(programs, daemons):
    before = [samples_in(one.as_operator("GET", "/metrics").text) for one in daemons]
    run_job(programs, daemons, 4, "-b", "1M", "-e", "4M", "-n", "5", "-w", "1")
    for daemon, old in zip(daemons, before):
        # What is told may be half a second old.
        now = eventually("the job has ended", lambda: (
            lambda now: now if now["harmonaize_communicators_ended_total"] > 0 else None)(
                samples_in(daemon.as_operator("GET", "/metrics").text)))
        tenants = {series: value for series, value in now.items()
                   if series.startswith("harmonaize_tenant_operations_total{")}
        check(len(tenants) == 2, f"one tenant and the sum of none: {tenants}")
        for name in ("tenant_operations_total", "tenant_bytes_total", "tenant_worker_seconds_total",
                     "tenant_request_seconds_total", "rail_sent_bytes_total",
                     "rail_received_bytes_total", "worker_units_total", "worker_busy_seconds_total",
                     "communicators_formed_total", "executions_total"):
            total = sum(value for series, value in now.items()
                        if series.split("{")[0] == f"harmonaize_{name}")
            check(total > 0, f"harmonaize_{name} is {total}")
        check(now["harmonaize_linked_daemons"] == 1, "the daemons are linked")
        check(now['harmonaize_communicators{state="ready"}'] == 0, "the communicator is gone")
        for series, value in old.items():
            if series.split("{")[0].endswith("_total"):
                check(now.get(series, 0) >= value, f"{series} has fallen")
        usage = own_usage(daemon)
        operations = max(tenants.values())
        check(usage["operations"] == operations, f"the bill says {usage}, not {operations}")
        check(usage["worker_seconds"] > 0 and usage["request_seconds"] > 0, str(usage))
        check(daemon.as_operator("GET", "/v1/usage").json()["usage"][0]["operations"] == operations,
              "an operator sees it, too")


def now_at(daemon, series):
    return samples_in(daemon.as_operator("GET", "/metrics").text).get(series, 0)


def subscribers_are_counted(daemon):
    connection = UnixConnection(daemon.socket + ".http")
    connection.request("GET", "/v1/events?follow=true")
    stream = connection.getresponse()
    check(stream.status == 200, "a stream begins")
    eventually("the subscriber is counted",
               lambda: now_at(daemon, "harmonaize_event_subscribers") == 1)
    stream.close()
    connection.close()
    eventually("the subscriber is gone",
               lambda: now_at(daemon, "harmonaize_event_subscribers") == 0)


def places_are_told(daemon):
    eventually("the daemon has looked at its places",
               lambda: now_at(daemon, 'harmonaize_elastic_places{state="all"}') > 0)


def refusals_are_counted(daemon):
    before = now_at(daemon, 'harmonaize_http_requests_total{code="401"}')
    check(daemon.over_tcp("GET", "/metrics", "hz_no").status == 401, "a wrong token is refused")
    eventually("the refusal is counted", lambda: now_at(
        daemon, 'harmonaize_http_requests_total{code="401"}') == before + 1)


def as_other_user(daemon, target):
    """What another user of the host gets."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(OTHER_USER)
        os.setuid(OTHER_USER)
        answer = ask(UnixConnection(daemon.socket + ".http"), "GET", target)
        os.write(writer, f"{answer.status} {answer.text}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        said = text.read()
    check(os.waitpid(child, 0)[1] == 0, "another user can ask")
    return said


def others_see_nothing(daemon):
    if os.getuid() != 0:
        return
    os.chmod(daemon.folder.parent, 0o755)
    check(as_other_user(daemon, "/metrics").startswith("404 "), "another tenant sees no metrics")
    usage = as_other_user(daemon, "/v1/usage")
    check(usage.startswith("200 ") and '"usage":[]' in usage, f"another tenant sees {usage}")


def usage_outlives_the_daemon(programs, daemons):
    daemon = daemons[0]
    before = own_usage(daemon)
    carried = {series: value for series, value in
               samples_in(daemons[1].as_operator("GET", "/metrics").text).items()
               if series.startswith("harmonaize_rail_") and "_total" in series}
    check(carried, "the other daemon has sent something")
    daemon.stop()
    eventually("the other daemon has lost this one",
               lambda: now_at(daemons[1], "harmonaize_linked_daemons") == 0)
    for series, value in carried.items():
        check(now_at(daemons[1], series) >= value, f"{series} has fallen with the other daemon")
    daemon.start()
    kept = daemon.as_operator("GET", "/v1/usage").json()["usage"]
    check(len(kept) == 1 and kept[0]["operations"] == before["operations"],
          f"{before} has become {kept}")
    check(kept[0]["since"] == before["since"], "it began when it began")
    run_job(programs, [daemon], 2, "-b", "1M", "-e", "1M", "-n", "2", "-w", "1")
    after = eventually("the job is counted", lambda: (
        lambda usage: usage if usage and usage["request_seconds"] > before["request_seconds"] and
        usage["operations"] + usage["claimed_inline_operations"] >
        before["operations"] + before["claimed_inline_operations"] else None)(own_usage(daemon)))
    check(after["since"] == before["since"], "it is the same account")


def main():
    programs = pathlib.Path(sys.argv[1])
    with two_daemons(programs, decides=True) as (_, daemons):
        only_those_who_may(daemons[0])
        the_job_is_counted(programs, daemons)
        subscribers_are_counted(daemons[0])
        places_are_told(daemons[0])
        refusals_are_counted(daemons[0])
        others_see_nothing(daemons[0])
        usage_outlives_the_daemon(programs, daemons)
    return 0


if __name__ == "__main__":
    sys.exit(main())
