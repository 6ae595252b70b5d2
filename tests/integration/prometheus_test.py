#!/usr/bin/env python3
"""What docs/operations ships, against live daemons and a real Prometheus: the rules and their tests,
the format of the metrics, a scrape over TLS with a token, every rule, every panel, and that whatever
rules, dashboard and document name exists.

    prometheus_test.py PROGRAMS DOCUMENTS

PROGRAMS is the folder of harmonaized and all_reduce_perf, DOCUMENTS that of docs/operations. Exit
status 77: Prometheus, promtool or openssl is not on the PATH; scripts/test-servers.sh brings the former.
"""

import http.client
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.parse

from live_daemons import (PATIENCE_SECONDS, ask, eventually, families_in, free_port,
                          run_job, two_daemons)

NEEDED = ["prometheus", "promtool", "openssl"]
METRIC = re.compile(r"\bharmonaize_[a-z0-9_]+")


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def run(*words, said=None):
    done = subprocess.run(words, input=said, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    check(done.returncode == 0, f"{' '.join(words)}: {done.stdout}")
    return done.stdout


def expressions_of(dashboard):
    """Every query of the dashboard, as Grafana would ask it with nothing selected."""
    asked = [annotation["expr"] for annotation in dashboard["annotations"]["list"]]
    for panel in dashboard["panels"]:
        asked += [target["expr"] for target in panel.get("targets", [])]
    return [query.replace("$__rate_interval", "1m").replace("$instance", ".*")
            .replace("$tenant", ".*") for query in asked]


def well_formed(dashboard):
    panels = dashboard["panels"]
    numbers = [panel["id"] for panel in panels]
    check(len(set(numbers)) == len(numbers), "two panels have the same number")
    for panel in panels:
        place = panel["gridPos"]
        check(place["x"] + place["w"] <= 24, f"{panel['title']} sticks out")
        check(panel["type"] == "row" or panel["targets"], f"{panel['title']} shows nothing")
        for other in panels:
            theirs = other["gridPos"]
            apart = (place["x"] + place["w"] <= theirs["x"] or theirs["x"] + theirs["w"] <= place["x"]
                     or place["y"] + place["h"] <= theirs["y"]
                     or theirs["y"] + theirs["h"] <= place["y"])
            check(other is panel or apart, f"{panel['title']} lies on {other['title']}")


def names_exist(documents, families):
    """What files name is told by daemons; and what daemons tell is in the document."""
    for name in ("alerts.yml", "alerts_test.yml", "grafana-dashboard.json", "README.md"):
        for metric in set(METRIC.findall((documents / name).read_text())):
            check(metric in families, f"{name} names {metric}, which no daemon tells")
    document = (documents / "README.md").read_text()
    for family in families:
        check(f"`{family}`" in document, f"README.md lacks {family}")


def certificate_in(folder):
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    key.chmod(0o600)
    return certificate, key


def configuration_in(folder, documents, daemons, token):
    """The example as an operator would fill it in."""
    text = (documents / "prometheus.yml").read_text()
    (folder / "token").write_text(token)
    for old, new in (("[host1.example.com:7401, host2.example.com:7401]",
                      json.dumps([f"localhost:{daemon.port}" for daemon in daemons])),
                     ("/etc/prometheus/harmonaize.token", str(folder / "token")),
                     ("/etc/prometheus/harmonaize-ca.pem", str(daemons[0].certificate[0])),
                     ("[alerts.yml]", f"[{documents}/alerts.yml]"),
                     ("_interval: 15s", "_interval: 1s")):
        check(old in text, f"prometheus.yml lacks {old}")
        text = text.replace(old, new)
    file = folder / "prometheus.yml"
    file.write_text(text)
    run("promtool", "check", "config", str(file))
    return file


class Prometheus:
    def __init__(self, folder, configuration):
        self.port = free_port()
        self.log = (folder / "prometheus.log").open("w+")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={configuration}",
             f"--storage.tsdb.path={folder / 'series'}",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log)
        try:
            eventually("Prometheus is ready", self.ready)
        except AssertionError:
            self.stop()
            raise

    def ready(self):
        check(self.process.poll() is None, "Prometheus has ended")
        try:
            return self.get("/-/ready").status == 200
        except OSError:
            return False

    def get(self, target):
        return ask(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS),
                   "GET", target)

    def query(self, expression):
        answer = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        check(answer.status == 200, f"{expression}: {answer.text}")
        return answer.json()["data"]["result"]

    def number(self, expression):
        """The value of the only series; None where there is none."""
        found = self.query(expression)
        check(len(found) <= 1, f"{expression} has {len(found)} series")
        return float(found[0]["value"][1]) if found else None

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_SECONDS)
        self.log.close()


def series_arrive(prometheus, programs, daemons):
    eventually("both daemons are up",
               lambda: prometheus.number('sum(up{job="harmonaize"})') == len(daemons))
    run_job(programs, daemons, 4, "-b", "1M", "-e", "4M", "-n", "5", "-w", "1")
    for metric in ("harmonaize_tenant_bytes_total", "harmonaize_tenant_operations_total",
                   "harmonaize_tenant_worker_seconds_total", "harmonaize_rail_sent_bytes_total",
                   "harmonaize_communicators_ended_total"):
        # Of both daemons.
        eventually(f"{metric} has arrived", lambda: prometheus.number(
            f"count(sum by (instance) ({metric}) > 0)") == len(daemons))
    check(prometheus.number("min(harmonaize_linked_daemons)") == 1, "the daemons are linked")


def rules_are_well(prometheus):
    def evaluated():
        groups = prometheus.get("/api/v1/rules").json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    rules = eventually("all rules are evaluated", evaluated)
    for rule in rules:
        check(rule["health"] == "ok", f"{rule['name']}: {rule.get('lastError')}")
        check(rule["state"] == "inactive", f"{rule['name']} is {rule['state']} without a reason")


def announcements_are_counted(daemon):
    def shows(line):
        return any(one == line for one in daemon.as_operator("GET", "/metrics").text.splitlines())

    def order(method, target, body=None):
        answer = daemon.as_operator(method, target, body)
        check(answer.status < 300, f"{target}: {answer.text}")

    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    order("POST", "/v1/hosts/this/maintenance", {"kind": "reclaim", "not_before": soon})
    order("POST", "/v1/hosts/this/drain", {"within_seconds": 3600})
    for line in ('harmonaize_announcements{kind="reclaim",state="scheduled"} 1',
                 'harmonaize_announcements{kind="maintenance",state="scheduled"} 1',
                 "harmonaize_announcements_overdue 1", "harmonaize_draining 1"):
        eventually(line, lambda: shows(line))
    check(not shows("harmonaize_drain_deadline_seconds 0"), "the drain has a deadline")
    order("DELETE", "/v1/hosts/this/drain")
    eventually("it serves again", lambda: shows("harmonaize_draining 0"))


def a_dead_daemon_is_noticed(prometheus, daemon):
    daemon.stop()
    eventually("the alert is pending", lambda: prometheus.number(
        'count(ALERTS{alertname="HarmonaizeDown"})') == 1)


def main():
    programs, documents = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not on the PATH; scripts/test-servers.sh")
        return 77
    run("promtool", "check", "rules", str(documents / "alerts.yml"))
    run("promtool", "test", "rules", str(documents / "alerts_test.yml"))
    dashboard = json.loads((documents / "grafana-dashboard.json").read_text())
    well_formed(dashboard)
    with two_daemons(programs, certificate_in) as (folder, daemons):
        prometheus = None
        try:
            page = daemons[0].as_operator("GET", "/metrics").text
            check("error" not in run("promtool", "check", "metrics", said=page), "the page is good")
            names_exist(documents, families_in(page))
            # All daemons take the same token where they have the same file of tokens.
            token = daemons[0].new_token(scope="metrics", days=1)
            daemons[1].stop()
            shutil.copy2(daemons[0].folder / "state" / "tokens.json",
                         daemons[1].folder / "state" / "tokens.json")
            # Prometheus asks where it was told to.
            daemons[1].start(same_port=True)
            prometheus = Prometheus(folder, configuration_in(folder, documents, daemons, token))
            series_arrive(prometheus, programs, daemons)
            rules_are_well(prometheus)
            for expression in expressions_of(dashboard):
                prometheus.query(expression)
            # Panels that any daemon has something to show in.
            shown = sum(bool(prometheus.query(expression))
                        for expression in expressions_of(dashboard))
            check(shown > 30, f"only {shown} queries of the dashboard find anything")
            page = daemons[0].as_operator("GET", "/metrics").text
            run("promtool", "check", "metrics", said=page)
            announcements_are_counted(daemons[0])
            a_dead_daemon_is_noticed(prometheus, daemons[1])
        finally:
            if prometheus is not None:
                prometheus.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
