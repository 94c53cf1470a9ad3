// Pages of jobs and of runs: lists with filters, and the latest scores, which lead the page of jobs.

import { api } from "./api.js";
import { sparkline } from "./chart.js";
import { fill, h, kept, section, table } from "./dom.js";
import { change, count, duration, middle, money, plural, score, text } from "./format.js";
import { card, chip, commit, filtered, filters, jobLink, listed, selected, status, when } from "./parts.js";
import { link } from "./state.js";

const JOBS = [
  { key: "id", title: "Job", place: 1, sort: true, wrap: true, cell: (job) => [jobLink(job.id), " ", job.name ? [h("b", null, middle(job.name, 30)), " "] : null, status(job), job.selection ? selected() : null,
    job.verdict ? h("span", { class: "brief" }, chip(job.verdict)) : null] },
  { key: "mean_score", title: "Scores", place: 1, wrap: true, sort: true, cell: (job) => job.agents.map((agent) =>
    h("span", { class: "agent-score", title: agent }, h("b", null, score(job.scores[agent])), " ", middle(agent, 20))) },
  { key: "name", title: "Name", sort: true, cell: (job) => text(job.name) },
  { key: "status", title: "Status", sort: true, cell: (job) => chip(job.status) },
  { key: "verdict", title: "Verdict", place: 2, sort: true, cell: (job) => chip(job.verdict) },
  { key: "created_at", title: "Started", place: 2, sort: true, cell: (job) => when(job.created_at) },
  { key: "trials", title: "Trials", place: 2, number: true, sort: true, cell: (job) => (job.planned && job.planned !== job.trials ? `${count(job.trials)} / ${count(job.planned)}` : count(job.trials)) },
  { key: "passed", title: "Passed", number: true, sort: true, cell: (job) => count(job.passed) },
  { key: "failed", title: "Failed", number: true, sort: true, cell: (job) => count(job.failed) },
  { key: "error", title: "Errors", place: 2, number: true, sort: true, cell: (job) => count(job.error) },
  { key: "cost_usd", title: "Cost", place: 2, number: true, sort: true, cell: (job) => money(job.cost_usd) },
  { key: "benchmarks", title: "Benchmarks", place: 2, sort: true, cell: (job) => job.benchmarks.join(", ") },
  { key: "branch", title: "Branch", sort: true, cell: (job) => text(job.branch) },
  { key: "commit", title: "Commit", sort: true, cell: (job) => commit(job.commit) },
];

const RUNS = [
  { key: "id", title: "Run", place: 1, sort: true, cell: (run) => [h("a", { href: link("job", { job: run.job, agent: run.agent }) }, run.id), " ", status(run)] },
  { key: "mean_score", title: "Score", place: 1, number: true, sort: true, cell: (run) => score(run.mean_score) },
  { key: "agent", title: "Agent", place: 1, sort: true, hint: (run) => run.agent, cell: (run) => middle(run.agent, 28) },
  { key: "benchmark", title: "Benchmark", place: 2, sort: true, cell: (run) => h("a", { href: link("trend", { benchmark: run.benchmark }) }, run.benchmark) },
  { key: "high_score", title: "High score", number: true, sort: true, hint: (run) => (run.high_score ? run.high_score.source : null), cell: (run) => score(run.high_score ? run.high_score.score : null) },
  { key: "delta", title: "Delta", number: true, sort: true, cell: (run) => change(run.delta) },
  { key: "started_at", title: "Started", place: 2, sort: true, cell: (run) => when(run.started_at) },
  { key: "seconds", title: "Time", place: 2, number: true, sort: true, cell: (run) => duration(run.seconds) },
  { key: "median_seconds", title: "Median", number: true, sort: true, cell: (run) => duration(run.median_seconds) },
  { key: "total_tokens", title: "Total tokens", place: 2, number: true, sort: true, cell: (run) => count(run.total_tokens) },
  { key: "input_tokens", title: "Input tokens", number: true, sort: true, cell: (run) => count(run.input_tokens) },
  { key: "output_tokens", title: "Output tokens", number: true, sort: true, cell: (run) => count(run.output_tokens) },
  { key: "cached_tokens", title: "Cached tokens", number: true, sort: true, cell: (run) => count(run.cached_tokens) },
  { key: "calls", title: "Calls", number: true, sort: true, cell: (run) => count(run.calls) },
  { key: "job", title: "Job", sort: true, cell: (run) => jobLink(run.job, run.job_name) },
  { key: "status", title: "Status", sort: true, cell: (run) => chip(run.status) },
  { key: "provider", title: "Provider", sort: true, cell: (run) => text(run.provider) },
  { key: "model", title: "Model", sort: true, cell: (run) => text(run.model) },
];

const FIRST = 8;

// Only columns that the source can sort by get a button.
function sortable(columns, names) {
  return columns.map((column) => ({ ...column, sort: column.sort && (!names || names.includes(column.key)) }));
}

function cards(overview) {
  const some = overview.filtered !== overview.runs;
  return h("div", { class: "cards" },
    card("Runs", count(overview.runs), `in ${plural(overview.jobs, "job")}`),
    some ? card("Runs shown", count(overview.filtered)) : null,
    card("Completed", count(overview.succeeded)),
    overview.failed ? card("Not completed", count(overview.failed), "stopped, timed out or broken") : null,
    card("Trials", count(overview.trials)),
    card("Benchmarks", count(overview.benchmarks)));
}

// A line for each benchmark and agent: its last runs as a chart, the newest score, and what it is compared with.
function scoreTable(title, rows) {
  const high = rows.some((row) => row.high_score);
  return table(title,
    ["Benchmark and agent", { title: "Score", number: true }, { title: "Change", number: true }, "Last runs", { title: "Best of them", number: true, extra: true },
      ...(high ? [{ title: "High score", number: true, extra: true }, { title: "Delta", number: true, extra: true }] : []), { title: "When", extra: true }],
    rows.map((row) => {
      const runs = row.recent || [];
      const whole = runs.filter((run) => !run.selection);
      const [before, last] = whole.slice(-2);
      const newest = runs.at(-1);
      return [[h("a", { href: link("trend", { benchmark: row.benchmark, agent: row.agent }) }, row.benchmark), h("small", { class: "agent", title: row.agent }, middle(row.agent, 40))],
        [h("a", { href: link("job", { job: row.job, agent: row.agent }) }, h("b", null, score(row.mean_score))), newest && newest.selection && newest.job === row.job ? [" ", selected()] : null, row.status === "completed" ? null : [h("br"), status(row)]],
        last ? change(last.mean_score - before.mean_score) : "–", runs.length ? sparkline(runs) : "–", score(whole.length ? Math.max(...whole.map((run) => run.mean_score)) : null),
        ...(high ? [score(row.high_score ? row.high_score.score : null), change(row.delta)] : []), when(row.at)];
    }));
}

function latestScores(rows, references) {
  const place = h("div", null);
  const show = (some) => fill(place, some.length ? scoreTable("Latest scores", some) : null, rows.length > some.length
    ? h("button", { type: "button", click: () => show(rows) }, `All ${rows.length}`) : null);
  show(rows.slice(0, FIRST));
  const folded = references.length ? h("details", { open: !rows.length }, h("summary", null, `Reference agents: ${[...new Set(references.map((row) => row.agent))].join(", ")}`),
    scoreTable("Reference agents", references)) : null;
  return rows.length || folded ? section("Latest scores", place, folded) : null;
}

function baselineTable(rows) {
  if (!rows || !rows.length) return null;
  return kept("Baselines", rows, () => section("Baselines", table("Baselines", ["Name", "Jobs", ...["Branch", "Commit"].map((title) => ({ title, extra: true })), { title: "Set", whole: true }, ...["By", "Reason"].map((title) => ({ title, extra: true }))],
    rows.map((row) => [row.name, row.jobs.map((job) => [jobLink(job), " "]), text(row.branch), commit(row.commit), when(row.set_at), text(row.set_by), text(row.reason)]))));
}

async function page(title, word, columns, usual, href, read) {
  const meta = await api.meta();
  let parameters;
  try {
    parameters = filtered(meta.choices);
  } catch (error) {
    return { title, content: [h("h1", null, title), filters(meta), h("p", { class: "error", role: "alert" }, error.message)] };
  }
  const { sort, order, after, limit, ...wanted } = parameters;
  const [overview, list] = await Promise.all([api.overview(wanted), read(parameters)]);
  const { latest_scores: scores, synthetic, baselines, ...totals } = overview;
  const latest = kept("latest", [scores, synthetic], () => latestScores(scores, synthetic));
  const leads = word === "job";
  return { title, content: [
    kept("title", title, () => h("h1", null, title)), leads ? latest : null, kept("filters", [meta.choices, title, wanted], () => filters(meta)),
    listed({ label: title, word, columns: sortable(columns, meta.columns && meta.columns[word + "s"]), rows: list[word + "s"], total: list.total, next: list.next, usual, href }),
    kept("cards", totals, () => cards(overview)), leads ? null : latest, baselineTable(baselines)] };
}

export function jobsPage() {
  return page("Jobs", "job", JOBS, "created_at", (job) => link("job", { job: job.id }), api.jobs);
}

export function runsPage() {
  return page("Runs", "run", RUNS, "started_at", (run) => link("job", { job: run.job, agent: run.agent }), api.runs);
}
