// What several pages show alike: outcomes, jobs, agents, lists with filters.

import { fill, h } from "./dom.js";
import { parsed } from "./expression.js";
import { age, plural, sign, time } from "./format.js";
import { grid } from "./grid.js";
import { changed, current, go, link } from "./state.js";

// An outcome, status or verdict: its sign and its word.
export function chip(word, title = null) {
  if (!word) return "–";
  return h("span", { class: "chip is-" + word.replace(/[^a-z]/g, "-"), title }, h("span", { "aria-hidden": "true" }, sign(word)), " ", word);
}

// The status of a job; that of a dead one is what it last wrote itself.
export const statusChip = (row) => (row.dead ? chip("died", "its process died; `benchjobs recover` closes it") : chip(row.status));

// The same, unless it is the usual one.
export const status = (row) => (row.status === "completed" ? null : statusChip(row));

// A time as its age, or of long ago its day; `whole` has both. Programs and pointers get all of it.
export function when(value, whole = false) {
  const at = time(value);
  if (!value || at === time(null)) return at;
  return h("time", { datetime: value, title: `${at} (${value})`, class: whole ? "with-age" : "whole" }, words(value, whole));
}

function words(value, whole) {
  const [at, ago] = [time(value), age(value)];
  return whole ? at + (ago ? `, ${ago}` : "") : ago || at.slice(0, 10);
}

// Ages grow while a page is read.
setInterval(() => document.querySelectorAll("time").forEach((one) => fill(one, words(one.dateTime, one.className === "with-age"))), 10000);

// A commit, of which the beginning tells enough.
export const commit = (value) => (value ? h("span", { title: value }, value.slice(0, 10)) : "–");

// Marks that a run is of a part of its benchmark.
export const selected = () => h("span", { class: "chip", title: "only a selection of the scenarios ran: -k, -m, --lf or ids" }, "selection");

export function jobLink(job, name = null) {
  return job ? h("a", { href: link("job", { job }), class: name ? null : "whole" }, name ? name : job) : "–";
}

export function trialLink(job, id, shown = null) {
  return h("a", { href: link("trial", { job, id }) }, shown || id);
}

export function scenarioLink(benchmark, scenario) {
  return h("a", { href: link("scenario", { benchmark, scenario }) }, scenario);
}

// A number on a card.
export function card(title, value, note = null) {
  return h("div", { class: "card" }, h("p", { class: "card-title" }, title), h("p", { class: "card-value" }, value),
    note ? h("p", { class: "card-note" }, note) : null);
}

// A field of a form that is in the address: choosing changes the page.
export function choice(name, title, options, empty = "all") {
  const now = current().get(name) || "";
  const listed = now && !options.includes(now) ? [now, ...options] : options;
  return h("label", null, h("span", null, title), h("select", {
    name, change: (event) => go(changed({ [name]: event.target.value, after: null })),
  }, empty === null ? null : h("option", { value: "" }, empty), listed.map((option) => h("option", { value: option, selected: option === now }, option))));
}

// A text field of the address.
export function search(title) {
  return searchForm(title, current().get("q") || "", (q) => go(changed({ q, after: null })), "q");
}

// A form that looks for what its field has.
export function searchForm(title, value, look, name = null) {
  const field = h("input", { type: "search", name, value, autocomplete: "off", spellcheck: "false" });
  return h("form", { role: "search", class: "search", submit: (event) => {
    event.preventDefault();
    look(field.value);
  } }, h("label", null, h("span", null, title), field), h("button", { type: "submit" }, "Search"));
}

// A page of a list is about what fits on a screen: all its cells are laid out at once.
const PAGE = 30;
const LISTED = ["benchmark", "agent", "model", "status", "branch", "tag"];
const PLURALS = { status: "statuses", branch: "branches" };
const MOST = 60;
const FILTERS = ["q", "benchmark", "status", "agent", "model", "branch", "tag"];

// The filters of the lists of jobs and runs.
export function filters(meta) {
  const { benchmarks, statuses, agents, models, branches, tags } = meta.choices;
  const some = (name, title, options) => (options && options.length ? choice(name, title, options) : null);
  const set = FILTERS.some((name) => current().get(name));
  return h("div", { class: "filters" }, search("Search: words, agent:codex, score<0.5"),
    some("benchmark", "Benchmark", benchmarks), some("status", "Status", statuses), some("agent", "Agent", agents),
    some("model", "Model", models), some("branch", "Branch", branches), some("tag", "Tag", tags),
    set ? h("a", { class: "button", href: link(current().get("page") || "jobs") }, "Clear filters") : null);
}

// What the address asks of a list.
export function asked() {
  const now = current();
  const several = (name) => now.getAll(name);
  return {
    sort: now.get("sort"), order: now.get("order"), after: now.get("after"), q: now.get("q"), limit: PAGE,
    benchmark: several("benchmark"), agent: several("agent"), model: several("model"), status: several("status"),
    branch: several("branch"), tag: several("tag"),
  };
}

// The same with the search as an expression: what it has of fields becomes filters, of which `choices` are the values.
export function filtered(choices) {
  const asks = asked();
  const { words, having, limits } = parsed(asks.q || "", LISTED);
  for (const [name, value] of having) {
    const fitting = choices[PLURALS[name] || name + "s"].filter((one) => one.toLowerCase().includes(value));
    const given = asks[name].length ? fitting.filter((one) => asks[name].includes(one)) : fitting;
    if (given.length > MOST) throw new Error(`${name}:${value} fits ${given.length} of them; at most ${MOST} can be looked for at once`);
    asks[name] = given.length ? given : [value];
  }
  return { ...asks, q: words.join(" "), where: limits.map((limit) => limit.join("")) };
}

// Windows on which only what matters most has room.
export const narrow = matchMedia("(max-width: 50rem)");
const chosen = new Map();

// Which columns of a list a person has chosen, on windows of this width; kept by the browser where it keeps anything.
function choices(word, names = null) {
  const key = `benchjobs-${word}-columns${narrow.matches ? "-narrow" : ""}`;
  try {
    if (names) localStorage.setItem(key, names.join(" "));
    else if (!chosen.has(key) && localStorage.getItem(key)) chosen.set(key, localStorage.getItem(key).split(" "));
  } catch {
    // For this page alone, then.
  }
  if (names) chosen.set(key, names);
  return chosen.get(key) || null;
}

// The columns to show, and what chooses them. Each column has a `place`: 1 is shown on any window, 2 on wide ones, others when chosen.
export function columnsOf(word, columns) {
  const usual = columns.filter(({ place }) => place && place <= (narrow.matches ? 1 : 2)).map(({ key }) => key);
  const names = choices(word) || usual;
  const redraw = (to) => {
    choices(word, to);
    window.dispatchEvent(new Event("benchjobs-page"));
  };
  const box = ({ key, title }) => h("label", { class: "column" }, h("input", { type: "checkbox", name: "column-" + key, checked: names.includes(key),
    change: (event) => redraw(columns.map((one) => one.key).filter((one) => (one === key ? event.target.checked : names.includes(one)))) }), " ", title);
  const open = document.querySelector("details.columns[open]");
  const chooser = h("details", { class: "columns", open: Boolean(open) }, h("summary", null, `Columns: ${names.length} of ${columns.length}`),
    h("div", { class: "filters" }, columns.slice(1).map(box), h("button", { type: "button", click: () => redraw(usual) }, "Usual ones")));
  return [columns.filter((column, at) => at === 0 || names.includes(column.key)), chooser];
}

// A page of a list: its table, and the way to the next one.
export function listed({ label, word, columns, rows, total, next, usual, href }) {
  const now = current();
  const sort = { key: now.get("sort") || usual, order: now.get("order") || "desc" };
  const [shown, chooser] = columnsOf(word, columns);
  const table = rows.length
    ? grid({ label, columns: shown, rows, sort, href, onSort: (key, order) => go(changed({ sort: key, order, after: null })) })
    : h("p", { class: "nothing" }, `No ${word}s are here` + (FILTERS.some((name) => now.get(name)) ? " that fit the filters." : " yet."));
  return [chooser, table, h("p", { class: "pager" },
    typeof total === "number" ? plural(total, word) : `${plural(rows.length, word)} on this page`,
    now.get("after") ? h("a", { class: "button", href: changed({ after: null }) }, "First page") : null,
    next ? h("a", { class: "button", href: changed({ after: next }), rel: "next" }, "Next page") : null)];
}
