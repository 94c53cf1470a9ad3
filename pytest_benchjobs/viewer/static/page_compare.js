// Page of a comparison: two jobs, or two agents of one, paired by scenario.

import { api } from "./api.js";
import { intervalChart, pairChart } from "./chart.js";
import { facts, h, section, table } from "./dom.js";
import { count, duration, figure, money, percent, plural, points, probability, score, text } from "./format.js";
import { grid } from "./grid.js";
import { choice, columnsOf, jobLink, narrow, scenarioLink } from "./parts.js";
import { changed, current, go, link } from "./state.js";

const KINDS = ["broke", "fixed", "worse", "better", "same"];
const SIGNS = { broke: "✗", fixed: "✓", worse: "↓", better: "↑", same: "=" };

export async function comparePage() {
  const now = current();
  const [{ jobs }, { baselines }] = await Promise.all([api.jobs({ limit: 100 }), api.overview({})]);
  const form = (found) => sides(now, jobs, baselines.map((one) => one.name), found);
  if (!now.get("a") || !now.get("b")) {
    return { title: "Compare", content: [h("h1", null, "Compare"), form(null), h("p", { class: "nothing" }, "Choose two jobs or baselines, or one job twice and two of its agents. An agent's label has its model, so two models are two agents.")] };
  }
  const asked = Object.fromEntries(["a", "b", "a_agent", "b_agent", "benchmark"].map((name) => [name, now.get(name) || ""]));
  let found;
  try {
    found = await api.compare(asked);
  } catch (error) {
    return { title: "Compare", content: [h("h1", null, "Compare"), form(null), h("p", { class: "error", role: "alert" }, error.message)] };
  }
  const { comparison, pairs } = found;
  const rows = pairsOf(pairs, now.get("kind"));
  const [columns, chooser] = columnsOf("pair", PAIRS);
  return { title: "Compare", content: [
    h("h1", null, "Compare"), form(found),
    facts([["A", sideOf(found.a_jobs, comparison.a)], ["B", sideOf(found.b_jobs, comparison.b)], ["Level of the intervals", percent(comparison.level)]]),
    section("Verdict by benchmark and agents", rowsTable(comparison)), metricSection(comparison),
    section("Scenarios",
      h("div", { class: "filters" }, choice("kind", "Kind", KINDS), h("span", { class: "key" }, KINDS.map((kind) => [kindChip(kind), " ", count(pairs.kind.filter((one) => one === kind).length), " "]))),
      rows.length ? [chooser, grid({ label: "Scenarios, paired", columns, rows, virtual: true, least: narrow.matches ? 0 : 50 })] : h("p", { class: "nothing" }, "No scenario fits."),
      h("p", { class: "pager" }, plural(rows.length, "pair"), found.left_out ? `; ${plural(found.left_out, "pair")} beyond the first are left out, also of the counts` : null)),
    refs("Not compared: not the same task on both sides", comparison.changed), refs("Not compared: no score on a side", comparison.unscored),
    refs("On A only", comparison.removed), refs("On B only", comparison.added),
    comparison.notes && comparison.notes.length ? section("Notes", h("ul", null, comparison.notes.map((note) => h("li", null, note)))) : null] };
}

// The form of the two sides. Agents and benchmarks are those of the chosen ones, once these are known.
function sides(now, jobs, baselines, found) {
  const ids = [...baselines, ...jobs.map((job) => job.id)];
  const all = (name) => [...new Set(jobs.flatMap((job) => job[name]))];
  // The agents are those of the two jobs: once both are chosen, they are asked for.
  const chosenBoth = (event) => {
    if (event.target.name !== "a" && event.target.name !== "b") return;
    const { a, b } = Object.fromEntries(new FormData(form));
    if (a && b) go(link("compare", { a, b }));
  };
  const field = (name, title, options, optional) => {
    const chosen = now.get(name) || "";
    const listed = chosen && !options.includes(chosen) ? [chosen, ...options] : options;
    return h("label", null, h("span", null, title), h("select", { name, required: !optional }, h("option", { value: "" }, optional || "choose"),
      listed.map((option) => h("option", { value: option, selected: option === chosen }, nameOf(jobs, option)))));
  };
  const form = h("form", { class: "filters", change: chosenBoth, submit: (event) => {
    event.preventDefault();
    const asked = Object.fromEntries(new FormData(form));
    go(link("compare", asked));
  } }, field("a", "Job A", ids), field("a_agent", "Agent A", found ? found.agents_a : all("agents"), "all"), field("b", "Job B", ids), field("b_agent", "Agent B", found ? found.agents_b : all("agents"), "all"),
  field("benchmark", "Benchmark", all("benchmarks"), "all"), h("button", { type: "submit" }, "Compare"),
  now.get("a") && now.get("b") ? h("a", { class: "button", href: changed({ a: now.get("b"), b: now.get("a"), a_agent: now.get("b_agent"), b_agent: now.get("a_agent") }) }, "Swap") : null);
  return form;
}

function nameOf(jobs, id) {
  const job = jobs.find((one) => one.id === id);
  return job && job.name ? `${id} ${job.name}` : id;
}

function sideOf(jobs, side) {
  return [jobs.map((job) => [jobLink(job), " "]), side.agents && side.agents.length ? `(${side.agents.join(", ")})` : null];
}

function rowsTable(comparison) {
  if (!comparison.rows.length) return h("p", { class: "nothing" }, "The two have no scenario in common.");
  return table("Comparison by benchmark and agents",
    ["Benchmark and agents", { title: "Mean A → B", number: true }, { title: "Change", number: true }, { title: "Winner" }, { title: "Interval", extra: true },
      ...["p", "Pairs", "Smallest detectable change", "Pass rates", "Cost per attempt", "Time per attempt"].map((title) => ({ title, number: true, extra: true }))],
    comparison.rows.map((row) => [[row.benchmark, h("small", { class: "agent" }, agentsOf(row))],
      both(score, row.a, row.b), points(row.delta), row.winner ? `${row.winner.toUpperCase()}${row.significant ? "" : ", may be chance"}` : "tie",
      intervalChart({ value: row.delta, low: row.low, high: row.high }, `${points(row.low)} to ${points(row.high)}`, 160) || "–",
      probability(row.p_value), count(row.scenarios), typeof row.detectable === "number" ? points(row.detectable, false) : "none",
      both(percent, row.a_pass_rate, row.b_pass_rate), both(money, row.a_cost, row.b_cost), both(duration, row.a_seconds, row.b_seconds)]));
}

function metricSection(comparison) {
  const rows = comparison.rows.flatMap((row) => row.metrics.map((metric) => [row, metric]));
  if (!rows.length) return null;
  return section("Metrics", table("Metrics",
    ["Metric", "Benchmark", "A", "B", { title: "Scenarios", number: true }, { title: "Mean A", number: true }, { title: "Mean B", number: true },
      { title: "Change", number: true }, "Unit", "Better", "Winner", { title: "p", number: true }],
    rows.map(([row, metric]) => [metric.name, row.benchmark, row.a_agent, row.b_agent, count(metric.scenarios), figure(metric.a), figure(metric.b),
      (metric.delta > 0 ? "+" : "") + figure(metric.delta), text(metric.unit), metric.direction,
      metric.winner ? metric.winner.toUpperCase() + (metric.p_value !== null && metric.p_value < 1 - comparison.level ? "" : ", may be chance") : "tie",
      probability(metric.p_value)])));
}

function pairsOf(pairs, kind) {
  const rows = pairs.scenario.map((scenario, at) => Object.fromEntries(Object.keys(pairs).map((name) => [name, pairs[name][at]])));
  const weight = (row) => Math.abs((row.b ?? 0) - (row.a ?? 0));
  return rows.filter((row) => !kind || row.kind === kind)
    .sort((x, y) => KINDS.indexOf(x.kind) - KINDS.indexOf(y.kind) || weight(y) - weight(x) || (x.scenario < y.scenario ? -1 : 1));
}

function kindChip(kind) {
  return h("span", { class: "chip kind-" + kind }, h("span", { "aria-hidden": "true" }, SIGNS[kind] || "·"), " ", kind);
}

const both = (shown, a, b) => (shown(a) === "–" && shown(b) === "–" ? "–" : `${shown(a)} → ${shown(b)}`);
const agentsOf = (row) => (row.a_agent === row.b_agent ? row.a_agent : `${row.a_agent} → ${row.b_agent}`);

const PAIRS = [
  { key: "scenario", title: "Scenario", place: 1, wide: true, hint: (row) => row.scenario, cell: (row) => scenarioLink(row.benchmark, row.scenario) },
  { key: "kind", title: "Kind", place: 1, narrow: true, cell: (row) => kindChip(row.kind) },
  { key: "dots", title: "A ○ to B ●", place: 2, chart: true, cell: (row) => pairChart(row.a, row.b) },
  { key: "a", title: "A", place: 1, number: true, narrow: true, cell: (row) => score(row.a) },
  { key: "b", title: "B", place: 1, number: true, narrow: true, cell: (row) => score(row.b) },
  { key: "passes", title: "Passes", place: 2, number: true, narrow: true, cell: (row) => `${row.a_passed}/${row.a_attempts} → ${row.b_passed}/${row.b_attempts}` },
  { key: "benchmark", title: "Benchmark", place: 2, cell: (row) => row.benchmark },
  { key: "agents", title: "Agents", place: 2, hint: agentsOf, cell: agentsOf },
  // As the address names the jobs: a baseline stays one, so that the steps are of the job that has them.
  { key: "steps", title: "Steps", place: 2, narrow: true, cell: (row) => h("a", { href: link("steps", { a_job: current().get("a"), b_job: current().get("b"), benchmark: row.benchmark,
    scenario: row.scenario, a_agent: row.a_agent, b_agent: row.b_agent }), "aria-label": `Steps of ${row.scenario} side by side` }, "steps") },
];

function refs(title, found) {
  if (!found || !found.length) return null;
  return section(title, h("ul", null, found.slice(0, 200).map((one) => h("li", null, `${one.benchmark}::${one.scenario} (${one.agent})`, one.why ? `: ${text(one.why)}` : null))),
    found.length > 200 ? h("p", null, `and ${plural(found.length - 200, "other")}`) : null);
}

