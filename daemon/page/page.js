"use strict";
// The status page's script (docs/status-page.md). Every text of the daemon goes into the page as text: there is
// no innerHTML here, and the page's policy makes the browser refuse it. The token is kept in a variable alone.
(() => {
  const SAMPLE_MS = 2000;         // between two looks at what changes always
  const SLOW_EVERY = 3;           // looks after which agents, plans, tenants and hosts are asked for, too
  const HIDDEN_EVERY = 5;         // looks of which a hidden tab takes one
  const ANSWER_WITHIN_MS = 10000;
  const SAMPLES = 151;            // five minutes
  const STREAM_SILENT_MS = 45000; // three times the daemon's heartbeat
  const MOST_EVENTS = 500;        // kept here
  const MOST_SHOWN_EVENTS = 200;
  const MOST_EVENT_BYTES = 1 << 20;
  const MOST_EVENT_PAGES = 10;    // of a thousand events, read at the start
  const MOST_ROWS = 200;          // of a table
  const MOST_NAME = 120;          // characters of a name that are shown; the title has all
  const MOST_STUCK_JOBS = 8;      // asked one by one by a tenant
  const MOST_PICTURED_NODES = 120;
  const MOST_LABELLED_LINKS = 40;
  const NEWS_EVERY_MS = 5000;     // for screen readers
  const AGENT_SILENT_SECONDS = 5; // an agent renews itself every second
  const WAITS_LONG_SECONDS = 5;   // without a verdict, what waits this long is shown as stuck
  const SVG = "http://www.w3.org/2000/svg";

  let token = null;
  let operator = false;
  let paused = false;
  let look = 0;
  let lastAnswer = 0;
  let generation = 0;             // of sign-ins; what an older one began does nothing more
  let noStuckRoute = false;
  const kept = {};                // what was last read, by route

  // ---------------------------------------------------------------------------------------------
  // Elements

  const $ = (id) => document.getElementById(id);

  function make(tag, attributes, ...children) {
    const one = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) one.setAttribute(name, value);
    one.append(...children);
    return one;
  }

  function draw(tag, attributes, ...children) {
    const one = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes || {})) one.setAttribute(name, value);
    one.append(...children);
    return one;
  }

  // Writes only what has changed, so that a reader's selection and place stay.
  function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  // A name that a stranger chose: isolated from the text around it, and cut.
  function name(text, none) {
    const whole = typeof text === "string" && text !== "" ? text : none || "(no name)";
    const one = make("bdi", {}, cut(whole, MOST_NAME));
    if (whole.length > MOST_NAME) one.title = whole;
    return one;
  }

  const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "\u2026" : text;
  const list = (value) => Array.isArray(value) ? value : [];
  const number = (value) => Number.isFinite(value) ? value : 0;
  const text = (value) => typeof value === "string" ? value : "";
  const sum = (values) => values.reduce((all, one) => all + one, 0);

  // Keeps one row for each item, in the items' order; rows that stay keep their focus.
  function rows(body, items, keyOf, begin, update) {
    body.kept = body.kept || new Map();
    const now = new Map();
    for (const item of items) {
      const key = keyOf(item);
      if (now.has(key)) continue;
      const row = body.kept.get(key) || begin(item);
      update(row, item);
      now.set(key, row);
    }
    for (const [key, row] of body.kept) if (!now.has(key)) row.parts.forEach((part) => part.remove());
    let at = body.firstElementChild;
    for (const row of now.values()) {
      for (const part of row.parts) {
        if (part === at) at = at.nextElementSibling;
        else body.insertBefore(part, at);
      }
    }
    body.kept = now;
  }

  function simpleRow(columns, numeric) {
    const head = make("th", {scope: "row"});
    const cells = [head];
    for (let i = 1; i < columns; ++i) cells.push(make("td", numeric.includes(i) ? {class: "n"} : {}));
    return {parts: [make("tr", {}, ...cells)], cells};
  }

  // ---------------------------------------------------------------------------------------------
  // Numbers for people

  function scaled(value, step, units, digits) {
    let unit = 0;
    while (Math.abs(value) >= step * 0.9995 && unit + 1 < units.length) { value /= step; ++unit; }
    const shown = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : digits;
    return `${unit === 0 && Number.isInteger(value) ? value : value.toFixed(shown)} ${units[unit]}`;
  }
  const rate = (value) => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 2);
  const size = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1);
  const perSecond = (value) => `${value >= 100 ? Math.round(value) : value.toFixed(1)} /s`;
  const count = (value) => Math.round(number(value)).toLocaleString("en");
  const percent = (value) => `${Math.round(value * 100)} %`;
  function seconds(value) {
    if (value <= 0) return "0 s";
    if (value < 1e-3) return `${(value * 1e6).toFixed(value < 1e-4 ? 1 : 0)} \u00b5s`;
    if (value < 1) return `${(value * 1e3).toFixed(value < 0.1 ? 2 : 0)} ms`;
    if (value < 100) return `${value.toFixed(1)} s`;
    if (value < 7200) return `${Math.round(value / 60)} min`;
    return value < 172800 ? `${(value / 3600).toFixed(1)} h` : `${Math.round(value / 86400)} days`;
  }
  function clock(moment) {
    const time = new Date(moment);
    return Number.isNaN(time.getTime()) ? "" : time.toTimeString().slice(0, 8);
  }

  // ---------------------------------------------------------------------------------------------
  // The daemon

  class Refused extends Error {
    constructor(status, detail) { super(detail); this.status = status; }
  }

  async function ask(route, secret) {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), ANSWER_WITHIN_MS);
    try {
      const headers = secret === null ? {} : {Authorization: `Bearer ${secret}`};
      const answer = await fetch(route, {headers, cache: "no-store", credentials: "omit",
                                         referrerPolicy: "no-referrer", redirect: "error", signal: stop.signal});
      const body = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Refused(answer.status, text(body.detail) || `status ${answer.status}`);
      return body;
    } finally {
      clearTimeout(timer);
    }
  }

  const get = (route) => ask(route, token);

  // Takes a one-time secret out of the address, where histories and neighbours could see it, and has it exchanged.
  async function exchange(secret) {
    const answer = await fetch("/v1/token/exchange", {method: "POST", headers: {Authorization: `Bearer ${secret}`},
                                                      cache: "no-store", credentials: "omit", redirect: "error"});
    const body = await answer.json().catch(() => ({}));
    if (!answer.ok || typeof body.token !== "string") return null;
    return body.token;
  }

  async function begin() {
    $("sign-in-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const secret = $("token").value.trim();
      $("token").value = "";
      signIn(secret);
    });
    $("pause").addEventListener("click", togglePause);
    $("event-severity").addEventListener("change", showEvents);
    $("event-text").addEventListener("input", showEvents);
    window.addEventListener("hashchange", useFragment);
    setInterval(tellNews, NEWS_EVERY_MS);
    if (!await useFragment()) askForToken("");
  }

  // Fragments that are no one-time secret are places on the page.
  async function useFragment() {
    const fragment = location.hash.slice(1);
    if (!/^hz[a-z]*_[\w-]{20,}$/.test(fragment)) return false;
    history.replaceState(null, "", location.pathname);
    const secret = await exchange(fragment).catch(() => null);
    if (secret === null) askForToken("This link was used already, or is too old. Ask for a new one.");
    else await signIn(secret);
    return true;
  }

  // Whoever signs in next sees nothing of what was shown before.
  function forget() {
    for (const route of Object.keys(kept)) delete kept[route];
    for (const samples of [history_.bytes, history_.operations, history_.seconds, events, news]) samples.length = 0;
    for (const all of [history_.jobs, rails, loads, open, known, stuckJobs]) all.clear();
    before = null;
    missed = 0;
    noStuckRoute = false;
    for (const body of document.querySelectorAll("tbody, #event-list, #stuck-list, #chart-bytes .legend")) {
      body.replaceChildren();
      body.kept = new Map();
    }
    for (const id of ["where", "foot", "news", "agents-note", "sizes-note"]) put($(id), "");
    document.title = "Harmonaize";
  }

  function askForToken(why) {
    token = null;
    ++generation;
    forget();
    $("content").hidden = true;
    $("nav").hidden = true;
    $("pause").hidden = true;
    $("scope").hidden = true;
    $("sign-in").hidden = false;
    put($("sign-in-why"), why);
    put($("connection"), "");
    $("token").focus();
  }

  async function signIn(secret) {
    let caller;
    try {
      caller = await ask("/v1/whoami", secret);
    } catch (error) {
      askForToken(error instanceof Refused ? `The daemon refuses this token: ${error.message}`
                                           : "The daemon does not answer.");
      return;
    }
    token = secret;
    ++generation;
    forget();
    operator = text(caller.scope).startsWith("operator");
    const scope = operator ? text(caller.scope) : `tenant ${text(caller.tenant)}`;
    put($("scope"), cut(scope, 40));
    for (const one of document.querySelectorAll("[data-operator]")) one.hidden = !operator;
    for (const id of ["content", "nav", "pause", "scope"]) $(id).hidden = false;
    $("sign-in").hidden = true;
    if (!document.activeElement || document.activeElement === document.body) $("main").focus({preventScroll: true});
    run(generation);
    follow(generation);
  }

  function connected(holds, why) {
    const chip = $("connection");
    chip.className = `chip ${holds ? paused ? "warn" : "good" : "bad"}`;
    put(chip, holds ? paused ? "\u2016 paused" : "\u25cf live"
                    : `\u25b2 no answer since ${lastAnswer ? clock(lastAnswer) : "the start"}${why}`);
  }

  function togglePause() {
    paused = !paused;
    $("pause").setAttribute("aria-pressed", String(paused));
    put($("pause"), paused ? "Go on" : "Pause");
    connected(true, "");
    if (!paused) showEvents();
  }

  async function run(mine) {
    while (mine === generation) {
      const began = performance.now();
      if (!paused && (!document.hidden || look % HIDDEN_EVERY === 0)) {
        // An answer of an odd form costs its look alone.
        await lookOnce(mine).catch((error) => console.error(error));
      }
      ++look;
      const rest = Math.max(200, SAMPLE_MS - (performance.now() - began));
      await new Promise((go) => setTimeout(go, rest));
    }
  }

  async function lookOnce(mine) {
    const slow = look % SLOW_EVERY === 0;
    const wanted = [["jobs", "/v1/jobs"]];
    if (slow || !kept.agents) wanted.push(["agents", "/v1/agents"], ["saved", "/v1/checkpoints"]);
    if (operator) {
      wanted.push(["links", "/v1/links"]);
      if (slow || !kept.plans) {
        wanted.push(["plans", "/v1/plans"], ["tenants", "/v1/tenants"], ["hosts", "/v1/hosts"], ["sizes", "/v1/elasticity"]);
      }
      if (!kept.fabric) wanted.push(["fabric", "/v1/fabric"]);
    }
    const answers = await Promise.allSettled(wanted.map(([, route]) => get(route)));
    if (mine !== generation) return;
    let broken = null;
    answers.forEach((answer, i) => {
      if (answer.status === "fulfilled") kept[wanted[i][0]] = answer.value;
      else if (!(answer.reason instanceof Refused) || ![404, 429].includes(answer.reason.status)) {
        broken = answer.reason;
      }
    });
    if (broken instanceof Refused && broken.status === 401) {
      askForToken("This session has ended. Run 'harmonaize dashboard' again, or give a token.");
      return;
    }
    if (answers[0].status === "fulfilled") {
      lastAnswer = Date.now();
      connected(true, "");
      sample(performance.now() / 1000);
    } else {
      connected(false, broken instanceof Refused ? `: ${cut(broken.message, 80)}` : "");
    }
    await lookAtStuck(mine);
    await lookAtOpenJobs(mine);
    if (mine === generation) show();
  }

  // ---------------------------------------------------------------------------------------------
  // Samples

  const history_ = {bytes: [], operations: [], seconds: [], jobs: new Map()};
  let before = null;

  // What has been added since the last look. A number falls when a communicator ends, or the daemon is restarted.
  const added = (now, old) => Math.max(0, number(now) - number(old));

  function sample(at) {
    const jobs = new Map(list(kept.jobs && kept.jobs.jobs).map((job) => [text(job.id), job]));
    if (before !== null && at > before.at) {
      const passed = at - before.at;
      const total = {operations: 0, timed: 0, seconds: 0};
      const by = {};
      for (const [id, job] of jobs) {
        // Of a job that the last look did not show all is new.
        const old = before.jobs.get(id) || {timed: {}};
        by[id] = added(job.bytes, old.bytes) / passed;
        const operations = added(job.operations, old.operations);
        total.operations += operations;
        const timed = added(job.timed && job.timed.operations, old.timed && old.timed.operations);
        if (timed > 0) {
          total.timed += timed;
          total.seconds += added(job.timed.seconds, old.timed && old.timed.seconds);
        }
        keep(jobHistory(id), {at, bytes: by[id], operations: operations / passed});
      }
      keep(history_.bytes, {at, value: sum(Object.values(by)), by});
      keep(history_.operations, {at, value: total.operations / passed});
      keep(history_.seconds, {at, value: total.timed > 0 ? total.seconds / total.timed : null});
    }
    for (const id of history_.jobs.keys()) if (!jobs.has(id)) history_.jobs.delete(id);
    before = {at, jobs};
    sampleRails(at);
  }

  function jobHistory(id) {
    if (!history_.jobs.has(id)) history_.jobs.set(id, []);
    return history_.jobs.get(id);
  }

  function keep(samples, one) {
    samples.push(one);
    if (samples.length > SAMPLES) samples.shift();
  }

  const last = (samples) => samples.length ? samples[samples.length - 1] : null;

  // ---------------------------------------------------------------------------------------------
  // Charts

  const SPANS_SECONDS = [60, 120, (SAMPLES - 1) * SAMPLE_MS / 1000];
  const WIDE = 600;
  const HIGH = 150;

  function roundUp(value) {
    if (value <= 0) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 1.5, 2, 3, 4, 5, 7.5, 10].map((step) => step * power).find((one) => one >= value * 1.02) || 10 * power;
  }

  function plotOf(id) {
    const plot = $(id).querySelector(".plot");
    if (!plot.made) {
      const svg = draw("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img"});
      plot.append(svg);
      plot.axes = [0, 0.5, 1].map((part) => {
        const label = make("span", {class: "axis", "aria-hidden": "true"});
        label.style.top = `calc(${(1 - part) * 100}% - .4rem)`;
        plot.append(label);
        return label;
      });
      plot.begins = make("span", {class: "axis x", "aria-hidden": "true"});
      const ends = make("span", {class: "axis x", "aria-hidden": "true"}, "now");
      ends.style.right = "0";
      plot.append(plot.begins, ends);
      plot.made = svg;
    }
    return plot;
  }

  // The seconds that charts show: few while there is little to show.
  function span() {
    const samples = history_.bytes;
    const known_ = samples.length ? last(samples).at - samples[0].at : 0;
    return SPANS_SECONDS.find((one) => one >= known_ - 1) || last(SPANS_SECONDS);
  }

  const place = (at, value, most, end) =>
    `${(WIDE * (1 - (end - at) / span())).toFixed(1)} ${(HIGH * (1 - value / most)).toFixed(1)}`;

  // Draws layers of values, each on top of the one before, as areas; a single one as a line over its area.
  function chart(id, samples, layers, format, what) {
    const plot = plotOf(id);
    const known = samples.filter((one) => one.value !== null);
    const end = samples.length ? last(samples).at : 0;
    const most = roundUp(Math.max(0, ...known.map((one) => one.value)));
    plot.axes.forEach((label, i) => put(label, i === 0 ? "" : format(most * i / 2)));
    put(plot.begins, `${span() / 60} min ago`);
    const parts = [0, 0.5, 1].map((part) => draw("line", {class: "grid", x1: 0, x2: WIDE, y1: HIGH * part, y2: HIGH * part,
                                                         "vector-effect": "non-scaling-stroke"}));
    for (const run_ of runsOf(samples)) parts.push(...layersOf(run_, layers, most, end));
    plot.made.replaceChildren(...parts);
    const values = known.map((one) => one.value);
    const now = samples.length ? last(samples).value : null;
    put($(id).querySelector(".value"), now === null ? "\u2013" : format(now));
    plot.made.setAttribute("aria-label", values.length === 0 ? `${what}: nothing yet.`
      : `${what} over the last ${seconds(end - samples[0].at)}: now ${now === null ? "none" : format(now)}, ` +
        `lowest ${format(Math.min(...values))}, highest ${format(Math.max(...values))}.`);
  }

  // Parts of the samples without a gap.
  function runsOf(samples) {
    const runs = [];
    let open = null;
    for (const one of samples) {
      const gap = open !== null && one.at - last(open).at > 8 * SAMPLE_MS / 1000;
      if (one.value === null || gap) open = null;
      if (one.value === null) continue;
      if (open === null) runs.push(open = []);
      open.push(one);
    }
    return runs;
  }

  function layersOf(samples, layers, most, end) {
    const parts = [];
    let floor = samples.map(() => 0);
    layers.forEach((valueOf, i) => {
      const top = samples.map((one, k) => floor[k] + valueOf(one));
      const up = samples.map((one, k) => place(one.at, top[k], most, end));
      const down = samples.map((one, k) => place(one.at, floor[k], most, end)).reverse();
      const area = `M${up.join("L")}L${down.join("L")}Z`;
      if (layers.length > 1) {
        parts.push(draw("path", {class: `stack c${i}`, d: area, "vector-effect": "non-scaling-stroke"}));
      } else {
        parts.push(draw("path", {class: "area c0", d: area}),
                   draw("path", {class: "line c0", d: `M${up.join("L")}`, "vector-effect": "non-scaling-stroke"}));
      }
      floor = top;
    });
    return parts;
  }

  function showCharts() {
    const jobs = list(kept.jobs && kept.jobs.jobs);
    const recent = (id) => sum(history_.bytes.slice(-15).map((one) => number(one.by[id])));
    const busiest = jobs.filter((job) => recent(job.id) > 0).sort((a, b) => recent(b.id) - recent(a.id));
    const named = busiest.slice(0, busiest.length === 5 ? 5 : 4);
    const layers = named.map((job) => (one) => number(one.by[job.id]));
    const others = (one) => Math.max(0, one.value - sum(named.map((job) => number(one.by[job.id]))));
    const hasOthers = history_.bytes.some((one) => others(one) > 0.001 * one.value);
    if (hasOthers || layers.length === 0) layers.push(others);
    chart("chart-bytes", history_.bytes, layers, rate, "Throughput of all jobs");
    chart("chart-operations", history_.operations, [(one) => one.value], perSecond, "Operations a second");
    chart("chart-seconds", history_.seconds, [(one) => one.value], seconds, "Mean time of an operation across hosts");
    const now = last(history_.bytes);
    const entries = named.map((job) => ({key: job.id, shown: job.name, none: `job ${text(job.id).slice(0, 8)}`,
                                         value: now ? number(now.by[job.id]) : 0}));
    if (hasOthers) entries.push({key: "others", shown: "all others", value: now ? others(now) : 0});
    rows($("chart-bytes").querySelector(".legend"), entries, (one) => one.key, (one) => {
      const swatch = make("span", {class: "swatch", "aria-hidden": "true"});
      const value = make("span", {class: "muted"});
      return {parts: [make("li", {}, swatch, name(one.shown, one.none), value)], swatch, value};
    }, (row, one) => {
      row.swatch.className = `swatch c${entries.indexOf(one)}`;
      put(row.value, rate(one.value));
    });
  }

  function spark(svg, samples) {
    const most = Math.max(1, ...samples.map((one) => one.bytes));
    const end = samples.length ? last(samples).at : 0;
    const points = samples.map((one) => place(one.at, one.bytes, most * 1.1, end));
    svg.replaceChildren(...points.length < 2 ? [] : [draw("path", {class: "line c0", d: `M${points.join("L")}`,
                                                                  "vector-effect": "non-scaling-stroke"})]);
    svg.setAttribute("aria-label", samples.length === 0 ? "no samples yet"
      : `throughput from ${rate(Math.min(...samples.map((one) => one.bytes)))} to ${rate(Math.max(...samples.map((one) => one.bytes)))}`);
  }

  // ---------------------------------------------------------------------------------------------
  // Jobs

  const open = new Map();  // jobs whose communicators are shown, and these

  function showJobs() {
    const jobs = list(kept.jobs && kept.jobs.jobs).slice();
    const began = (job) => text(job.began);
    jobs.sort((a, b) => (a.ended === null ? 0 : 1) - (b.ended === null ? 0 : 1) || (began(a) < began(b) ? 1 : -1));
    const shown = jobs.slice(0, MOST_ROWS);
    rows($("job-rows"), shown, (job) => text(job.id), beginJob, updateJob);
    $("jobs-none").hidden = jobs.length > 0 && jobs.length <= MOST_ROWS;
    if (jobs.length > MOST_ROWS) put($("jobs-none"), `${jobs.length - MOST_ROWS} more are not shown.`);
  }

  function beginJob(job) {
    const row = simpleRow(operator ? 10 : 9, operator ? [4, 5, 6, 7, 8] : [3, 4, 5, 6, 7]);
    const id = `job-${text(job.id).replace(/[^\w]/g, "")}`;
    row.button = make("button", {type: "button", class: "expand", "aria-expanded": "false", "aria-controls": id},
                      name(job.name, `job ${text(job.id).slice(0, 8)}`));
    row.button.title = `Job ${cut(text(job.id), 64)}`;
    row.inner = make("td", {colspan: String(row.cells.length)});
    row.detail = make("tr", {class: "detail", id, hidden: ""}, row.inner);
    row.parts.push(row.detail);
    row.cells[0].append(row.button);
    row.spark = draw("svg", {class: "spark", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img"});
    row.cells[row.cells.length - 1].append(row.spark);
    row.chip = make("span", {class: "chip"});
    row.cells[operator ? 3 : 2].append(row.chip);
    row.button.addEventListener("click", () => toggleJob(row, text(job.id)));
    return row;
  }

  async function toggleJob(row, id) {
    const opens = row.detail.hidden;
    row.detail.hidden = !opens;
    row.button.setAttribute("aria-expanded", String(opens));
    if (!opens) { open.delete(id); return; }
    open.set(id, []);
    if (!row.inner.table) put(row.inner, "\u2026");
    await lookAtOpenJobs(generation);
    show();
  }

  async function lookAtOpenJobs(mine) {
    for (const id of open.keys()) {
      const job = await get(`/v1/jobs/${encodeURIComponent(id)}`).catch(() => null);
      if (mine !== generation || !open.has(id)) return;
      if (job !== null) open.set(id, list(job.communicators));
    }
  }

  function stateOf(job) {
    if (job.ended !== null && job.ended !== undefined) return ["ended", ""];
    const states = list(job.communicators).map((one) => one.state);
    if (states.includes("broken")) return ["\u2716 broken", "bad"];
    if (states.includes("revoked")) return ["\u2716 revoked", "bad"];
    if (stuckJobs.has(job.id)) return ["\u25b2 stuck", "bad"];
    if (number(job.waiting) > 0) return [`${job.waiting} waiting`, "warn"];
    if (states.length === 0 && list(job.forming).length > 0) return ["forming", "warn"];
    return ["\u25cf running", "good"];
  }

  function updateJob(row, job) {
    const communicators = list(job.communicators);
    const samples = history_.jobs.get(job.id) || [];
    const now = last(samples);
    const [state, look_] = stateOf(job);
    put(row.chip, state);
    row.chip.className = `chip ${look_}`;
    let at = 1;
    if (operator) put(row.cells[at++], cut(text(job.tenant), 40));
    put(row.cells[at++], text(job.kind) === "unknown" ? "\u2013" : text(job.kind));
    ++at;
    put(row.cells[at++], count(communicators.length));
    put(row.cells[at++], count(Math.max(0, ...communicators.concat(list(job.forming)).map((one) => number(one.size)))));
    put(row.cells[at++], count(job.operations));
    put(row.cells[at++], now ? perSecond(now.operations) : "\u2013");
    put(row.cells[at++], now ? rate(now.bytes) : "\u2013");
    spark(row.spark, samples);
    if (!open.has(job.id)) return;
    showCommunicators(row.inner, open.get(job.id));
    showSaved(row.inner, job.id);
  }

  // The newest checkpoint in memory that all ranks have, or else the newest.
  function showSaved(cell, id) {
    if (!cell.saved) cell.append(cell.saved = make("p", {class: "muted"}));
    const job = list(kept.saved && kept.saved.jobs).find((one) => one.job === id);
    const saves = list(job && job.checkpoints);
    const save = saves.find((one) => one.complete === true) || saves[0];
    cell.saved.hidden = !save;
    if (!save) return;
    const age = seconds(Math.max(0, Date.now() / 1000 - number(save.saved)));
    put(cell.saved, `Newest checkpoint in memory: step ${count(save.step)}, ${save.complete === true ? "whole" : "not whole"}, ` +
                    `saved ${age} ago; this host has the parts of ${list(save.parts_here).length} of ${count(save.ranks)} ranks.`);
  }

  function showCommunicators(cell, communicators) {
    if (!cell.table) {
      cell.body = make("tbody");
      const heads = ["Communicator", "State", "Ranks", "Operations", "Bytes", "Congestion", "Waits for"];
      cell.table = make("table", {}, make("caption", {class: "unseen"}, "Communicators of the job"),
                        make("thead", {}, make("tr", {}, ...heads.map((head, i) =>
                          make("th", i === 3 || i === 4 ? {scope: "col", class: "n"} : {scope: "col"}, head)))), cell.body);
      cell.replaceChildren(cell.table);
    }
    rows(cell.body, communicators.slice(0, MOST_ROWS), (one) => text(one.id), (one) => {
      const row = simpleRow(7, [3, 4]);
      row.cells[0].append(name(one.name, text(one.id)));
      return row;
    }, (row, one) => {
      const ranks = list(one.ranks);
      const here = ranks.filter((rank) => rank.here).length;
      put(row.cells[1], cut(text(one.failure) || text(one.state), 200));
      put(row.cells[2], here === number(one.size) ? `${here}, all here` : `${number(one.size)}, ${here} of them here`);
      put(row.cells[3], count(one.operations));
      put(row.cells[4], size(number(one.bytes)));
      put(row.cells[5], text(one.congestion) || "\u2013");
      put(row.cells[6], list(one.waiting).slice(0, 3).map(waitText).join("; ") || "\u2013");
    });
  }

  const ranksText = (ranks) => {
    const some = list(ranks).slice(0, 12).map((rank) => String(number(rank)));
    if (list(ranks).length > 12) some.push(`${ranks.length - 12} more`);
    return `${some.length === 1 ? "rank" : "ranks"} ${some.join(", ")}`;
  };
  const waitText = (one) =>
    `${cut(text(one.operation), 80)} for ${ranksText(one.missing_ranks)}, ${seconds(number(one.for_seconds))}`;

  // ---------------------------------------------------------------------------------------------
  // Stuck operations

  let stuckJobs = new Set();

  async function lookAtStuck(mine) {
    const jobs = list(kept.jobs && kept.jobs.jobs);
    if (!noStuckRoute) {
      try {
        kept.stuck = operator ? list((await get("/v1/stuck")).verdicts) : await stuckOfJobs(jobs);
        return;
      } catch (error) {
        if (error instanceof Refused && error.status === 404 && operator) noStuckRoute = true;
      }
    }
    kept.stuck = [];
    for (const job of jobs.filter((one) => number(one.waiting) > 0).slice(0, MOST_STUCK_JOBS)) {
      const answer = await get(`/v1/jobs/${encodeURIComponent(text(job.id))}/operations`).catch(() => ({}));
      if (mine !== generation) return;
      for (const one of list(answer.operations)) {
        if (number(one.for_seconds) < WAITS_LONG_SECONDS) continue;
        kept.stuck.push({job: job.id, communicator: one.communicator, ranks: one.missing_ranks,
                         text: `${cut(text(one.operation), 80)} has waited for ${ranksText(one.missing_ranks)} for ` +
                               `${seconds(number(one.for_seconds))}.`});
      }
    }
  }

  // A job that ended meanwhile has no verdicts any more; where no job answers, the daemon has no such route.
  async function stuckOfJobs(jobs) {
    const waiting = jobs.filter((one) => one.ended === null && (number(one.waiting) > 0 || number(one.stuck) > 0))
      .slice(0, MOST_STUCK_JOBS);
    const answers = await Promise.allSettled(
      waiting.map((job) => get(`/v1/jobs/${encodeURIComponent(text(job.id))}/stuck`)));
    if (waiting.length > 0 && answers.every((one) => one.status === "rejected")) throw answers[0].reason;
    return answers.flatMap((one) => one.status === "fulfilled" ? list(one.value.verdicts) : []);
  }

  function showStuck() {
    const verdicts = list(kept.stuck).slice(0, MOST_ROWS);
    stuckJobs = new Set(verdicts.map((one) => text(one.job)));
    $("stuck").classList.toggle("calm", verdicts.length === 0);
    $("stuck-none").hidden = verdicts.length > 0;
    const jobs = new Map(list(kept.jobs && kept.jobs.jobs).map((job) => [job.id, job]));
    const keyOf = (one) => JSON.stringify([one.job, one.communicator, one.operation && one.operation.number, one.class, one.ranks]);
    rows($("stuck-list"), verdicts, keyOf, (one) => {
      const job = jobs.get(one.job);
      const said = make("span");
      const item = make("li", {}, make("strong", one.class === "computing" ? {class: "soft"} : {}, text(one.class).replace(/_/g, " ") || "waits"), " \u00b7 ",
                        name(job && job.name, `job ${text(one.job).slice(0, 8)}`), " \u00b7 ", said);
      news.push(`Stuck: ${cut(text(one.text), 200)}`);
      return {parts: [item], said};
    }, (row, one) => {
      const since = text(one.since) ? ` Since ${clock(one.since)}.` : "";
      put(row.said, cut(text(one.text) || `waits for ${ranksText(one.ranks)}`, 1024) + since);
    });
  }

  // ---------------------------------------------------------------------------------------------
  // Fabric

  const rails = new Map();  // what each rail has sent and received, and its rates
  const loads = new Map();  // the load of each direction of a link, smoothed: reports are of a tenth of a second

  function sampleRails(at) {
    const seen = new Set();
    for (const link of list(kept.links && kept.links.links)) {
      for (const rail of list(link.rails)) {
        const key = `${text(link.peer)} ${text(rail.name)}`;
        seen.add(key);
        const old = rails.get(key);
        const passed = old ? at - old.at : 0;
        rails.set(key, {at, sent: number(rail.sent_bytes), received: number(rail.received_bytes),
                        out: passed > 0 ? added(rail.sent_bytes, old.sent) / passed : 0,
                        in: passed > 0 ? added(rail.received_bytes, old.received) / passed : 0});
      }
    }
    for (const key of rails.keys()) if (!seen.has(key)) rails.delete(key);
    for (const edge of list(kept.links && kept.links.fabric_links)) {
      const key = `${text(edge.link)} ${text(edge.from)}`;
      const old = loads.get(key);
      const now = number(edge.carried_bytes_per_second);
      loads.set(key, old === undefined ? now : 0.6 * old + 0.4 * now);
    }
  }

  // The picture's nodes, and its links with both directions' loads, from what this daemon knows.
  function fabricOf() {
    const fabric = kept.fabric || {};
    if (list(fabric.nodes).length > 0) return statedFabric(fabric);
    return neighbours(text(kept.links && kept.links.host) || "this host");
  }

  function statedFabric(fabric) {
    const edges = new Map(list(kept.links && kept.links.fabric_links).map((one) => [`${text(one.link)} ${text(one.from)}`, one]));
    const links = list(fabric.links).map((link) => {
      const directions = [[link.from, link.to], [link.to, link.from]].map(([from, to]) => {
        const key = `${text(link.name)} ${text(from)}`;
        const edge = edges.get(key);
        if (!edge) return {from: text(from), to: text(to), carried: 0, of: 0, load: 0, slow: false, known: false};
        const planned = number(edge.planned_bytes_per_second);
        const stated = number(edge.stated_bytes_per_second);
        const carried = loads.get(key) || 0;
        return {from: text(from), to: text(to), carried, of: planned, stated, known: true,
                load: planned > 0 ? carried / planned : carried > 0 ? 1 : 0, slow: planned < 0.9 * stated};
      });
      return {name: text(link.name), ends: [text(link.from), text(link.to)], directions};
    });
    const nodes = list(fabric.nodes).map((node) => ({name: text(node.name), kind: text(node.kind), here: node.name === fabric.host}));
    return {nodes, links, stated: true};
  }

  // Without a fabric file: the daemons that this one is linked with, and what goes to and fro.
  function neighbours(own) {
    const nodes = [{name: own, kind: "leaf", here: true}];
    const links = [];
    for (const link of list(kept.links && kept.links.links)) {
      const peer = text(link.peer);
      nodes.push({name: peer, kind: "host", here: false});
      const mine = list(link.rails).map((rail) => rails.get(`${peer} ${text(rail.name)}`)).filter(Boolean);
      const direction = (from, to, carried) => ({from, to, carried, of: 0, load: 0, slow: false, known: true});
      links.push({name: `${own} - ${peer}`, ends: [own, peer],
                  directions: [direction(own, peer, sum(mine.map((one) => one.out))), direction(peer, own, sum(mine.map((one) => one.in)))]});
    }
    const most = Math.max(1, ...links.flatMap((link) => link.directions.map((one) => one.carried)));
    for (const link of links) for (const one of link.directions) one.share = one.carried / most;
    return {nodes, links, stated: false};
  }

  const busier = (link) => link.directions.reduce((a, b) => (b.carried > a.carried ? b : a));
  const levelOf = (load) => load < 0.02 ? 0 : load < 0.5 ? 1 : load < 0.85 ? 2 : 3;

  function showFabric() {
    const fabric = fabricOf();
    const hosts = fabric.nodes.filter((node) => node.kind === "host").length + (fabric.stated ? 0 : 1);
    put($("fabric-note"), fabric.links.length === 0 ? "This daemon has no links to other hosts."
      : fabric.stated ? `${hosts} hosts, ${fabric.nodes.length - hosts} switches, ${fabric.links.length} links. Loads are those that this daemon hears of.`
                      : `${hosts - 1} linked ${hosts === 2 ? "daemon" : "daemons"}; a fabric file would show the links between.`);
    const drawn = fabric.links.length > 0 && fabric.nodes.length <= MOST_PICTURED_NODES;
    $("fabric-picture").hidden = !drawn;
    $("fabric-legend").hidden = !drawn || !fabric.stated;
    if (drawn) $("fabric-picture").replaceChildren(pictureOf(fabric));
    if (!$("fabric-legend").firstChild) legendOfFabric();
    showLinks(fabric);
  }

  function pictureOf(fabric) {
    const layers = ["core", "spine", "leaf", "host"].map((kind) => fabric.nodes.filter((node) => node.kind === kind)).filter((some) => some.length);
    const widest = Math.max(...layers.map((some) => some.length));
    const width = Math.max(640, widest * 118);
    const step = layers.length > 1 ? 132 : 0;
    const height = step * (layers.length - 1) + 76;
    const at = new Map();
    layers.forEach((some, layer) => some.forEach((node, i) =>
      at.set(node.name, {x: width * (i + 0.5) / some.length, y: 36 + layer * step, layer})));
    const full = fabric.links.filter((link) => levelOf(busier(link).load) === 3).length;
    const slow = fabric.links.filter((link) => link.directions.some((one) => one.slow)).length;
    const svg = draw("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `Picture of the fabric: ${fabric.nodes.length} nodes, ${fabric.links.length} links, ${full} of them full, ` +
                    `${slow} slower than stated. The table below has the numbers.`});
    const labels = [];
    const twins = new Map();
    for (const link of fabric.links) {
      const pair = link.ends.join("\n");
      twins.set(pair, (twins.get(pair) || []).concat(link));
    }
    for (const some of twins.values()) some.forEach((link, i) => drawLink(svg, labels, link, at, i - (some.length - 1) / 2, fabric));
    svg.append(...labels);
    for (const node of fabric.nodes) if (at.has(node.name)) svg.append(nodeOf(node, at.get(node.name)));
    return svg;
  }

  function drawLink(svg, labels, link, at, offset, fabric) {
    const [a, b] = link.ends.map((end) => at.get(end));
    if (!a || !b) return;
    const one = busier(link);
    const load = fabric.stated ? one.load : one.share;
    const long = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    // Cables that lie beside each other, and rings within a layer, are bent apart.
    const bend = offset * 44 + (a.layer === b.layer ? 60 : 0);
    const middle = {x: (a.x + b.x) / 2 - (b.y - a.y) / long * bend, y: (a.y + b.y) / 2 + (b.x - a.x) / long * bend};
    const slow = link.directions.some((each) => each.slow);
    const path = draw("path", {class: `link load${fabric.stated ? levelOf(load) : one.carried > 0 ? 1 : 0}${slow ? " slow" : ""}`,
                               d: `M${a.x} ${a.y}Q${middle.x} ${middle.y} ${b.x} ${b.y}`,
                               "stroke-width": (2 + 7 * Math.min(1, load)).toFixed(1)});
    path.append(draw("title", {}, `${link.name}: ${link.directions.map((each) => `${each.from} to ${each.to} ${rate(each.carried)}` +
                                   (each.of > 0 ? ` of ${rate(each.of)}` : "")).join("; ")}`));
    svg.append(path);
    if (fabric.links.length > MOST_LABELLED_LINKS) return;
    // A third of the way from the lower end, where lines that cross are apart.
    const lower = a.y >= b.y ? 0.36 : 0.64;
    const aside = offset === 0 ? 0 : Math.sign(middle.x - (a.x + b.x) / 2);
    const point = (u, v, w) => (1 - lower) ** 2 * u + 2 * lower * (1 - lower) * v + lower ** 2 * w;
    const label = fabric.stated ? one.known ? percent(one.load).replace(" ", "") : "" : rate(one.carried);
    labels.push(draw("text", {class: `load-text ${aside < 0 ? "left" : aside > 0 ? "right" : ""}`,
                              x: (point(a.x, middle.x, b.x) + 9 * aside).toFixed(1), y: point(a.y, middle.y, b.y).toFixed(1)}, label));
  }

  function nodeOf(node, at) {
    const shown = cut(node.name, 22);
    const wide = Math.max(72, shown.length * 8 + 22);
    const box = draw("rect", {x: at.x - wide / 2, y: at.y - 17, width: wide, height: 34, rx: node.kind === "host" ? 8 : 17});
    const said = draw("text", {x: at.x, y: at.y}, shown);
    const group = draw("g", {class: `node ${node.kind === "host" || node.here ? "host" : "switch"}${node.here ? " here" : ""}`}, box, said);
    group.append(draw("title", {}, `${node.kind} ${node.name}${node.here ? ", this host" : ""}`));
    return group;
  }

  function legendOfFabric() {
    const lines = [["load0", 2, "idle"], ["load1", 4, "below half"], ["load2", 6, "half and more"], ["load3", 9, "full"],
                   ["load1 slow", 4, "slower than stated"]];
    for (const [look_, wide, what] of lines) {
      const line = draw("svg", {viewBox: "0 0 48 16", "aria-hidden": "true"},
                        draw("path", {class: `link ${look_}`, d: "M5 8H43", "stroke-width": String(wide)}));
      $("fabric-legend").append(make("li", {}, line, what));
    }
  }

  function showLinks(fabric) {
    const all = fabric.links.flatMap((link) => link.directions.map((one) => ({...one, link: link.name})));
    all.sort((a, b) => b.load - a.load || b.carried - a.carried);
    rows($("link-rows"), all.slice(0, MOST_ROWS), (one) => `${one.link}\n${one.from}`, (one) => {
      const row = simpleRow(7, [3, 4, 5]);
      row.cells[0].append(name(one.link));
      put(row.cells[1], one.from);
      put(row.cells[2], one.to);
      return row;
    }, (row, one) => {
      put(row.cells[3], one.known ? rate(one.carried) : "\u2013");
      put(row.cells[4], one.of > 0 ? rate(one.of) : "\u2013");
      put(row.cells[5], one.of > 0 ? percent(one.load) : "\u2013");
      put(row.cells[6], !one.known ? "not heard of" : one.of === 0 && one.stated > 0 ? "cut" : one.slow ? "slower than stated" : levelOf(one.load) === 3 ? "full" : "well");
    });
  }

  // ---------------------------------------------------------------------------------------------
  // Agents

  function showAgents() {
    const own = list(kept.agents && kept.agents.agents).map((one) => ({...one, key: text(one.id), here: true}));
    // Tenants are not told at which hosts the others are, so these have no name of their own.
    const others = list(kept.agents && kept.agents.elsewhere).map((one, i) => ({...one, key: `${i} ${text(one.job)}`, here: false}));
    const all = own.concat(others);
    $("agents-none").hidden = all.length > 0;
    const places = sum(all.map((one) => number(one.places)));
    put($("agents-note"), all.length === 0 ? "" : `${count(places)} free places of ${count(all.length)} ${all.length === 1 ? "agent" : "agents"}` +
        `${all.length > MOST_ROWS ? `; ${count(all.length - MOST_ROWS)} are not shown` : ""}.`);
    rows($("agent-rows"), all.slice(0, MOST_ROWS), (one) => one.key, (one) => {
      const row = simpleRow(operator ? 8 : 7, operator ? [4, 5, 6] : [3, 4, 5]);
      row.cells[0].append(name(one.name, `job ${text(one.job).slice(0, 8)}`));
      row.chip = make("span", {class: "chip"});
      row.cells[operator ? 3 : 2].append(row.chip);
      return row;
    }, updateAgent);
  }

  function updateAgent(row, one) {
    const [standing, look_] = one.here ? standingOf(one) : ["", ""];
    put(row.chip, standing);
    row.chip.className = `chip ${look_}`;
    let at = 1;
    if (operator) put(row.cells[at++], cut(text(one.tenant), 40));
    put(row.cells[at++], one.here ? "this host" : cut(text(one.address) || "another host", MOST_NAME));
    ++at;
    put(row.cells[at], clock(one.began) || "\u2013");
    row.cells[at++].title = cut(text(one.began), 40);
    put(row.cells[at++], count(one.places));
    put(row.cells[at++], one.here ? count(one.ranks_here) : "\u2013");
    put(row.cells[at++], cut(text(one.problem), 200) || list(one.offers).slice(0, 3).map(offerText).join("; ") || "\u2013");
  }

  function standingOf(one) {
    const silent = number(one.lease_seconds) - number(one.gone_in_seconds);
    if (silent > AGENT_SILENT_SECONDS) return [`\u25b2 silent for ${seconds(silent)}`, "bad"];
    return text(one.standing) === "attached" ? ["\u25cf attached", "good"] : [cut(text(one.standing), 20), "warn"];
  }

  const offerText = (one) => `${cut(text(one.kind), 20)}${number(one.ranks) > 0 ? ` of ${count(one.ranks)}` : ""}, ${cut(text(one.state), 20)}`;

  // ---------------------------------------------------------------------------------------------
  // Sizes of elastic jobs

  function showSizes() {
    const sizes = kept.sizes || {};
    const follows = operator && sizes.enabled === true;
    for (const id of ["sizes", "sizes-link"]) $(id).hidden = !follows;
    if (!follows) return;
    const hosts = list(sizes.hosts);
    const jobs = list(sizes.jobs).length;
    const waiting = list(sizes.waiting).length;
    put($("sizes-note"), sizes.decides !== true
      ? `The controller at ${cut(text(sizes.controller), MOST_NAME)} decides: its page shows it.`
      : `${count(sum(hosts.map((one) => number(one.free))))} of ${count(sum(hosts.map((one) => number(one.places))))} places are free, ` +
        `on ${count(hosts.length)} ${hosts.length === 1 ? "host" : "hosts"}; ${count(jobs)} ${jobs === 1 ? "job" : "jobs"} may change size, ` +
        `and ${count(waiting)} wait${waiting === 1 ? "s" : ""} for places.`);
    // Several may have been decided on at once.
    const seen = new Map();
    const all = list(sizes.decisions).map((one) => {
      const key = ["time", "name", "tenant", "host", "kind"].map((field) => text(one[field])).join(" ");
      seen.set(key, (seen.get(key) || 0) + 1);
      return {...one, key: `${key} ${seen.get(key)}`};
    });
    $("sizes-none").hidden = all.length > 0;
    rows($("size-rows"), all.slice(0, MOST_ROWS), (one) => one.key, (one) => {
      const row = simpleRow(6, [3]);
      row.cells[0].append(name(one.name, "a job"));
      return row;
    }, (row, one) => {
      put(row.cells[1], cut(text(one.tenant), 40));
      put(row.cells[2], cut(text(one.host), MOST_NAME));
      put(row.cells[3], clock(one.time) || "\u2013");
      row.cells[3].title = cut(text(one.time), 40);
      put(row.cells[4], `${cut(text(one.kind), 20)} of ${count(one.ranks)}`);
      put(row.cells[5], cut(text(one.why), 200) || "\u2013");
    });
  }

  // ---------------------------------------------------------------------------------------------
  // Plans and tenants

  const RATIO_SPAN = 3;  // the meter ends at three times what was predicted

  function showPlans() {
    const plans = [];
    for (const one of list(kept.plans && kept.plans.communicators)) {
      for (const plan of list(one.plans)) plans.push({...plan, of: one});
    }
    plans.sort((a, b) => number(b.operations) - number(a.operations));
    $("plans-none").hidden = plans.length > 0;
    const keyOf = (plan) => JSON.stringify([plan.of.communicator, plan.collective, plan.bytes, plan.algorithm, plan.order]);
    rows($("plan-rows"), plans.slice(0, MOST_ROWS), keyOf, beginPlan, updatePlan);
  }

  function beginPlan(plan) {
    const row = simpleRow(9, [3, 5, 6, 7]);
    const job = list(kept.jobs && kept.jobs.jobs).find((one) => one.id === plan.of.job);
    const own = text(plan.of.name) !== "";
    row.cells[0].append(name(own ? plan.of.name : job && job.name, "communicator"),
                        ...own ? [] : [make("span", {class: "muted"}, ` number ${number(plan.of.communicator)}`)]);
    put(row.cells[1], cut(text(plan.of.tenant), 40));
    put(row.cells[2], text(plan.collective));
    put(row.cells[3], size(number(plan.bytes)));
    put(row.cells[4], `${text(plan.algorithm)}${text(plan.order) && plan.order !== "given" ? `, ${text(plan.order)}` : ""}`);
    row.fill = draw("rect", {class: "fill", x: 0, y: 2, height: 10, width: 0, rx: 3});
    const svg = draw("svg", {viewBox: "0 0 120 14", preserveAspectRatio: "none", "aria-hidden": "true"},
                     draw("rect", {class: "track", x: 0, y: 2, width: 120, height: 10, rx: 3}), row.fill,
                     draw("line", {class: "mark", x1: 120 / RATIO_SPAN, x2: 120 / RATIO_SPAN, y1: 0, y2: 14}));
    row.ratio = make("span");
    row.svg = svg;
    row.cells[8].append(make("div", {class: "meter"}, svg, row.ratio));
    return row;
  }

  // Measured times are of the sizes that were sent, predicted ones of the size that the plan was made for. Where the
  // two differ by much they are not compared.
  function updatePlan(row, plan) {
    const operations = number(plan.operations);
    const measured = operations > 0 ? number(plan.measured_seconds) / operations : 0;
    const mean = operations > 0 ? number(plan.measured_bytes) / operations : 0;
    const predicted = number(plan.predicted_seconds);
    const alike = mean > 0.8 * number(plan.bytes) && mean < 1.25 * number(plan.bytes);
    const ratio = alike && predicted > 0 && measured > 0 ? measured / predicted : 0;
    put(row.cells[5], count(operations));
    put(row.cells[6], predicted > 0 ? seconds(predicted) : "\u2013");
    put(row.cells[7], measured > 0 ? seconds(measured) : "\u2013");
    row.fill.setAttribute("width", String(120 * Math.min(1, ratio / RATIO_SPAN)));
    row.fill.setAttribute("class", ratio > 1.5 ? "fill over" : "fill");
    row.svg.classList.toggle("gone", ratio === 0);
    put(row.ratio, ratio > 0 ? `${ratio.toFixed(2)} times` : measured > 0 ? `not compared: ${size(mean)} were sent` : "not used yet");
  }

  function showTenants() {
    const tenants = list(kept.tenants && kept.tenants.tenants).slice();
    tenants.sort((a, b) => number(b.bytes) - number(a.bytes));
    $("tenants-none").hidden = tenants.length > 0;
    rows($("tenant-rows"), tenants.slice(0, MOST_ROWS), (one) => text(one.name), (one) => {
      const row = simpleRow(7, [1, 2, 3, 4, 5]);
      row.cells[0].append(name(one.name));
      row.fill = draw("rect", {class: "fill", x: 0, y: 2, height: 10, width: 0, rx: 3});
      row.said = make("span");
      const svg = draw("svg", {viewBox: "0 0 120 14", preserveAspectRatio: "none", "aria-hidden": "true"},
                       draw("rect", {class: "track", x: 0, y: 2, width: 120, height: 10, rx: 3}), row.fill);
      row.cells[6].append(make("div", {class: "meter"}, svg, row.said));
      return row;
    }, (row, one) => {
      put(row.cells[1], count(list(one.processes).length));
      put(row.cells[2], count(list(one.communicators).length));
      const inline = (field) => sum(list(one.communicators).map((each) => number(each[field])));
      put(row.cells[3], count(number(one.operations) + inline("inline_operations")));
      put(row.cells[4], size(number(one.bytes) + inline("inline_bytes")));
      put(row.cells[5], size(number(one.region_bytes)));
      const nearest = list(one.holds).map((hold) => ({...hold, share: number(hold.quota) > 0 ? number(hold.held) / number(hold.quota) : 0}))
        .reduce((a, b) => (b.share > a.share ? b : a), {share: 0, resource: ""});
      row.fill.setAttribute("width", String(120 * Math.min(1, nearest.share)));
      row.fill.setAttribute("class", nearest.share > 0.8 ? "fill over" : "fill");
      put(row.said, nearest.share > 0 ? `${nearest.share < 0.005 ? "below 1 %" : percent(nearest.share)} of ${text(nearest.resource)}` : "nothing held");
    });
  }

  // ---------------------------------------------------------------------------------------------
  // Events

  const events = [];   // newest first
  const known = new Set();
  let news = [];       // for screen readers
  let missed = 0;

  function take(event, fresh) {
    const id = text(event && event.id);
    if (id === "" || known.has(id)) return;
    known.add(id);
    const data = event.data && typeof event.data === "object" ? event.data : {};
    events.unshift({id, at: text(event.time), severity: number(event.severitynumber), label: text(event.severitytext) || "INFO",
                    type: text(event.type).replace(/^io\.harmonaize\./, ""), subject: text(event.subject),
                    job: text(event.source).replace(/^\/harmonaize\/(jobs\/)?/, ""), said: text(data.text), fresh});
    while (events.length > MOST_EVENTS) known.delete(events.pop().id);
    if (fresh) news.push(`${text(event.severitytext)}: ${cut(text(data.text), 200)}`);
  }

  async function readKept(mine) {
    let after = "";
    for (let page = 0; page < MOST_EVENT_PAGES; ++page) {
      const answer = await get(`/v1/events?follow=false&limit=1000${after ? `&after=${encodeURIComponent(after)}` : ""}`);
      if (mine !== generation) return "";
      for (const event of list(answer.events)) take(event, false);
      after = text(answer.next) || after;
      if (!answer.more) break;
    }
    events.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
    showEvents();
    return after;
  }

  async function follow(mine) {
    let after = null;
    let pause = 1000;
    while (mine === generation) {
      try {
        if (after === null) after = await readKept(mine);
        await stream(mine, after, (id) => { after = id; pause = 1000; });
      } catch (error) {
        if (error instanceof Refused && error.status === 400) after = "";
      }
      await new Promise((go) => setTimeout(go, pause));
      pause = Math.min(2 * pause, 30000);
    }
  }

  // Reads server-sent events. EventSource cannot send a token.
  async function stream(mine, after, reached) {
    const stop = new AbortController();
    let timer = setTimeout(() => stop.abort(), STREAM_SILENT_MS);
    const headers = {Authorization: `Bearer ${token}`, Accept: "text/event-stream"};
    if (after) headers["Last-Event-ID"] = after;
    try {
      const answer = await fetch("/v1/events?follow=true", {headers, cache: "no-store", credentials: "omit", redirect: "error", signal: stop.signal});
      if (!answer.ok) throw new Refused(answer.status, "");
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      let rest = "";
      while (true) {
        const {value, done} = await reader.read();
        if (done || mine !== generation) { stop.abort(); return; }
        clearTimeout(timer);
        timer = setTimeout(() => stop.abort(), STREAM_SILENT_MS);
        rest += decoder.decode(value, {stream: true});
        const blocks = rest.split("\n\n");
        rest = blocks.pop();
        if (rest.length > MOST_EVENT_BYTES) { stop.abort(); return; }
        for (const block of blocks) takeBlock(block, reached);
        if (blocks.length && !paused) showEvents();
      }
    } finally {
      clearTimeout(timer);
    }
  }

  function takeBlock(block, reached) {
    const fields = {};
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      const field = line.slice(0, colon);
      const value = line.slice(colon + 1).replace(/^ /, "");
      fields[field] = field === "data" && fields.data !== undefined ? `${fields.data}\n${value}` : value;
    }
    if (fields.id) reached(fields.id);
    if (fields.data === undefined) return;
    let event;
    try { event = JSON.parse(fields.data); } catch { return; }
    if (fields.event === "io.harmonaize.events.missed") missed += number(event.missed);
    else take(event, true);
  }

  const SIGNS = {9: ["\u25cb", ""], 13: ["\u25b2", "warn"], 17: ["\u2716", "bad"], 21: ["\u2716", "bad"]};

  function showEvents() {
    const least = Number($("event-severity").value);
    const words = $("event-text").value.trim().toLowerCase();
    const names = new Map(list(kept.jobs && kept.jobs.jobs).map((job) => [job.id, text(job.name)]));
    const nameOf = (one) => names.get(one.job) || one.job.slice(0, 8);
    const fits = (one) => one.severity >= least &&
      (words === "" || `${one.type} ${one.subject} ${nameOf(one)} ${one.job} ${one.said}`.toLowerCase().includes(words));
    const some = events.filter(fits);
    rows($("event-list"), some.slice(0, MOST_SHOWN_EVENTS), (one) => one.id, (one) => {
      const [sign, look_] = SIGNS[one.severity] || SIGNS[9];
      const severity = make("span", {class: `chip sev ${look_}`}, `${sign} ${cut(one.label, 8)}`);
      const of = name(nameOf(one), "host");
      const item = make("li", one.fresh ? {class: "new"} : {}, make("time", {datetime: one.at}, clock(one.at)), severity,
                        make("span", {}, make("span", {class: "what"}, cut(one.type, 60)), " \u00b7 ", of), make("span", {class: "text"}, cut(one.said, 1024)));
      item.firstChild.title = one.at;
      return {parts: [item], of};
    }, (row, one) => put(row.of, cut(nameOf(one) || "host", MOST_NAME)));
    $("events-none").hidden = some.length > 0;
    put($("events-none"), events.length > 0 ? "No event fits the filter." : "No events.");
    const lost = missed > 0 ? `, ${count(missed)} missed` : "";
    put($("event-count"), `${count(some.length)} of ${count(events.length)}${lost}`);
  }

  // One sentence at a time, at most every few seconds.
  function tellNews() {
    if (news.length === 0 || paused) return;
    const latest = news[news.length - 1];
    put($("news"), news.length === 1 ? latest : `${news.length} new events. The latest: ${latest}`);
    news = [];
  }

  // ---------------------------------------------------------------------------------------------

  function show() {
    showStuck();
    showCharts();
    showJobs();
    showAgents();
    showSizes();
    if (operator) {
      showFabric();
      showPlans();
      showTenants();
    }
    showEvents();
    const host = operator ? list(kept.hosts && kept.hosts.hosts)[0] : null;
    const named = host && text(host.name) !== "this" ? text(host.name) : "";
    const stuck = list(kept.stuck).length;
    document.title = `${stuck > 0 ? `\u25b2 ${stuck} stuck \u00b7 ` : ""}${named ? `${cut(named, 40)} \u00b7 ` : ""}Harmonaize`;
    if (!host) return;
    put($("where"), cut(named, MOST_NAME));
    put($("foot"), `harmonaized ${text(host.version)}, up for ${seconds(number(host.uptime_seconds))}, ${count(host.workers)} workers. ` +
                   "Counts are of this host; operations that ranks carry out themselves are as they say.");
  }

  begin();
})();
