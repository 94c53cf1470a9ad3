// What several pages show alike: outcomes, jobs, agents, lists with filters.

import { api } from "./api.js";
import { h } from "./dom.js";
import { plural, sign } from "./format.js";
import { grid } from "./grid.js";
import { changed, current, go, link } from "./state.js";

// An outcome, status or verdict: its sign and its word.
export function chip(word, title = null) {
  if (!word) return "–";
  return h("span", { class: "chip is-" + word.replace(/[^a-z]/g, "-"), title }, h("span", { "aria-hidden": "true" }, sign(word)), " ", word);
}

// The status of a job; a dead one is told.
export function status(row) {
  return row.dead ? [chip(row.status), " ", chip("died", "its process died; `benchjobs recover` closes it")] : chip(row.status);
}

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
export function search(title, name = "q") {
  const field = h("input", { type: "search", name, value: current().get(name) || "", autocomplete: "off", spellcheck: "false" });
  return h("form", { role: "search", class: "search", submit: (event) => {
    event.preventDefault();
    go(changed({ [name]: field.value, after: null }));
  } }, h("label", null, h("span", null, title), field), h("button", { type: "submit" }, "Search"));
}

// A page of a list is about what fits on a screen: all its cells are laid out at once.
const PAGE = 30;
const FILTERS = ["q", "benchmark", "status", "agent", "model", "branch", "tag"];

// The filters of the lists of jobs and runs.
export function filters(meta) {
  const { benchmarks, statuses, agents, models, branches, tags } = meta.choices;
  const some = (name, title, options) => (options && options.length ? choice(name, title, options) : null);
  const set = FILTERS.some((name) => current().get(name));
  return h("div", { class: "filters" }, search("Search"),
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

// A page of a list: its table, and the way to the next one.
export function listed({ label, word, columns, rows, total, next, usual, href }) {
  const now = current();
  const sort = { key: now.get("sort") || usual, order: now.get("order") || "desc" };
  const table = rows.length
    ? grid({ label, columns, rows, sort, href, onSort: (key, order) => go(changed({ sort: key, order, after: null })) })
    : h("p", { class: "nothing" }, `No ${word}s are here` + (FILTERS.some((name) => now.get(name)) ? " that fit the filters." : " yet."));
  return [table, h("p", { class: "pager" },
    typeof total === "number" ? plural(total, word) : `${plural(rows.length, word)} on this page`,
    now.get("after") ? h("a", { class: "button", href: changed({ after: null }) }, "First page") : null,
    next ? h("a", { class: "button", href: changed({ after: next }), rel: "next" }, "Next page") : null)];
}

// A link to the page as plain tables, which the server makes without any script.
export function plainLink() {
  return api.source === "http" ? h("a", { href: changed({ plain: 1 }), "data-outside": true }, "plain tables") : null;
}
