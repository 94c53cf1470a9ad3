// Pages of jobs and of runs: lists with filters, and cards over them.

import { api } from "./api.js";
import { fill, h, kept, section, table } from "./dom.js";
import { change, count, duration, money, plural, score, text, time } from "./format.js";
import { asked, card, chip, filters, jobLink, listed, status } from "./parts.js";
import { link } from "./state.js";

const JOBS = [
  { key: "id", title: "Job", sort: true, cell: (job) => jobLink(job.id) },
  { key: "name", title: "Name", sort: true, cell: (job) => text(job.name) },
  { key: "status", title: "Status", sort: true, cell: status },
  { key: "verdict", title: "Verdict", sort: true, cell: (job) => chip(job.verdict) },
  { key: "mean_score", title: "Agents and mean scores", sort: true, cell: (job) => job.agents.map((agent) =>
    h("span", { class: "agent-score" }, agent, " ", h("b", null, score(job.scores[agent])))) },
  { key: "trials", title: "Trials", number: true, sort: true, cell: (job) => (job.planned && job.planned !== job.trials ? `${count(job.trials)} / ${count(job.planned)}` : count(job.trials)) },
  { key: "passed", title: "Passed", number: true, sort: true, cell: (job) => count(job.passed) },
  { key: "failed", title: "Failed", number: true, sort: true, cell: (job) => count(job.failed) },
  { key: "error", title: "Errors", number: true, sort: true, cell: (job) => count(job.error) },
  { key: "cost_usd", title: "Cost", number: true, sort: true, cell: (job) => money(job.cost_usd) },
  { key: "created_at", title: "Started", sort: true, cell: (job) => time(job.created_at) },
  { key: "benchmarks", title: "Benchmarks", sort: true, cell: (job) => job.benchmarks.join(", ") },
  { key: "branch", title: "Branch", sort: true, cell: (job) => text(job.branch) },
  { key: "commit", title: "Commit", sort: true, cell: (job) => short(job.commit) },
];

const RUNS = [
  { key: "id", title: "Run", sort: true, cell: (run) => h("a", { href: link("job", { job: run.job, agent: run.agent }) }, run.id) },
  { key: "job", title: "Job", sort: true, cell: (run) => jobLink(run.job, run.job_name) },
  { key: "benchmark", title: "Benchmark", sort: true, cell: (run) => h("a", { href: link("trend", { benchmark: run.benchmark }) }, run.benchmark) },
  { key: "status", title: "Status", sort: true, cell: status },
  { key: "agent", title: "Agent", sort: true, cell: (run) => run.agent },
  { key: "provider", title: "Provider", sort: true, cell: (run) => text(run.provider) },
  { key: "model", title: "Model", sort: true, cell: (run) => text(run.model) },
  { key: "mean_score", title: "Score", number: true, sort: true, cell: (run) => score(run.mean_score) },
  { key: "input_tokens", title: "Input tokens", number: true, sort: true, cell: (run) => count(run.input_tokens) },
  { key: "output_tokens", title: "Output tokens", number: true, sort: true, cell: (run) => count(run.output_tokens) },
  { key: "total_tokens", title: "Total tokens", number: true, sort: true, cell: (run) => count(run.total_tokens) },
  { key: "cached_tokens", title: "Cached tokens", number: true, sort: true, cell: (run) => count(run.cached_tokens) },
  { key: "calls", title: "Calls", number: true, sort: true, cell: (run) => count(run.calls) },
  { key: "high_score", title: "High score", number: true, sort: true, hint: (run) => (run.high_score ? run.high_score.source : null), cell: (run) => score(run.high_score ? run.high_score.score : null) },
  { key: "delta", title: "Delta", number: true, sort: true, cell: (run) => change(run.delta) },
  { key: "started_at", title: "Started", sort: true, cell: (run) => time(run.started_at) },
  { key: "seconds", title: "Time", number: true, sort: true, cell: (run) => duration(run.seconds) },
  { key: "median_seconds", title: "Median", number: true, sort: true, cell: (run) => duration(run.median_seconds) },
];

const FIRST = 20;

function short(commit) {
  return commit ? commit.slice(0, 10) : "–";
}

// Only columns that the source can sort by get a button.
function sortable(columns, names) {
  return columns.map((column) => ({ ...column, sort: column.sort && (!names || names.includes(column.key)) }));
}

function cards(overview) {
  const latest = overview.latest;
  return h("div", { class: "cards" },
    card("Runs", count(overview.runs), `in ${plural(overview.jobs, "job")}`),
    card("Runs that fit", count(overview.filtered)),
    card("Completed", count(overview.succeeded)),
    card("Ended otherwise", count(overview.failed)),
    card("Trials", count(overview.trials)),
    card("Benchmarks", count(overview.benchmarks)),
    card("Latest run", latest ? score(latest.mean_score) : "–", latest ? `${latest.agent}, ${latest.benchmark}, ${time(latest.started_at)}` : null));
}

function latestTable(title, rows) {
  if (!rows || !rows.length) return null;
  const shown = (some) => table(title,
    ["Benchmark", "Agent", "Status", { title: "Score", number: true }, { title: "High score", number: true }, { title: "Delta", number: true }, { title: "Time", whole: true }, "Job"],
    some.map((row) => [row.benchmark, row.agent, status(row), score(row.mean_score), score(row.high_score ? row.high_score.score : null), change(row.delta), time(row.at), jobLink(row.job)]));
  return kept(title, rows, () => {
    const place = h("div", null, shown(rows.slice(0, FIRST)));
    const more = rows.length > FIRST ? h("button", { type: "button", click: () => {
      fill(place, shown(rows));
      more.remove();
    } }, `All ${rows.length}`) : null;
    return section(title, place, more);
  });
}

function baselineTable(rows) {
  if (!rows || !rows.length) return null;
  return kept("Baselines", rows, () => section("Baselines", table("Baselines", ["Name", "Jobs", "Branch", "Commit", "Set at", "By", "Reason"],
    rows.map((row) => [row.name, row.jobs.map((job) => [jobLink(job), " "]), text(row.branch), short(row.commit), time(row.set_at), text(row.set_by), text(row.reason)]))));
}

async function page(title, word, columns, usual, href, read) {
  const parameters = asked();
  const { sort, order, after, limit, ...wanted } = parameters;
  const [meta, overview, list] = await Promise.all([api.meta(), api.overview(wanted), read(parameters)]);
  const rows = list[word + "s"];
  const { latest_scores: scores, synthetic, baselines, ...totals } = overview;
  return { title, content: [
    kept("title", title, () => h("h1", null, title)), kept("cards", totals, () => cards(overview)), kept("filters", [meta.choices, title, wanted], () => filters(meta)),
    listed({ label: title, word, columns: sortable(columns, meta.columns && meta.columns[word + "s"]), rows, total: list.total, next: list.next, usual, href }),
    latestTable("Latest scores", scores), latestTable("Synthetic agents", synthetic), baselineTable(baselines)] };
}

export function jobsPage() {
  return page("Jobs", "job", JOBS, "created_at", (job) => link("job", { job: job.id }), api.jobs);
}

export function runsPage() {
  return page("Runs", "run", RUNS, "started_at", (run) => link("job", { job: run.job, agent: run.agent }), api.runs);
}
