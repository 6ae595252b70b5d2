#!/usr/bin/env python3
"""The status page of live daemons: what it is made of, and who may read it; or what a user sees in a headless Chromium of
a job with a hostile name, of ranks that stop and are lost, by the keyboard, and in both colour schemes.

    page_test.py PROGRAMS [--browser]

PROGRAMS is the folder of harmonaized, harmonaize and timeline_perf. With --browser it is skipped, with the exit status 77,
where there is no Chromium.
"""

import base64
import fcntl
import hashlib
import http.client
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios
import threading

from live_browser import Browser, find_browser
from live_daemons import UnixConnection, ask, eventually, free_port, two_daemons
from live_laboratory import others_can_run

MOST_PAGE_BYTES = 100 * 1024
HOSTILE_NAME = '<img src=x onerror="window.struck=1">\u202e</td><script>window.struck=2</script>'
OTHER_USER = 1001
SKIPPED = 77
EXPECTED_HEADERS = {"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff",
                    "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
                    "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"}
EXPECTED_POLICY = {"default-src": ["'none'"], "connect-src": ["'self'"], "base-uri": ["'none'"], "form-action": ["'none'"],
                   "frame-ancestors": ["'none'"], "require-trusted-types-for": ["'script'"], "trusted-types": ["'none'"]}
# Ways for text to become markup or code, and places where a secret would outlive the page.
FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "localStorage",
             "sessionStorage", "indexedDB", "cookie", "EventSource", "srcdoc", "javascript:")


def check(holds, what):
    if not holds:
        raise AssertionError(what)


# ---------------------------------------------------------------------------------------------
# Without a browser


def get_page(daemon):
    connection = UnixConnection(daemon.socket + ".http")
    connection.request("GET", "/")
    response = connection.getresponse()
    body = response.read()
    connection.close()
    check(response.status == 200, f"the page is there: {response.status}")
    return response.headers, body


def hash_source(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text).digest()).decode() + "'"


def the_page_is_one_small_file(daemon):
    headers, body = get_page(daemon)
    check(len(body) <= MOST_PAGE_BYTES, f"the page has {len(body)} bytes")
    for header, value in EXPECTED_HEADERS.items():
        check(headers[header] == value, f"{header} is {headers[header]}")
    policy = dict((words[0], words[1:]) for words in map(str.split, headers["Content-Security-Policy"].split(";")))
    for directive, sources in EXPECTED_POLICY.items():
        check(policy.pop(directive) == sources, f"{directive} is not {sources}")
    for directive, tag in (("script-src", b"script"), ("style-src", b"style")):
        texts = re.findall(b"<" + tag + b">(.*?)</" + tag + b">", body, re.DOTALL)
        check(len(texts) == 1 and body.count(b"<" + tag) == 1, f"there is one <{tag.decode()}>")
        check(policy.pop(directive) == [hash_source(texts[0])], f"{directive} allows the page's own text alone")
    check(policy == {}, f"the policy allows nothing else, such as {policy}")
    text = body.decode()
    check(not re.findall(r'\s(?:src|style|on\w+)\s*=', text.split("<script>")[0]), "no markup brings resources, styles or code")
    links = re.findall(r'href="([^"]*)"', text)
    check(links and all(link.startswith("#") for link in links), f"links stay on the page: {links}")
    addresses = set(re.findall(r"https?://[\w.]+", text))
    check(addresses == {"http://www.w3.org"}, f"the page names no other place than SVG's namespace: {addresses}")
    code = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    for word in FORBIDDEN:
        check(word not in code, f"the page does without {word}")


def strangers_get_the_page_and_nothing_else(daemon):
    check(daemon.over_tcp("GET", "/").status == 200, "a stranger gets the page")
    for target in ("/v1/whoami", "/v1/fabric", "/v1/jobs", "/index.html"):
        check(daemon.over_tcp("GET", target).status == 401, f"a stranger does not get {target}")
    check(daemon.over_tcp("POST", "/", None, {}).status == 401, "nor may it post")


def callers_learn_their_scope(daemon):
    check(daemon.as_operator("GET", "/v1/whoami").json() == {"scope": "operator", "tenant": None}, "an operator")
    own = daemon.as_tenant("GET", "/v1/whoami").json()
    check(own["scope"] == "tenant" and own["tenant"], f"a tenant: {own}")
    readers = daemon.new_token(scope="operator-read-only", days=1)
    check(daemon.over_tcp("GET", "/v1/whoami", readers).json()["scope"] == "operator-read-only", "one who only reads")
    metrics = daemon.new_token(scope="metrics", days=1)
    check(daemon.over_tcp("GET", "/v1/whoami", metrics).status == 404, "a token for metrics is for these alone")
    check(daemon.as_tenant("GET", "/v1/fabric").status == 404, "a tenant hears nothing of the fabric")
    fabric = daemon.as_operator("GET", "/v1/fabric").json()
    check(fabric["nodes"] == [] and fabric["links"] == [], f"there is no fabric file: {fabric}")


def exchange(origin, secret):
    """The status with which a dashboard answers a one-time secret, and the session."""
    host, port = origin.removeprefix("http://").split(":")
    answer = ask(http.client.HTTPConnection(host, int(port), timeout=60), "POST", "/v1/token/exchange", token=secret)
    return answer.status, answer.json().get("token")


def a_dashboard_passes_reads_on(programs, daemon):
    for words, scope in (((), "tenant"), (("--operator",), "operator")):
        dashboard = Dashboard(programs, daemon, *words)
        try:
            port = int(dashboard.origin.rsplit(":", 1)[1])

            def call(method, target, token=None):
                return ask(http.client.HTTPConnection("127.0.0.1", port, timeout=60), method, target, token=token)

            check(call("GET", "/").text == get_page(daemon)[1].decode(), "it serves the daemon's page")
            secret = dashboard.link.split("#")[1]
            check(call("GET", "/v1/whoami", secret).status == 401, "a link's secret is no session")
            status, session = exchange(dashboard.origin, secret)
            check(status == 201, f"the link holds: {status}")
            check(exchange(dashboard.origin, secret)[0] == 401, "once")
            check(call("GET", "/v1/whoami", session).json()["scope"] == scope, f"it asks as {scope}")
            check(call("GET", "/v1/whoami").status == 401, "others get nothing")
            check(call("GET", "/v1/nothing", session).status == 404, "the daemon's refusals come back")
            check(call("DELETE", "/v1/tokens/0", session).status == 405, "it changes nothing")
        finally:
            dashboard.end()


def enter_makes_a_new_link(programs, daemon):
    master, slave = os.openpty()
    process = subprocess.Popen([str(programs / "harmonaize"), "dashboard", "--no-browser", "--socket", daemon.socket],
                               stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    try:
        origin, first = process.stdout.readline().strip().split("/#")
        os.write(master, b"\n")
        again, second = process.stdout.readline().strip().split("/#")
        check(origin == again and first != second, "the link is another one")
        check(exchange(origin, first)[0] == 401, "the first one has ended")
        check(exchange(origin, second)[0] == 201, "the second one holds")
    finally:
        process.terminate()
        process.wait(60)
        os.close(master)
        os.close(slave)


def a_browser_is_started_without_the_secret(programs, daemon, folder):
    """A browser's words can be read by every user of the host."""
    said = folder / "said"
    opener = folder / "xdg-open"
    opener.write_text(f'#!/bin/sh\nstat -c "%a $*" "$1" > {said}.part\ncat "$1" >> {said}.part\nmv {said}.part {said}\n')
    opener.chmod(0o755)
    environment = dict(os.environ, DISPLAY=":none", XDG_RUNTIME_DIR=str(folder), PATH=f"{folder}:{os.environ['PATH']}")
    process = subprocess.Popen([str(programs / "harmonaize"), "dashboard", "--socket", daemon.socket], env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        link = process.stdout.readline().strip()
        eventually("a browser is started", said.exists)
        words, page = said.read_text().split("\n", 1)
        path = pathlib.Path(words.removeprefix("600 "))
        check(words.startswith("600 /") and path.parent == folder, f"with a file of the user's own: {words}")
        check(link.split("#")[1] not in words, "and without the secret")
        check(f"url={link}" in page, f"the file leads to the link: {page}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    check(not path.exists(), "the file is removed in the end")


# ---------------------------------------------------------------------------------------------
# With a browser


class Job:
    """Four ranks at two daemons, until it is ended."""

    def __init__(self, programs, daemons, name):
        port = free_port()
        self.processes = []
        for rank in range(4):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="4",
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), HARMONAIZE_JOB=name,
                               HARMONAIZE_JOB_KIND="training", HARMONAIZE_SOCKET=daemons[rank % len(daemons)].socket)
            self.processes.append(subprocess.Popen([str(programs / "timeline_perf"), "-s", "600", "-b", "64K"],
                                                   env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stop(self, rank):
        self.processes[rank].send_signal(signal.SIGSTOP)

    def go_on(self, rank):
        self.processes[rank].send_signal(signal.SIGCONT)

    def kill(self, rank):
        self.processes[rank].kill()

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


class Agent:
    """An agent of a job at a daemon, which renews itself until it is ended, or falls silent."""

    def __init__(self, daemon, job, places):
        answer = daemon.as_tenant("POST", "/v1/agents", {"job": job, "places": places})
        check(answer.status == 201, f"the job has an agent: {answer.text}")
        self.target = f"/v1/agents/{answer.json()['id']}"
        self.daemon = daemon
        self.places = places
        self.silent = threading.Event()
        self.thread = threading.Thread(target=self.renew)
        self.thread.start()

    def renew(self):
        while not self.silent.wait(1):
            self.daemon.as_tenant("PUT", self.target, {"places": self.places})

    def fall_silent(self):
        self.silent.set()
        self.thread.join()

    def end(self):
        self.fall_silent()
        self.daemon.as_tenant("DELETE", self.target)


class Dashboard:
    """harmonaize dashboard, as this user or another."""

    running = []

    def __init__(self, programs, daemon, *words, user=None):
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.process = subprocess.Popen([str(programs / "harmonaize"), "dashboard", "--no-browser", "--socket",
                                         daemon.socket, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        stdin=subprocess.DEVNULL, text=True, **who)
        Dashboard.running.append(self.process)
        self.link = self.process.stdout.readline().strip()
        check(re.fullmatch(r"http://127\.0\.0\.1:\d+/#hzo_[0-9a-f]{64}", self.link), f"a link is printed: {self.link}")
        self.origin = self.link.split("/#")[0]

    def end(self):
        self.process.send_signal(signal.SIGINT)
        check(self.process.wait(60) == 0, "Ctrl-C ends a dashboard well")
        Dashboard.running.remove(self.process)


OPERATIONS = """[...document.querySelectorAll("#job-rows tr:not(.detail)")].map((row) =>
    Number(row.cells[row.cells.length - 4].innerText.replace(/,/g, "")))[0] || 0"""
FOCUSED = """(() => { const one = document.activeElement; return one === document.body ? "" :
    (one.getAttribute("aria-label") || one.labels?.[0]?.innerText || one.innerText || one.id).trim().split("\\n")[0]; })()"""
# The least contrast between a text and what is behind it (WCAG 2.2, 1.4.3), and where it is.
CONTRAST = """(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  let worst = [99, ""];
  for (const one of document.querySelectorAll("body *")) {
    const said = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!said || one.closest("svg") || !one.checkVisibility() || one.closest(".unseen, .skip")) continue;
    let behind = one;
    while (behind && (parse(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
    const pair = [getComputedStyle(one).color, getComputedStyle(behind || document.body).backgroundColor].map((c) => light(parse(c)));
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (contrast < worst[0]) worst = [contrast, `${one.className} ${one.innerText.slice(0, 40)}`];
  }
  return worst;
})()"""


def no_complaints(browser, origin):
    browser.listen(0.5)
    check(browser.complaints == [], f"the console complains: {browser.complaints}")
    elsewhere = [url for url in browser.requests if not url.startswith((origin + "/", "about:"))]
    check(elsewhere == [], f"the page asks elsewhere: {elsewhere}")
    check(browser.value("[localStorage.length, sessionStorage.length, document.cookie.length].join()") == "0,0,0",
          "nothing outlives the page")
    # One token is exchanged in a header, and none is ever part of an address.
    check(not any("hz" in url.split("#")[0].split("/", 3)[-1] for url in browser.requests), "no address holds a token")


def shows_a_job(browser, dashboard):
    browser.open(dashboard.link)
    browser.eventually("the job is listed", "document.querySelectorAll('#job-rows tr:not(.detail)').length === 1")
    check(browser.value("location.href") == dashboard.origin + "/", "the secret has left the address")
    shown = browser.value("document.querySelector('#job-rows .expand').textContent")
    check("<img src=x onerror=" in shown and "<script>" in shown, f"the name is shown as it is: {shown}")
    check(browser.value("[document.images.length, document.scripts.length, typeof window.struck].join()") == "0,1,undefined",
          "the name is text, and no markup")
    first = browser.eventually("operations are counted", OPERATIONS)
    browser.eventually("more operations are counted", f"({OPERATIONS}) > {first}")
    browser.eventually("the throughput is drawn", "document.querySelectorAll('#chart-bytes path').length > 0")
    check(re.search(r"[1-9].*B/s", browser.text_of("#chart-bytes .value")), browser.text_of("#chart-bytes"))


AGENTS = "[...document.querySelectorAll('#agent-rows tr')].map((row) => row.innerText.replace(/\\s+/g, ' '))"


def shows_who_can_start_ranks(browser, daemons, where):
    """The job's agents at two hosts, of which tenants are not told the other one. In between one is silent, and then gone."""
    check(browser.value("document.querySelector('#agents-none').checkVisibility()"), "it says that there are no agents")
    job = daemons[0].as_tenant("GET", "/v1/jobs").json()["jobs"][0]["name"]
    here, elsewhere = Agent(daemons[0], job, 3), Agent(daemons[1], job, 4)
    try:
        browser.eventually("both agents are listed", f"({AGENTS}).length === 2")
        own, other = browser.value(AGENTS)
        check(own.startswith("<img") and re.search(r"this host . attached \d\d:\d\d:\d\d 3 2 ", own), own)
        check(other.startswith("<img") and f" {where}" in other and " 4 " in other, other)
        check(browser.value("document.querySelectorAll('#agents img, #agents script').length") == 0, "the name is text")
        check(browser.text_of("#agents-note") == "7 free places of 2 agents.", browser.text_of("#agents-note"))
        check(not browser.value("document.querySelector('#agents-none').checkVisibility()"), "it does not say that there are none")
        here.fall_silent()
        browser.eventually("it is seen that one is silent", f"({AGENTS}).some((row) => row.includes('silent for'))")
        browser.eventually("it is forgotten", f"({AGENTS}).length === 1")
    finally:
        here.end()
        elsewhere.end()
    browser.eventually("none is left", "document.querySelector('#agents-none').checkVisibility()")
    check(browser.value(AGENTS) == [], "nor a row")


def shows_operators_links_plans_and_tenants(browser):
    browser.eventually("a plan is measured", "/[µm]s/.test(document.querySelector('#plan-rows')?.innerText)")
    check("AllReduce" in browser.text_of("#plan-rows"), browser.text_of("#plan-rows"))
    browser.eventually("the other daemon is pictured", "document.querySelectorAll('#fabric-picture .node').length === 2")
    check("root" in browser.text_of("#tenant-rows") or os.getuid() != 0, browser.text_of("#tenant-rows"))


def shows_operators_how_sizes_follow_the_load(browser, daemon):
    browser.eventually("places are shown", "/places are free, on 1 host; 0 jobs may change size, and 0 wait/.test(document.querySelector('#sizes-note')?.innerText)")
    check(browser.value("document.querySelector('#sizes-none').checkVisibility()"), "it says that nothing was decided")
    said = daemon.as_operator("PUT", "/v1/elasticity/waiting", {"jobs": [{"name": "<img src=x>", "ranks": 2}]})
    check(said.status == 200, said)
    browser.eventually("a job waits", "/and 1 waits for places/.test(document.querySelector('#sizes-note').innerText)")


def tells_of_a_rank_that_stops(browser, job, daemon):
    job.stop(3)
    try:
        browser.eventually("what is stuck is shown", "!document.querySelector('#stuck').classList.contains('calm')")
        check("3" in browser.text_of("#stuck-list"), browser.text_of("#stuck"))
        eventually("the daemon's own verdict is shown", lambda: any(
            3 in verdict["ranks"] and verdict["text"] in browser.text_of("#stuck-list")
            for verdict in daemon.as_operator("GET", "/v1/stuck").json()["verdicts"]))
        browser.eventually("the job is marked", "/stuck/.test(document.querySelector('#job-rows').innerText)")
        browser.eventually("it is announced to screen readers", "/3/.test(document.querySelector('#news').innerText)")
    finally:
        job.go_on(3)
    browser.eventually("it is stuck no more", "document.querySelector('#stuck').classList.contains('calm')")


def shows_verdicts(browser, programs, daemon):
    """As the routes of the diagnosis tell them, with words that a tenant chose."""
    job = daemon.as_operator("GET", "/v1/jobs").json()["jobs"][0]
    verdict = {"job": job["id"], "communicator": "tp0", "operation": {"number": 17, "kind": "all-reduce"}, "class": "not_called",
               "ranks": [3], "doing": "stopped", "since": "2026-11-26T08:45:00.123456Z",
               "text": "AllReduce #17 of <b>tp0</b> waits for rank 3, which is stopped: let it go on with SIGCONT"}
    browser.answer_instead("/stuck", {"verdicts": [verdict, {"job": 7, "ranks": "odd", "operation": None}]})
    dashboard = Dashboard(programs, daemon, "--operator")
    try:
        browser.open(dashboard.link)
        browser.eventually("the verdict is shown", "/SIGCONT/.test(document.querySelector('#stuck-list')?.innerText)")
        said = browser.text_of("#stuck-list")
        check("not called" in said and "<b>tp0</b>" in said and "<img" in said, said)
        check(browser.value("document.querySelectorAll('#stuck b').length") == 0, "its text is text")
        check("2 stuck" in browser.value("document.title"), "the tab's title tells of it")
        browser.instead = {"verdicts": []}
        browser.eventually("it is cleared", "document.querySelector('#stuck').classList.contains('calm')")
    finally:
        browser.answer_no_more()
        dashboard.end()


def tells_of_a_rank_that_is_lost(browser, job):
    listed = "document.querySelectorAll('#event-list li').length"
    job.kill(3)
    browser.eventually("an event tells of it", "/rank\\.lost/.test(document.querySelector('#event-list').innerText)")
    browser.eventually("it is announced to screen readers", "/3/.test(document.querySelector('#news').innerText)")
    browser.value("document.querySelector('#event-text').focus()")
    browser.call("Input.insertText", text="no event holds this")
    browser.eventually("the filter leaves what fits", f"{listed} === 0")
    browser.value("(() => { const box = document.querySelector('#event-text'); box.value = 'RANK.LOST'; "
                  "box.dispatchEvent(new Event('input')); })()")
    browser.eventually("what fits is shown again", f"{listed} > 0")


def pauses(browser):
    browser.value("document.querySelector('#pause').click()")
    browser.listen(1)
    before = browser.value(OPERATIONS)
    browser.listen(5)
    check(browser.value(OPERATIONS) == before, "nothing changes while it is paused")
    browser.value("document.querySelector('#pause').click()")
    browser.eventually("it goes on", f"({OPERATIONS}) > {before}")


SAVE = """
import os
from harmonaize import checkpoint, nccl
communicator = nccl.Communicator.init(nccl.UniqueId.new(), 1, 0)
saver = checkpoint.Checkpointer(communicator)
saver.save(1200, {"state": b"bytes"})
saver.wait(1200, "memory", 60)
os._exit(0)
"""


def save_in_memory(programs, daemon, job):
    """Has a rank of a job save a step, and end."""
    plugins = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "python"
    environment = dict(os.environ, HARMONAIZE_JOB=job, HARMONAIZE_SOCKET=daemon.socket, PYTHONPATH=str(plugins),
                       HARMONAIZE_HOME=str(programs.parent))
    subprocess.run([sys.executable, "-c", SAVE], env=environment, check=True, timeout=60)


def shows_what_is_in_memory(browser, programs, daemon):
    save_in_memory(programs, daemon, HOSTILE_NAME)
    browser.value("document.querySelector('#job-rows .expand').click()")
    browser.eventually("the checkpoint is shown", "/step 1,200, whole, saved .* ago; this host has the parts of 1 of 1 ranks/"
                       ".test(document.querySelector('#job-rows .detail')?.innerText)")
    browser.value("document.querySelector('#job-rows .expand').click()")


def works_by_keyboard(browser):
    # From the top of the document on, as after it was loaded.
    browser.value("(() => { document.activeElement.blur(); scrollTo(0, 0); document.body.tabIndex = -1; document.body.focus(); "
                  "document.body.removeAttribute('tabindex'); })()")
    order = []
    for _ in range(27):
        browser.press("Tab")
        order.append(browser.value(FOCUSED))
        if order[-1].startswith("Tenants of"):
            break
    expected = ["Skip to the content", "Now", "Jobs", "Fabric", "Agents", "Sizes", "Plans", "Tenants", "Events", "Pause", "Jobs", "<img",
                "Links as a table", "Severity", "Text", "Events, newest first", "Agents", "The last offers", "Plans", "Tenants"]
    check(len(order) == len(expected) and all(one.startswith(word) for one, word in zip(order, expected)), f"Tab leads to {order}")
    check(browser.value("getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen")
    browser.value("document.querySelector('#job-rows .expand').focus()")
    browser.press("Enter")
    browser.eventually("Enter shows the communicators",
                       "/4, 2 of them here/.test(document.querySelector('#job-rows .detail')?.innerText)")
    check(browser.value("document.querySelector('#job-rows .expand').ariaExpanded") == "true", "which is told")
    check(browser.value(FOCUSED).startswith("<img"), "and the focus stays over changes")
    browser.press("Enter")
    browser.eventually("Enter hides them", "document.querySelector('#job-rows .detail').hidden")


def is_told_to_screen_readers(browser):
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    of_role = {}
    for node in nodes:
        if not node.get("ignored"):
            of_role.setdefault(node.get("role", {}).get("value"), []).append(node.get("name", {}).get("value", ""))
    for role in ("banner", "main", "navigation", "contentinfo", "search"):
        check(len(of_role.get(role, [])) == 1, f"there is one {role}: {of_role.get(role)}")
    for role in ("button", "link", "textbox", "searchbox", "combobox", "table", "image", "region", "figure"):
        check(all(of_role.get(role, [])), f"each {role} has a name: {of_role.get(role)}")
    charts = [name for name in of_role["image"] if "over the last" in name]
    check(len(charts) == 3 and all(re.search(r"now .*lowest .*highest", name) for name in charts), f"charts are told: {charts}")
    check(len(of_role["heading"]) >= 8, f"there are headings: {of_role['heading']}")


def is_read_in_both_schemes(browser):
    grounds = set()
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        browser.listen(0.3)
        contrast, where = browser.value(CONTRAST)
        check(contrast >= 4.5, f"{where} has a contrast of {contrast:.2f} in {scheme}")
        grounds.add(browser.value("getComputedStyle(document.body).backgroundColor"))
    check(len(grounds) == 2, f"the schemes differ: {grounds}")


def fits_a_narrow_screen(browser):
    # As WCAG 2.2, 1.4.10, has it: wide tables scroll within themselves.
    browser.call("Emulation.setDeviceMetricsOverride", width=320, height=640, deviceScaleFactor=1, mobile=False)
    browser.listen(0.5)
    wide = browser.value("document.documentElement.scrollWidth")
    check(wide <= 320, f"the page is {wide} wide on a screen of 320")
    browser.call("Emulation.setDeviceMetricsOverride", width=1440, height=1000, deviceScaleFactor=1, mobile=False)


def a_link_works_once(browser, dashboard):
    browser.open("about:blank")
    browser.open(dashboard.link)
    browser.eventually("the link is refused", "/used already/.test(document.querySelector('#sign-in-why')?.innerText)")
    check(browser.value("document.querySelector('#content').hidden"), "nothing is shown")


def shows_a_tenant_its_own_jobs_alone(browser, dashboard):
    shows_a_job(browser, dashboard)
    for section in ("fabric", "sizes", "plans", "tenants"):
        check(not browser.value(f"document.querySelector('#{section}').checkVisibility()"), f"a tenant sees no {section}")
    asked = {url.split("?")[0].removeprefix(dashboard.origin) for url in browser.requests if url.startswith(dashboard.origin)}
    check(not asked & {"/v1/links", "/v1/plans", "/v1/tenants", "/v1/hosts", "/v1/fabric", "/v1/elasticity"}, f"nor does its page ask: {asked}")


def shows_another_tenant_nothing(browser, programs, daemon):
    agent = Agent(daemon, daemon.as_tenant("GET", "/v1/jobs").json()["jobs"][0]["name"], 3)
    dashboard = Dashboard(programs, daemon, user=OTHER_USER)
    try:
        browser.open(dashboard.link)
        browser.eventually("the page is live", "/live/.test(document.querySelector('#connection')?.innerText)")
        browser.eventually("it has no jobs", "document.querySelector('#jobs-none').checkVisibility()")
        browser.eventually("it has no agents", "document.querySelector('#agents-none').checkVisibility()")
        check("<img" not in browser.value("document.body.innerText"), "nothing of the other tenant's is there")
    finally:
        dashboard.end()
        agent.end()


def asks_for_a_token_over_tcp(browser, daemon):
    origin = f"http://127.0.0.1:{daemon.port}"
    browser.open(origin + "/")
    browser.eventually("it asks for a token", "document.querySelector('#sign-in')?.checkVisibility()")
    check(browser.value("document.activeElement.id") == "token", "which can be typed at once")
    browser.call("Input.insertText", text="hz_wrong")
    browser.press("Enter")
    browser.eventually("a wrong one is refused", "/refuses/.test(document.querySelector('#sign-in-why').innerText)")
    browser.call("Input.insertText", text=daemon.new_token(scope="operator-read-only", days=1))
    browser.press("Enter")
    browser.eventually("the job is listed", "/<img/.test(document.querySelector('#job-rows')?.innerText)")
    check(browser.value("document.querySelector('#token').value") == "", "the field does not keep it")
    check(browser.text_of("#scope") == "operator-read-only", browser.text_of("#scope"))


def forgets_what_it_has_shown(browser, programs, daemon):
    """A new link in the same tab, of somebody who may see less."""
    operators = Dashboard(programs, daemon, "--operator")
    browser.open(operators.link)
    browser.eventually("the operator's page is live", "/<img/.test(document.querySelector('#job-rows')?.innerText)")
    operators.end()
    browser.eventually("it says that nobody answers", "/no answer since/.test(document.querySelector('#connection').innerText)")
    browser.value("location.hash = '#hzo_' + '0'.repeat(64)")
    browser.eventually("the wrong link is refused", "document.querySelector('#sign-in').checkVisibility()")
    check(browser.value("document.querySelectorAll('tbody tr, #event-list li').length") == 0, "nothing is left in the page")
    check("<img" not in browser.value("document.body.textContent.split('\"use strict\"')[0]"), "no name either")


def in_a_browser(program, programs, folder, daemons):
    job = Job(programs, daemons, HOSTILE_NAME)
    browser = Browser(program, str(folder / "profile"))
    try:
        eventually("the job runs", lambda: any(one["operations"] > 0 for one in daemons[0].as_operator("GET", "/v1/jobs").json()["jobs"]))
        dashboard = Dashboard(programs, daemons[0])
        shows_a_tenant_its_own_jobs_alone(browser, dashboard)
        shows_who_can_start_ranks(browser, daemons, "another host")
        no_complaints(browser, dashboard.origin)
        dashboard.end()
        if os.getuid() == 0 and others_can_run(programs / "harmonaize"):
            shows_another_tenant_nothing(browser, programs, daemons[0])
        browser.complaints.clear()
        asks_for_a_token_over_tcp(browser, daemons[0])
        forgets_what_it_has_shown(browser, programs, daemons[0])
        shows_verdicts(browser, programs, daemons[0])
        browser.listen(0.5)
        check(not any("Content Security Policy" in one for one in browser.complaints), f"the policy is kept: {browser.complaints}")
        browser.open("about:blank")
        browser.listen(0.5)
        browser.requests.clear()
        browser.complaints.clear()
        dashboard = Dashboard(programs, daemons[0], "--operator")
        shows_a_job(browser, dashboard)
        shows_operators_links_plans_and_tenants(browser)
        shows_who_can_start_ranks(browser, daemons, "root 127.0.0.2:" if os.getuid() == 0 else "127.0.0.2:")
        shows_operators_how_sizes_follow_the_load(browser, daemons[0])
        shows_what_is_in_memory(browser, programs, daemons[0])
        works_by_keyboard(browser)
        is_told_to_screen_readers(browser)
        is_read_in_both_schemes(browser)
        fits_a_narrow_screen(browser)
        pauses(browser)
        tells_of_a_rank_that_stops(browser, job, daemons[0])
        tells_of_a_rank_that_is_lost(browser, job)
        no_complaints(browser, dashboard.origin)
        a_link_works_once(browser, dashboard)
        dashboard.end()
    finally:
        browser.close()
        job.end()


def main():
    programs = pathlib.Path(sys.argv[1])
    with_browser = sys.argv[2:] == ["--browser"]
    program = find_browser()
    if with_browser and program is None:
        print("skipped: no Chromium is installed")
        return SKIPPED
    with two_daemons(programs, decides=True) as (folder, daemons):
        try:
            if with_browser:
                in_a_browser(program, programs, folder, daemons)
            else:
                the_page_is_one_small_file(daemons[0])
                strangers_get_the_page_and_nothing_else(daemons[0])
                callers_learn_their_scope(daemons[0])
                a_dashboard_passes_reads_on(programs, daemons[0])
                enter_makes_a_new_link(programs, daemons[0])
                a_browser_is_started_without_the_secret(programs, daemons[0], folder)
        finally:
            for process in Dashboard.running:
                process.kill()
                process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
