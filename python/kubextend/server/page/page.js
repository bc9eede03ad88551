// Shows what the endpoints of decisions tell. The page changes nothing, and asks only its own server.
// Names and reasons come from tenants: every text reaches the page as a text node or an attribute.

const ROW_PX = 26;
const REM = 8;
const CHARACTER_REM = 0.5;
const MOST_REM = 18;
const LEAST_PX = 600;
const MARGIN_ROWS = 10;
const MOST_PRINTED = 500;
const REFRESH_MS = 5000;
const GOOD = "good", BAD = "bad", WAIT = "wait";
const STATES = { Bound: GOOD, Passed: GOOD, Waiting: WAIT, Binding: WAIT };

const $ = (id) => document.getElementById(id);

// The token is nowhere but in this variable.
let token = "";
// The pod on display, as namespace/name or UID, and what was told about it.
let wanted = "";
let told = null;

// ---------------------------------------------------------------- elements

/** Make an element with attributes and children; a child that is a text becomes a text node. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== "" && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function fact(name, value, mood) {
  return make("div", {}, make("dt", {}, name), make("dd", { class: mood }, value));
}

function list(texts) {
  return make("ul", {}, ...texts.map((text) => make("li", {}, text)));
}

const moment = (time) => (time ? time.slice(0, 19).replace("T", " ") : "");
const clock = (time) => moment(time).slice(11);
const count = (number) => number.toLocaleString("en-US");
const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const millis = (seconds) =>
  seconds === null || seconds === undefined ? "" : `${(seconds * 1000).toFixed(3)} ms`;
// A number stays on one line with its unit.
const unbroken = (text) => text.replace(" ", "\u00a0");
const by = (plugin) => plugin || "kubextend";

// ---------------------------------------------------------------- tables

/** Return a key that sorts numbers in texts by their value: node-2 before node-10. */
function natural(text) {
  return text.replace(/\d+/g, (digits) => digits.padStart(12, "0"));
}

/** Order numbers before texts, and both before nothing. */
function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

/**
 * A table of any number of rows, of which only those in sight are in the document.
 *
 * A column has a name, `text(row)` and `key(row)`, the number or text to sort by ("" sorts last);
 * `link(row)`, `mood(row)`, `title(row)`, `align` and `rem`, the least width, are optional.
 */
class Table {
  constructor(place, title, columns) {
    this.columns = columns;
    this.rows = [];
    this.order = [];
    this.sorted = { column: -1, down: false };
    this.printing = false;
    this.current = () => false;
    this.id = (_row, index) => String(index);
    this.words = make("input", { type: "search", autocomplete: "off", "aria-label": `Filter ${title}` });
    this.shown = make("span", { class: "dim", role: "status" });
    this.paper = make("p", { class: "paper" });
    this.head = make("tr", { "aria-rowindex": 1 });
    this.body = make("tbody", {});
    this.table = make("table", {}, make("caption", {}, title), make("thead", {}, this.head), this.body);
    const label = { class: "scroll", role: "region", tabindex: 0, "aria-label": title };
    this.scroll = make("div", label, this.table);
    const tools = make("div", { class: "tools" }, make("label", {}, "Filter ", this.words), this.shown);
    place.replaceChildren(tools, this.scroll, this.paper);
    this.words.addEventListener("input", () => this.arrange());
    this.scroll.addEventListener("scroll", () => this.later());
    this.showHead();
  }

  showHead() {
    const cells = this.columns.map((column, index) => {
      const button = make("button", { type: "button", title: column.name }, column.name);
      button.addEventListener("click", () => this.sortBy(index));
      return make("th", { scope: "col", "aria-sort": "none" }, button);
    });
    this.head.replaceChildren(...cells);
    this.table.setAttribute("aria-colcount", this.columns.length);
    this.fit();
  }

  /** Give each column its side and least width; what is left of the table's width is shared out. */
  fit() {
    this.columns.forEach((column, index) => {
      const cell = this.head.children[index];
      cell.className = column.align ?? "";
      cell.style.width = `${column.rem ?? REM}rem`;
    });
    const width = this.columns.reduce((sum, column) => sum + (column.rem ?? REM), 0);
    this.table.style.minWidth = `${width}rem`;
  }

  /** Show other rows, in the order that the table has. */
  show(rows) {
    this.rows = rows;
    this.arrange();
  }

  sortBy(column) {
    const down = this.sorted.column === column && !this.sorted.down;
    this.sorted = { column, down };
    this.arrange();
    this.scroll.scrollTop = 0;
  }

  /** Select the rows that have the filter's words, and sort them. */
  arrange() {
    const { column, down } = this.sorted;
    [...this.head.children].forEach((cell, index) =>
      cell.setAttribute("aria-sort", index === column ? (down ? "descending" : "ascending") : "none"));
    const words = this.words.value.toLowerCase().trim();
    let order = [...this.rows.keys()];
    if (words) {
      const has = (row) => this.columns.some((each) => each.text(row).toLowerCase().includes(words));
      order = order.filter((index) => has(this.rows[index]));
    }
    if (column >= 0) {
      const keys = this.rows.map(this.columns[column].key);
      const sign = down ? -1 : 1;
      order.sort((a, b) => {
        const [left, right] = [keys[a], keys[b]];
        if (left === "" || right === "") return (left === "") - (right === "") || a - b;
        return sign * compare(left, right) || a - b;
      });
    }
    this.order = order;
    const [some, all] = [order.length, this.rows.length];
    this.shown.textContent = some === all ? counted(all, "row") : `${count(some)} of ${counted(all, "row")}`;
    this.table.setAttribute("aria-rowcount", some + 1);
    this.draw();
  }

  later() {
    this.due ??= requestAnimationFrame(() => {
      this.due = undefined;
      this.draw();
    });
  }

  /** Put the rows in sight into the document, between two empty rows that are as high as the rest. */
  draw() {
    const all = this.order.length;
    // A table of few rows is low, and grows with the next rows.
    const fits = Math.ceil(Math.max(this.scroll.clientHeight, LEAST_PX) / ROW_PX);
    let first = Math.min(Math.floor(this.scroll.scrollTop / ROW_PX), all - fits) - MARGIN_ROWS;
    first = Math.max(0, first);
    let end = Math.min(all, first + fits + 2 * MARGIN_ROWS);
    if (this.printing) [first, end] = [0, Math.min(all, MOST_PRINTED)];
    const focused = this.body.contains(document.activeElement) && document.activeElement.dataset.row;
    const rows = [this.space(first)];
    for (let place = first; place < end; place++) rows.push(this.row(place));
    rows.push(this.space(this.printing ? 0 : all - end));
    this.body.replaceChildren(...rows);
    if (focused) this.focus(focused);
    this.paper.textContent = end - first < all && this.printing
      ? `The first ${count(end)} of ${counted(all, "row")} are printed.` : "";
  }

  focus(id) {
    const links = [...this.body.querySelectorAll("a")];
    (links.find((link) => link.dataset.row === id) ?? this.scroll).focus({ preventScroll: true });
  }

  space(rows) {
    const cell = make("td", { class: "space", colspan: this.columns.length });
    cell.style.height = `${rows * ROW_PX}px`;
    return make("tr", { "aria-hidden": "true" }, cell);
  }

  row(place) {
    const row = this.rows[this.order[place]];
    const line = make("tr", { "aria-rowindex": place + 2 });
    if (this.current(row)) line.setAttribute("aria-current", "true");
    for (const column of this.columns) {
      const text = column.text(row);
      const cell = make("td", { title: column.title?.(row) ?? text, class: column.mood?.(row) });
      const link = column.link?.(row);
      if (link) {
        const anchor = make("a", { href: `#${encodeURIComponent(link)}` }, text);
        anchor.dataset.row = this.id(row, place);
        cell.append(anchor);
      } else {
        cell.textContent = text;
      }
      line.append(cell);
    }
    return line;
  }
}

const tables = {};

/** Return the table of a place, which is made anew if its columns have other names. */
function tableOf(id, title, columns) {
  const known = tables[id];
  const names = (each) => JSON.stringify(each.map((column) => column.name));
  if (known && names(known.columns) === names(columns)) {
    known.columns = columns;
    known.fit();
    return known;
  }
  tables[id] = new Table($(id), title, columns);
  return tables[id];
}

function text(name, of, more) {
  return { name, text: of, key: (row) => natural(of(row)), ...more };
}

/** Return the least width in rem for a column's name, with the sign of its order, and its texts. */
function fitting({ name, text }, rows) {
  const longest = rows.reduce((most, row) => Math.max(most, text(row).length), name.length + 2);
  return Math.min(longest * CHARACTER_REM + 1, MOST_REM);
}

/** A column of times of day, with the date in the cell's title. */
function time(name, of, rem) {
  return text(name, (row) => clock(of(row)), { key: of, title: (row) => moment(of(row)), rem });
}

function number(name, of, show = (value) => String(value), more) {
  const value = (row) => of(row) ?? "";
  const shown = (row) => (value(row) === "" ? "" : show(value(row)));
  return { name, text: shown, key: value, mood: () => "number", align: "number", ...more };
}

// ---------------------------------------------------------------- requests

class Refused extends Error {}

/** Return the JSON of an endpoint. */
async function ask(path) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { headers, cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" };
  const response = await fetch(`../${path}`, options);
  if (response.ok) return response.json();
  const answer = await response.json().catch(() => ({}));
  const message = answer.Error ?? `status ${response.status}`;
  throw response.status === 401 || response.status === 403 ? new Refused(message) : new Error(message);
}

/** Run a function that asks the server; show the trouble that it has. */
async function trying(work) {
  try {
    await work();
    $("trouble").textContent = "";
  } catch (error) {
    if (error instanceof Refused) signOut(token ? error.message : "");
    else $("trouble").textContent = `kubextend does not answer: ${error.message}`;
  }
}

/** Forget the token and all that the server told. */
function signOut(message) {
  token = "";
  told = null;
  for (const id of Object.keys(tables)) delete tables[id];
  const filled = ["facts", "counts", "waiting", "pod-list", "pod-title", "pod-state", "attempt", "way",
    "unblock", "nodes-note", "nodes", "latency", "version", "asked"];
  for (const id of filled) $(id).replaceChildren();
  for (const id of ["content", "controls", "pod"]) $(id).hidden = true;
  $("login").hidden = false;
  $("trouble").textContent = message;
  $("token").focus();
}

function signIn() {
  $("login").hidden = true;
  $("content").hidden = $("controls").hidden = false;
  $("forget").hidden = !token;
}

// ---------------------------------------------------------------- health, queue, pods, plugins

async function refresh() {
  const before = token;
  const overview = await ask("overview");
  const plugins = await ask("plugins");
  if (token !== before) return;
  signIn();
  showHealth(overview.kubextend, plugins.items);
  showQueue(overview.queue, overview.waiting);
  showPods(overview.pods);
  showPlugins(plugins.items);
  $("asked").textContent = `as of ${new Date().toISOString().slice(11, 19)} UTC`;
}

function showHealth(server, plugins) {
  $("version").textContent = server.version;
  const missing = Object.entries(server.notReady).map(([name, why]) => `${name}: ${why}`);
  const stuck = plugins.filter((plugin) => plugin.stuckThreads);
  const open = server.openBreakers;
  const sha = make("code", { title: server.configurationSha256 }, server.configurationSha256.slice(0, 12));
  $("facts").replaceChildren(
    fact("Readiness", missing.length ? list(missing) : "ready", missing.length ? BAD : GOOD),
    fact("Open breakers", open.length ? open.join(", ") : "none", open.length ? BAD : GOOD),
    ...(stuck.length ? [fact("Stuck threads",
      stuck.map((plugin) => `${plugin.name}: ${plugin.stuckThreads}`).join(", "), BAD)] : []),
    fact("Configuration (SHA-256)", sha),
    fact("Verbs", server.verbs.join(", ") || "none"),
    ...Object.entries(server.profiles).map(([name, names]) =>
      fact(`Profile ${name}`, names.join(", ") || "no plugins")),
  );
}

function showQueue(queue, waiting) {
  const states = Object.entries(queue?.pods ?? {});
  $("counts").replaceChildren(
    ...(queue ? [] : [fact("Queue", "not configured")]),
    ...(queue && !queue.leads ? [fact("Queue", "another replica leads", WAIT)] : []),
    ...states.map(([state, pods]) => fact(`Queue: ${state.replace("_", " ")}`, count(pods))),
    fact("Waiting in Permit", count(waiting.total), waiting.total ? WAIT : GOOD),
  );
  $("waiting").hidden = !waiting.items.length;
  if (!waiting.items.length && !tables.waiting) return;
  const table = tableOf("waiting", "Waiting pods", [
    text("Waiting pod", (pod) => `${pod.namespace}/${pod.name}`, { link: (pod) => pod.uid, rem: 8 }),
    text("Node", (pod) => pod.node, { rem: 6 }),
    text("Held by", (pod) => pod.pendingPlugins.join(", "), { rem: 6 }),
    time("Since (UTC)", (pod) => pod.since, 6.5),
    time("Until (UTC)", (pod) => pod.deadline ?? "", 6.5),
  ]);
  table.id = (pod) => pod.uid;
  table.show(waiting.items);
}

function showPods(pods) {
  const table = tableOf("pod-list", "Pods", [
    text("Pod", (pod) => `${pod.namespace}/${pod.name}`, { link: (pod) => pod.uid, rem: 10 }),
    text("State", (pod) => pod.state, { mood: (pod) => STATES[pod.state] ?? BAD, rem: 5.5 }),
    number("Passed", (pod) => pod.passed, count, {
      text: (pod) => (pod.nodes === null ? "" : `${count(pod.passed)} of ${count(pod.nodes)}`),
      rem: 7,
    }),
    time("Last call", (pod) => pod.at, 5.5),
    text("Answer", (pod) => pod.said || pod.node, { rem: 5.5 }),
  ]);
  table.id = (pod) => pod.uid;
  table.current = (pod) => pod.uid === told?.pod?.uid;
  table.show(pods.items);
  if (pods.total > pods.items.length) {
    $("pods-title").textContent = `Pods: the latest ${count(pods.items.length)} of ${count(pods.total)}`;
  } else {
    $("pods-title").textContent = "Pods";
  }
}

function showPlugins(plugins) {
  const none = [{ extensionPoint: "", failures: "", calls: "", seconds: null }];
  const rows = plugins.flatMap((plugin) =>
    (plugin.extensionPoints.length ? plugin.extensionPoints : none).map((point) => ({ plugin, point })));
  const quantile = (name, field) => number(name, ({ point }) => point.seconds?.[field], millis);
  const table = tableOf("latency", "Latency by plugin, of the last 1,024 calls", [
    text("Plugin", ({ plugin }) => plugin.name, { rem: 12 }),
    text("Extension point", ({ point }) => point.extensionPoint),
    text("Breaker", ({ plugin }) => (plugin.breakerOpen ? "open" : "closed"),
      { mood: ({ plugin }) => (plugin.breakerOpen ? BAD : GOOD) }),
    number("Failures", ({ point }) => point.failures),
    number("Calls", ({ point }) => point.calls),
    quantile("Median", "p50"), quantile("90%", "p90"), quantile("99%", "p99"), quantile("Max", "max"),
  ]);
  table.show(rows);
}

// ---------------------------------------------------------------- one pod

const PERMIT_POINTS = new Set(["Reserve", "Permit"]);
const BIND_POINTS = new Set(["PreBind", "Bind", "PostBind", "Unreserve"]);

/** Ask about the wanted pod and its nodes, and show both. */
async function showPod() {
  const name = wanted;
  $("pod").hidden = !name;
  if (!name) {
    told = null;
    return;
  }
  const answer = await ask(`decisions?pod=${encodeURIComponent(name)}`);
  const uid = answer.pod?.uid;
  const nodes = uid ? await ask(`decisions/${encodeURIComponent(uid)}/nodes`) : null;
  if (name !== wanted) return;
  const isNew = !told || told.pod?.uid !== uid;
  told = answer;
  const pod = answer.pod;
  $("pod-title").textContent = pod ? `Pod ${pod.namespace}/${pod.name}` : `Pod ${name}`;
  $("pod-state").textContent = pod ? `UID ${pod.uid}, schedulerName ${pod.schedulerName}`
    : "kubextend has no record of this pod: nobody asked kubextend about it, or the record is dropped.";
  $("attempts").hidden = !pod;
  const options = answer.attempts.map((attempt, index) =>
    make("option", { value: index }, `${index ? "" : "last: "}${moment(attempt.calls[0].at)} UTC`));
  $("attempt").replaceChildren(...options);
  showWay();
  showUnblock(answer);
  showNodes(nodes);
  tables["pod-list"]?.draw();
  if (isNew) $("pod-title").focus({ preventScroll: true });
}

function showWay() {
  const index = Number($("attempt").value || 0);
  const calls = told.attempts[index]?.calls ?? [];
  const called = Object.fromEntries(calls.map((call) => [call.verb, call]));
  const waiting = index === 0 ? told.waiting : null;
  const steps = [
    ["Filter", filterStep(called.filter), called.filter, null],
    ...(called.preempt ? [["Preempt", preemptStep(called.preempt), called.preempt, null]] : []),
    ["Score", scoreStep(called.prioritize), called.prioritize, null],
    ["Permit", permitStep(called.bind, waiting, index === 0), called.bind, PERMIT_POINTS],
    ["Bind", bindStep(called.bind, waiting), called.bind, BIND_POINTS],
  ];
  $("way").replaceChildren(...(told.pod ? steps.map((step) => stepItem(...step)) : []));
}

/** Return a step of a pod's way: what came of it, in words, and the time of each plugin. */
function stepItem(title, [mood, outcome, ...more], call, points) {
  const item = make("li", { class: mood }, make("h3", {}, title), make("strong", {}, outcome), ...more);
  if (!call) return item;
  const plugins = call.plugins.filter((each) => !points || points.has(each.extensionPoint));
  const done = call.done ? `took ${unbroken(millis(call.tookSeconds))}` : "is under way";
  item.append(make("p", { class: "dim" }, `${clock(call.at)} UTC, ${call.verb} ${done}`));
  if (plugins.length) {
    const took = (each) => unbroken(millis(each.seconds));
    item.append(list(plugins.map((each) => `${each.plugin} ${each.extensionPoint}: ${took(each)}`)));
  }
  if (call.leftOut.length) item.append(make("p", { class: BAD }, `left out: ${call.leftOut.join(", ")}`));
  return item;
}

function failure(call) {
  const failed = call.failed;
  const detail = failed ? [make("p", {}, `${failed.extensionPoint} of ${failed.plugin}: ${failed.detail}`)] : [];
  return [BAD, `Error: ${call.error}`, ...detail];
}

function filterStep(call) {
  if (!call) return ["", "not called"];
  if (call.error) return failure(call);
  const nodes = call.nodes;
  if (!nodes) return [call.note ? WAIT : "", call.note || "nothing recorded of the nodes"];
  const groups = nodes.rejected.map((group) =>
    `${by(group.plugin)} rejected ${counted(group.nodes, "node")}: ${group.reason}` +
    (group.detail ? ` (${group.detail})` : ""));
  if (nodes.rejectedForOtherReasons) {
    groups.push(`${counted(nodes.rejectedForOtherReasons, "node")} rejected for other reasons`);
  }
  return [nodes.passed ? GOOD : BAD, `${count(nodes.passed)} of ${counted(nodes.nodes, "node")} passed`, list(groups)];
}

function preemptStep(call) {
  return call.error ? failure(call) : ["", call.note || "answered"];
}

function scoreStep(call) {
  if (!call) return ["", "not called"];
  if (call.error) return failure(call);
  const best = call.nodes?.best ?? [];
  if (!best.length) return ["", call.note || "nothing recorded of the nodes"];
  const texts = best.map((each) => `${each.node}: ${each.total} (` +
    Object.entries(each.scores).map(([plugin, score]) => unbroken(`${plugin} ${score.weighted}`)).join(", ") + ")");
  return [GOOD, `best: ${best[0].node} with ${best[0].total}`, list(texts)];
}

function permitStep(call, waiting, isLast) {
  if (waiting && waiting.pendingPlugins.length) {
    return [WAIT, `held by ${waiting.pendingPlugins.join(", ")}`,
      make("p", {}, `for node ${waiting.node}, since ${moment(waiting.since)} UTC` +
        (waiting.deadline ? `, until ${moment(waiting.deadline)} UTC at the latest` : ""))];
  }
  if (!call) return ["", "not called", ...(isLast ? earlierBind() : [])];
  const held = call.heldSeconds === null ? "" : `, after ${call.heldSeconds.toFixed(1)} s`;
  const rejected = call.rejectedBy;
  if (rejected && PERMIT_POINTS.has(rejected.extensionPoint)) {
    return [BAD, `${rejected.extensionPoint} of ${by(rejected.plugin)} rejected the pod${held}`];
  }
  if (!call.plugins.some((each) => PERMIT_POINTS.has(each.extensionPoint))) return ["", "no plugin ran"];
  return call.error && call.done && !rejected ? ["", "see bind"] : [GOOD, `passed${held}`];
}

/** Return the last bind, of an earlier attempt: filter repeats what Permit said there. */
function earlierBind() {
  const bind = told.lastBind;
  if (!bind) return [];
  const outcome = bind.error || `bound to node ${bind.node}`;
  return [make("p", {}, `last bind, ${moment(bind.at)} UTC: ${outcome}`)];
}

function bindStep(call, waiting) {
  if (!call) return ["", "not called"];
  if (!call.done) return [WAIT, waiting ? "waits for Permit" : `under way to node ${call.node}`];
  if (call.error) return [BAD, `not bound to node ${call.node}: ${call.error}`, ...failure(call).slice(2)];
  const api = call.apiSeconds === null ? [] : [make("p", {}, `the Kubernetes API took ${unbroken(millis(call.apiSeconds))}`)];
  return [GOOD, `bound to node ${call.node}`, ...api];
}

function showUnblock(answer) {
  const lines = [
    ...answer.lacks.map((each) => `${each.plugin}: ${each.lacks}`),
    ...answer.nearest.map((near) => `node ${near.node} lacks ` +
      near.lacks.map((each) => `${each.lacks || each.reason} (${each.plugin})`).join("; ")),
  ];
  $("unblock").replaceChildren(...(lines.length ? [make("h3", {}, "To unblock"), list(lines)] : []));
}

/** Return the plugins that judged nodes in the last attempt, each with whether it filters. */
function judges(items) {
  const found = new Map();
  for (const call of told.attempts[0]?.calls ?? []) {
    for (const { plugin, extensionPoint } of call.plugins) {
      if (extensionPoint === "Filter" || extensionPoint === "Score") {
        found.set(plugin, found.get(plugin) || extensionPoint === "Filter");
      }
    }
  }
  for (const item of items) {
    if (item.reason && !found.has(item.plugin)) found.set(item.plugin, true);
    for (const plugin of Object.keys(item.scores)) if (!found.has(plugin)) found.set(plugin, false);
  }
  return found;
}

/** Return what a plugin decided about a node: a score, a reason, "passed", or nothing. */
function verdict(item, plugin, filters) {
  const score = item.scores[plugin];
  if (score) return score.weighted;
  if (item.reason) return item.plugin === plugin ? item.reason : "";
  return filters ? "passed" : "";
}

function showNodes(answer) {
  const items = answer?.items ?? [];
  $("nodes-note").textContent = answer && !answer.kept ? "The nodes of this attempt are not kept." : "";
  const total = (item) => (Object.keys(item.scores).length ? item.total : undefined);
  const columns = [
    text("Node", (item) => item.node),
    number("Total", total),
    text("Rejected", (item) =>
      (item.reason ? (item.unresolvable ? "unresolvable" : "yes") : "no") +
      (item.detail ? `: ${item.detail}` : ""), { mood: (item) => (item.reason ? BAD : GOOD) }),
    ...[...judges(items)].map(([plugin, filters]) => ({
      name: by(plugin),
      text: (item) => String(verdict(item, plugin, filters)),
      key: (item) => verdict(item, plugin, filters),
      align: items.some((item) => item.scores[plugin]) ? "number" : "",
      mood: (item) => (item.reason && item.plugin === plugin ? BAD : item.scores[plugin] ? "number" : ""),
    })),
  ];
  for (const column of columns) column.rem = fitting(column, items);
  const table = tableOf("nodes", "Nodes of the last attempt", columns);
  table.show(items);
}

// ---------------------------------------------------------------- start

function choose() {
  const name = location.hash.slice(1);
  try {
    wanted = decodeURIComponent(name);
  } catch {
    wanted = name;
  }
  return trying(showPod);
}

function printing(now) {
  for (const table of Object.values(tables)) {
    table.printing = now;
    table.draw();
  }
}

async function start() {
  await trying(refresh);
  if (!$("content").hidden) await choose();
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  start();
});
$("refresh").addEventListener("click", () => trying(refresh));
$("again").addEventListener("click", () => trying(showPod));
$("forget").addEventListener("click", () => signOut(""));
$("attempt").addEventListener("change", showWay);
addEventListener("hashchange", () => { if (!$("content").hidden) choose(); });
addEventListener("beforeprint", () => printing(true));
addEventListener("afterprint", () => printing(false));
async function refreshOften() {
  const isIdle = document.hidden || !$("often").checked || $("content").hidden;
  if (!isIdle) await trying(refresh);
  setTimeout(refreshOften, REFRESH_MS);
}

start().then(() => setTimeout(refreshOften, REFRESH_MS));
