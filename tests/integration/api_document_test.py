#!/usr/bin/env python3
"""Every operation of the OpenAPI document at a live daemon, rightly and wrongly, as tenant, operator and
stranger, while a job runs: each answer has a status and a type that the document names for it.

    api_document_test.py PROGRAMS

PROGRAMS is the folder of harmonaized and libnccl.so.2's `lib` lies beside it. Needs no other package;
scripts/api-check.sh asks more, with schemathesis.
"""

import http.client
import json
import os
import pathlib
import sys
import tempfile
import time

from live_daemons import Daemon, UnixConnection, ask, eventually
from live_job import Ranks

NOBODYS_JOB = "0" * 32
# Statuses that the daemon gives for any request, before a route is asked. The document has them all in
# `default`, which must not hide any other one.
BEFORE_ANY_ROUTE = {400, 401, 404, 405, 408, 411, 413, 414, 415, 429, 431, 503}
REQUESTS_PER_SECOND = 40  # the daemon allows 50


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def right_calls(job, event):
    """Of each operation: who may call it, and the path's parameters, the query and the body of calls
    that are right. `event` is one with a deadline that can be answered."""
    everybody, tenants, operators = ("tenant", "operator"), ("tenant",), ("operator",)
    of_job = [({"job": job}, "", None), ({"job": "a%20named%20job"}, "", None)]
    of_this_host = ({"host": "this"}, "", None)
    return {
        "GET /": (everybody, [({}, "", None)]),
        "GET /healthz": (everybody, [({}, "", None)]),
        "GET /readyz": (everybody, [({}, "", None)]),
        "GET /metrics": (operators, [({}, "", None)]),
        "GET /v1/event-types": (everybody, [({}, "", None)]),
        "GET /v1/events": (everybody, [
            ({}, query, None) for query in
            ("", "?limit=1", "?from=start&types=rank.*", f"?job={job}&severity=WARN",
             "?from=now&limit=1000", "?follow=false")]),
        "POST /v1/events": (operators, [({}, "", {"job": target, "type": "daemon.restarted",
                                                  "data": {"text": "for a test"}})
                                        for target in ("", job)]),
        "GET /v1/hosts": (operators, [({}, "", None)]),
        "GET /v1/agents": (everybody, [({}, "", None)]),
        # Of an agent that the test makes.
        "POST /v1/agents": (tenants, []),
        "GET /v1/agents/{agent}": (tenants, []),
        "PUT /v1/agents/{agent}": (tenants, []),
        "DELETE /v1/agents/{agent}": (tenants, []),
        "GET /v1/offers": (everybody, [({}, "", None), ({}, f"?job={job}&state=open", None)]),
        # Of offers that the test makes.
        "GET /v1/offers/{id}": (everybody, []),
        "POST /v1/offers": (operators, []),
        "POST /v1/offers/{id}/accept": (tenants, []),
        "POST /v1/offers/{id}/counter": (tenants, []),
        "POST /v1/offers/{id}/decline": (tenants, []),
        "POST /v1/offers/{id}/keep": (operators, []),
        "POST /v1/offers/{id}/propose": (operators, []),
        "POST /v1/offers/{id}/take": (operators, []),
        "POST /v1/offers/{id}/withdraw": (operators, []),
        "POST /v1/events/{id}/acknowledge": (everybody, [({"id": event}, "", None),
                                                         ({"id": event}, "", {})]),
        "POST /v1/events/{id}/extend": (everybody, [
            ({"id": event}, "", {"seconds": 600}),
            ({"id": event}, "", {"until": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86400))})]),
        "GET /v1/fabric": (operators, [({}, "", None)]),
        "GET /v1/hosts/{host}/maintenance": (operators, [of_this_host]),
        "POST /v1/hosts/{host}/drain": (operators, [
            ({"host": "this"}, "", {"within_seconds": 3600, "reason": "a test"}), of_this_host]),
        "GET /v1/hosts/{host}/drain": (operators, [of_this_host]),
        "DELETE /v1/hosts/{host}/drain": (operators, [of_this_host]),
        "POST /v1/hosts/{host}/maintenance": (operators, [
            ({"host": "this"}, "", {"new_id": "one", "duration_seconds": 60, "survives": True}),
            ({"host": "this"}, "", {"id": "one", "state": "withdrawn"})]),
        "GET /v1/jobs": (everybody, [({}, "", None)]),
        "GET /v1/jobs/{job}": (everybody, of_job),
        "GET /v1/jobs/{job}/communicators": (everybody, of_job),
        "GET /v1/jobs/{job}/operations": (everybody, of_job),
        "GET /v1/jobs/{job}/ranks": (everybody, of_job),
        "GET /v1/jobs/{job}/flight": (everybody, of_job),
        "GET /v1/jobs/{job}/stuck": (everybody, of_job),
        "GET /v1/jobs/{job}/profile": (everybody, of_job),
        "GET /v1/profiles": (everybody, [({}, "", None)]),
        "GET /v1/jobs/{job}/requirements": (everybody, of_job),
        "PUT /v1/jobs/{job}/requirements": (everybody, [({"job": job}, "", "faults.late_after = '9 s'"),
                                                        ({"job": job}, "", "")]),
        "DELETE /v1/jobs/{job}/requirements": (everybody, [({"job": job}, "", None)]),
        "GET /v1/jobs/{job}/granted": (everybody, of_job),
        "GET /v1/jobs/{job}/progress": (everybody, of_job),
        "POST /v1/jobs/{job}/progress": (everybody, [({"job": job}, "", {"step": 7, "loss": 0.5})]),
        "GET /v1/checkpoints": (everybody, [({}, "", None)]),
        "GET /v1/jobs/{job}/checkpoints": (everybody, of_job),
        "GET /v1/jobs/{job}/checkpoints/advice": (everybody, of_job),
        "POST /v1/jobs/{job}/checkpoints": (everybody, [({"job": job}, "", {})]),
        "POST /v1/jobs/{job}/checkpoints/reports": (everybody, [
            ({"job": job}, "", {"step": 7, "where": "storage", "stall_seconds": 2, "seconds": 20,
                                "bytes": 4096, "epoch_end": True})]),
        "GET /v1/jobs/{job}/tickets": (everybody, of_job),
        "POST /v1/jobs/{job}/tickets": (tenants, [({"job": job}, "", {"uses": 2, "seconds": 60}),
                                                  ({"job": job}, "", {})]),
        "DELETE /v1/jobs/{job}/tickets": (everybody, [({"job": job}, "", None)]),
        "GET /v1/tickets": (operators, [({}, "", None)]),
        "POST /v1/requirements/check": (everybody, [({}, "", "[collectives]\npriority = 3\n")]),
        "GET /v1/elasticity": (operators, [({}, "", None)]),
        "PUT /v1/elasticity/waiting": (operators, [
            ({}, "", {"jobs": [{"name": "newcomer", "ranks": 4, "priority": 1}], "for_seconds": 60})]),
        "GET /v1/policy": (everybody, [({}, "", None)]),
        "PUT /v1/policy": (operators, [({}, "", "[policy]\nmost_priority = 1\n")]),
        "GET /v1/stuck": (operators, [({}, "", None)]),
        "GET /v1/links": (operators, [({}, "", None)]),
        "GET /v1/openapi.json": (everybody, [({}, "", None)]),
        "GET /v1/usage": (everybody, [({}, "", None)]),
        "GET /v1/plans": (operators, [({}, "", None)]),
        "GET /v1/promises": (everybody, [({}, "", None)]),
        "GET /v1/whoami": (everybody, [({}, "", None)]),
        "GET /v1/schemas/{type}/{version}": (everybody, [
            ({"type": "rank.late", "version": "1"}, "", None)]),
        "GET /v1/tenants": (operators, [({}, "", None)]),
        "GET /v1/tokens": (operators, [({}, "", None)]),
        "POST /v1/tokens": (operators, [
            ({}, "", {"scope": "tenant", "tenant": str(os.getuid()), "days": 1, "note": "a test"}),
            ({}, "", {"scope": "metrics", "days": 1})]),
        "DELETE /v1/tokens/{id}": (operators, []),  # of a token that the test makes
    }


WRONG_VALUES = ("none", "%2e%2e", "%00", "x" * 3000, "%ff%fe", "%F0%9F%92%A9", "-1", "a/b")
WRONG_QUERIES = ("?limit=0", "?limit=-1", "?limit=1001", "?limit=x", "?severity=LOUD",
                 "?types=rank.lat", "?job=1", "?from=end", "?follow=maybe", "?after=none",
                 "?unknown=1", "?limit=1&limit=2", "?" + "&".join(f"a{i}=1" for i in range(100)))
WRONG_BODIES = (b"", b"no JSON", b"[]", b"null", b"{}", b"0", b'{"job":', b'"' + b"x" * 70000 + b'"',
                b"[" * 60000, b'{"job": 1, "type": [], "data": "x"}', b'{"scope": "all"}',
                b'{"scope": "tenant", "days": 1e400}', b'{"scope": "metrics", "days": -1}',
                b'{"unknown": true}', b'{"kind": "party", "state": 7}', b"\xff\xfe\x00",
                b'{"job": "", "type": "daemon.restarted", "data": {}}',
                b'{"duration_seconds": -1}', b'{"duration_seconds": 1e308, "id": "\\u0000"}')


class Caller:
    """One who calls: at a Unix socket, or over TCP with a token or without. Counts what it was told."""

    def __init__(self, name, connect, token=None):
        self.name = name
        self.connect = connect
        self.token = token
        self.next_at = 0.0

    def call(self, method, target, body=None, media="application/json"):
        now = time.monotonic()
        time.sleep(max(0.0, self.next_at - now))
        self.next_at = max(now, self.next_at) + 1 / REQUESTS_PER_SECOND
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["Content-Type"] = media
        connection = self.connect()
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        # A stream of events would not end.
        kind = response.getheader("Content-Type", "")
        text = b"" if kind.startswith("text/event-stream") else response.read()
        connection.close()
        return response.status, kind.split(";")[0], text


class Document:
    """The document, and what has been seen of it."""

    def __init__(self, text):
        self.document = json.loads(text)
        self.operations = {f"{method.upper()} {path}": operation
                           for path, methods in self.document["paths"].items()
                           for method, operation in methods.items()}
        self.seen = {name: set() for name in self.operations}

    def resolved(self, response):
        if "$ref" not in response:
            return response
        found = self.document
        for part in response["$ref"].lstrip("#/").split("/"):
            found = found[part]
        return found

    def judge(self, operation, what, answer):
        """Fails unless the document has this answer."""
        status, kind, text = answer
        said = f"{what}: {status} {kind} {text[:200]!r}"
        responses = self.operations[operation]["responses"]
        check(status < 500 or status == 503, said)
        if str(status) not in responses:
            check(status in BEFORE_ANY_ROUTE, f"{said} is documented nowhere")
        documented = self.resolved(responses.get(str(status), responses["default"]))
        check(kind in documented.get("content", {"": None}), f"{said} has another type")
        if kind == "application/problem+json":
            problem = json.loads(text)
            check(problem["status"] == status and problem["detail"], said)
        elif kind.endswith("json"):
            json.loads(text)
        self.seen[operation].add(status)


def path_of(operation, values):
    path = operation.split(" ", 1)[1]
    for name, value in values.items():
        path = path.replace("{" + name + "}", value)
    return path


def encoded(body):
    """Documents in TOML are given as text."""
    if isinstance(body, str):
        return body.encode()
    return None if body is None else json.dumps(body).encode()


def media_of(body):
    return "application/toml" if isinstance(body, str) else "application/json"


def event_with_a_deadline(tenant, operator):
    """The event of an announcement, which stays."""
    announced = operator.call("POST", "/v1/hosts/this/maintenance", encoded(
        {"new_id": "answered", "duration_seconds": 60,
         "not_before": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))}))
    check(announced[0] == 200, f"{announced}")
    events = eventually("the job hears of it", lambda: json.loads(
        tenant.call("GET", "/v1/events?types=maintenance.scheduled")[2])["events"])
    return events[-1]["id"]


def right(document, callers, job):
    calls = right_calls(job, event_with_a_deadline(callers[0], callers[1]))
    check(set(calls) == set(document.operations),
          f"this test and the document differ in {set(calls) ^ set(document.operations)}")
    for operation, (may, each) in calls.items():
        method = operation.split(" ", 1)[0]
        for values, query, body in each:
            target = path_of(operation, values) + query
            for caller in callers:
                answer = caller.call(method, target, encoded(body), media_of(body))
                what = f"{caller.name}: {method} {target} {body}"
                document.judge(operation, what, answer)
                granted = any(caller.name.startswith(one) for one in may)
                if granted:
                    check(answer[0] in (200, 201, 204), f"{what}: {answer}")
                elif not caller.name.startswith("stranger"):
                    check(answer[0] in (403, 404, 405), f"{what}: {answer}")


def tokens_are_taken_back(document, operator):
    order = {"scope": "operator-read-only", "days": 1}
    made = json.loads(operator.call("POST", "/v1/tokens", encoded(order))[2])
    for expected in (204, 404):
        answer = operator.call("DELETE", f"/v1/tokens/{made['id']}")
        document.judge("DELETE /v1/tokens/{id}", "a token is revoked", answer)
        check(answer[0] == expected, f"{answer}")


def an_agent_comes_and_goes(document, tenant):
    """An agent of a job that has no ranks here is added, read, renewed and ended; after that there is none."""

    def call(method, path, target, body, status):
        answer = tenant.call(method, target, encoded(body))
        document.judge(f"{method} {path}", f"{tenant.name}: {target}", answer)
        check(answer[0] == status, f"{method} {target} {body}: {answer}")
        return json.loads(answer[2])

    one, places = "/v1/agents/{agent}", {"places": 2}
    agent = call("POST", "/v1/agents", "/v1/agents", {"job": "of an agent alone", "places": 3}, 201)
    check(agent["standing"] == "waiting" and agent["places"] == 3, f"{agent}")
    target = f"/v1/agents/{agent['id']}"
    check(call("GET", one, target, None, 200)["places"] == 3, "an agent is another one when read")
    check(call("PUT", one, target, places, 200)["places"] == 2, "an agent's places are not taken")
    call("PUT", one, target, {"places": 2.5}, 400)
    call("PUT", one, target, {"places": 2, "ticket": "no ticket"}, 400)
    call("DELETE", one, target, None, 200)
    call("PUT", one, target, places, 404)


def offers_are_answered(document, tenant, operator, job):
    """Each offer goes through the steps of one line, to the states that stand beside them."""

    def call(caller, method, path, target, body, expected):
        answer = caller.call(method, target, encoded(body))
        document.judge(f"{method} {path}", f"{caller.name}: {target}", answer)
        told = json.loads(answer[2])
        check(answer[0] == 200 and told["state"] == expected, f"{target} {body}: {answer}")
        return told["id"]

    steps_of_offers = (
        ((tenant, "counter", {"ranks": 3}, "countered"), (operator, "keep", None, "offered"),
         (operator, "propose", {"ranks": 2, "within_seconds": 900}, "offered"),
         (tenant, "counter", {"ranks": 1}, "countered"), (operator, "take", {}, "accepted"),
         (operator, "withdraw", {"reason": "for a test"}, "broken")),
        ((tenant, "decline", {"reason": "not now"}, "declined"),),
        ((tenant, "accept", {}, "accepted"), (operator, "withdraw", None, "broken")))
    for steps in steps_of_offers:
        order = {"job": job, "kind": "grow", "ranks": 4, "within_seconds": 600}
        offer = call(operator, "POST", "/v1/offers", "/v1/offers", order, "offered")
        for caller in (tenant, operator):
            call(caller, "GET", "/v1/offers/{id}", f"/v1/offers/{offer}", None, "offered")
        for caller, verb, body, expected in steps:
            call(caller, "POST", f"/v1/offers/{{id}}/{verb}", f"/v1/offers/{offer}/{verb}", body,
                 expected)


def wrong(document, callers):
    for operation, description in document.operations.items():
        method, path = operation.split(" ", 1)
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        fill = dict.fromkeys(names, "this")
        attempts = [(path_of(operation, fill) + query, None) for query in WRONG_QUERIES]
        for value in WRONG_VALUES if names else ():
            attempts.append((path_of(operation, dict.fromkeys(names, value)), None))
        for body in WRONG_BODIES if "requestBody" in description else ():
            attempts.append((path_of(operation, fill), body))
        for target, body in attempts:
            for caller in callers:
                answer = caller.call(method, target, body)
                # A value that is no part of the path asks for something else.
                document.judge(operation, f"{caller.name}: {method} {target[:80]} {body!r:.60}",
                               answer)
        media = callers[0].call(method, path_of(operation, fill), b"{}", "text/plain")
        document.judge(operation, f"{operation} in another type", media)
        other = callers[0].call("PATCH", path_of(operation, fill), b"{}")
        check(other[0] in (400, 404, 405), f"PATCH {path}: {other[0]}")


def work_on(library, communicator, _):
    """A rank's work, for as long as its file says."""
    del library
    rounds = 0
    leaves = False
    while not leaves:
        check(communicator.all_reduce(256) == 2, "a sum is wrong")
        rounds += 1
        time.sleep(0.01)
        # The ranks end together, whichever sees the file first.
        leaves = communicator.all_reduce(1, first=int(os.path.exists(os.environ["ENOUGH"]))) > 0
    communicator.destroy()
    return rounds


def main():
    programs = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="harmonaize-api-") as name:
        folder = pathlib.Path(name)
        daemon = Daemon(programs, folder, 0, decides=True)
        ranks = None
        try:
            ranks = Ranks(programs.parent / "lib" / "libnccl.so.2", [daemon.socket] * 2, work_on,
                          environment={"HARMONAIZE_JOB": "a named job",
                                       "ENOUGH": str(folder / "enough")})
            job = eventually("the job is there", lambda: (
                lambda jobs: jobs and jobs[0]["id"])(daemon.as_tenant("GET", "/v1/jobs").json()["jobs"]))

            def over_tcp():
                return http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)

            tenant = Caller("tenant", lambda: UnixConnection(daemon.socket + ".http"))
            operator = Caller("operator", lambda: UnixConnection(daemon.socket + ".operator.http"))
            token = Caller("tenant's token", over_tcp,
                           daemon.new_token(scope="tenant", tenant=str(os.getuid()), days=1))
            document = Document(tenant.call("GET", "/v1/openapi.json")[2])
            right(document, [tenant, operator, token], job)
            tokens_are_taken_back(document, operator)
            an_agent_comes_and_goes(document, tenant)
            offers_are_answered(document, tenant, operator, job)
            wrong(document, [tenant, operator])
            unseen = [one for one, seen in document.seen.items()
                      if not any(status < 300 for status in seen) or
                      (not any(status >= 400 for status in seen))]
            check(not unseen, f"not seen both granted and refused: {unseen}")
            refused = ask(over_tcp(), "GET", "/v1/jobs")
            check(refused.status == 401, f"a stranger is told {refused.status}")
            (folder / "enough").touch()
            check(ranks.wait(60), "the job ends")
            check(ranks.statuses == [0, 0], f"the ranks say {ranks.said}")
            check(all(int(rounds) > 10 for rounds in ranks.said), f"it got on: {ranks.said}")
            for operation, seen in sorted(document.seen.items()):
                print(operation, *sorted(seen))
        finally:
            (folder / "enough").touch()
            if ranks is not None:
                ranks.wait(20)
            daemon.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
