// Page of a job: verdict, agents, matrix of scenarios and agents, errors by class.

import { api } from "./api.js";
import { chartKey, intervalChart, scoreAxis, scoreChart } from "./chart.js";
import { commandList, facts, fill, h, kept, say, section, table } from "./dom.js";
import { change, classWords, count, duration, figure, middle, money, percent, plural, points, probability, score, sign, text } from "./format.js";
import { grid } from "./grid.js";
import { keeps, parsed } from "./expression.js";
import { chip, choice, commit, jobLink, narrow, scenarioLink, search, statusChip, when } from "./parts.js";
import { changed, current, link } from "./state.js";

const REUSED = 1;
const RESCORED = 2;
const KNOWN = 4;
const RUNNING = 16;
const MARKS = 40;
const FEW = 4;
const MOST_LINKS = 12;
const FRESH = 20000;

const IS_ID = /^\d{8}-\d{6}-[0-9a-f]{6}$/;

async function named(name) {
  const job = await api.job(name);
  return [job, await api.matrix(job.summary.id)];
}

let latest = { asked: null, until: 0 };

// A job with its matrix. While an ended one is filtered, it is asked for only now and then.
async function jobOf(asked) {
  if (latest.asked === asked && performance.now() < latest.until) return latest.found;
  // A name, or "last", may stand for another job a moment later.
  const found = IS_ID.test(asked) ? await Promise.all([api.job(asked), api.matrix(asked)]) : await named(asked);
  latest = { asked, found, until: found[0].summary.finished_at ? performance.now() + FRESH : 0 };
  return found;
}

export async function jobPage() {
  const now = current();
  const asked = now.get("job") || "last";
  const [job, matrix] = await jobOf(asked);
  const { summary } = job;
  const name = summary.name || summary.id;
  const running = !summary.finished_at && !summary.dead;
  const news = running ? whatChanges(summary.id) : null;
  const verdict = job.gates.length ? ["gate: ", chip(job.gates[0].verdict)] : null;
  return { title: name, leave: news ? news.leave : null, content: [
    h("h1", null, "Job ", name), h("p", { class: "lead" }, verdict, " ", statusChip(summary),
      summary.message ? [" ", summary.message] : null,
      running && api.source === "http" ? [" ", h("a", { class: "button", href: link("live", { job: summary.id }) }, "Watch it"), " as of ", when(new Date().toISOString(), true)] : null),
    news ? news.said : null,
    facts([["Id", summary.name ? summary.id : null], ["Started", when(summary.created_at, true)], ["Ended", summary.finished_at ? when(summary.finished_at, true) : null],
      ["Branch", job.branch], ["Commit", job.commit && commit(job.commit)], ["Made from", summary.parent ? jobLink(summary.parent) : null],
      ["Attempts", count(summary.attempts) + (summary.attempt_policy === "each" ? "" : `; a scenario passes by the policy ${summary.attempt_policy}`)],
      ["Trials", summary.planned && summary.planned !== summary.totals.trials ? `${count(summary.totals.trials)} of ${count(summary.planned)}` : count(summary.totals.trials)],
      ["Cost", money(summary.totals.cost_usd)], ...Object.entries(summary.metadata || {})]),
    verdictSection(job), kept("scores", matrix, () => scoreSection(matrix)), agentSection(summary), attemptSection(summary), runSection(summary), metricSection(summary), matrixSection(matrix, summary.id, name), errorSection(job.errors),
    section("Compare", compareLinks(summary, matrix.agents)),
    section("Events", job.events && job.events.length ? table("Events", ["Time", "Event", "Message"],
      job.events.map((event) => [when(event.at, true), event.kind, event.message])) : null),
    section("Commands", commandList(job.commands))] };
}

// What has happened to a running job since its page was drawn. The page itself stays as it is: somebody reads it.
function whatChanges(job) {
  const said = h("p", { class: "note" });
  const tell = (text, title) => {
    fill(said, text, h("a", { href: changed({}) }, title));
    say(text.trim());
  };
  const events = api.live(job, {
    state: ({ totals }) => {
      if (said.dataset.done === undefined) said.dataset.done = totals.done;
      const since = totals.done - said.dataset.done;
      if (since > 0) tell(`${plural(since, "trial")} ended since. `, "Show what is new");
    },
    end: (state) => tell(state && state.died ? "The job's process has died. " : "The job has ended. ", "Show its results"),
  });
  return { said, leave: () => (events ? events.close() : null) };
}

// The rules of the newest gate as a table; as text, folded, it is what a terminal shows.
function verdictSection(job) {
  if (!job.gate_lines || !job.gate_lines.length) return null;
  const lines = h("pre", { class: "verdict" }, job.gate_lines.map((line) =>
    h("span", { class: "line " + (["red", "green", "yellow", "cyan", "dim", "bold"].includes(line.colour) ? "paint-" + line.colour : "") }, line.text + "\n")));
  const rules = job.rules || [];
  if (!rules.length) return section("Gate", lines);
  return section("Gate", h("p", null, job.gates[0].baseline ? `against ${job.gates[0].baseline}: ` : null, job.gates[0].why), table("Rules of the gate",
    [{ title: "Rule", whole: true }, { title: "Of", extra: true }, "Verdict", { title: "Change", number: true }, { title: "Interval", extra: true }, { title: "p", number: true, extra: true }, { title: "Smallest detectable drop", number: true, extra: true }],
    rules.map((rule) => [rule.expression, [rule.benchmark, rule.agent].filter(Boolean).join(", ") || "all", [chip(rule.verdict), typeof rule.change === "number" ? null : " " + rule.why], inUnit(rule, rule.change),
      intervalChart({ value: rule.change, low: rule.low, high: rule.high, tolerance: rule.tolerance }, bounds(rule), 200) || "–",
      probability(rule.p_value), typeof rule.detectable === "number" ? inUnit(rule, rule.detectable).replace("+", "") : "none"])),
  h("details", null, h("summary", null, "As a terminal shows it"), lines));
}

const DRAWN = 30;

// Scores of scenarios by agent: a mark for the mean of its attempts, a line from the lowest to the highest one.
function scoreSection(matrix) {
  const { agents } = matrix;
  const rows = rowsOf(matrix, agents, {}).map((row) => ({ ...row, figures: row.cells.map((cell) => spread(cell)) })).filter((row) => row.figures.some(Boolean));
  if (!rows.length) return null;
  const all = agents.map((agent, at) => spread(rows.flatMap((row) => (row.figures[at] ? [{ score: row.figures[at].mean }] : []))));
  const lines = [["all scenarios", all], ...rows.slice(0, DRAWN).map((row) => [scenarioLink(row.benchmark, row.scenario), row.figures])];
  return section("Scores", h("p", { class: "key" }, chartKey(agents), " mean of the attempts; the line leads from the lowest to the highest score"),
    h("div", { class: "scores" }, h("div", null, h("span", null), scoreAxis()), lines.map(([name, figures]) => h("div", null, h("span", null, name), scoreChart(figures.map((one, at) => one && { ...one, agent: agents[at] }))))),
    rows.length > DRAWN ? h("p", { class: "key" }, `The first ${DRAWN} of ${plural(rows.length, "scenario")}; all are below`) : null);
}

// The mean, the lowest and the highest score of trials; null without any.
function spread(trials) {
  const scores = trials.map((trial) => trial.score).filter((value) => typeof value === "number");
  if (!scores.length) return null;
  return { mean: scores.reduce((a, b) => a + b, 0) / scores.length, low: Math.min(...scores), high: Math.max(...scores) };
}

// Both ends of an interval, or the one of a one-sided test.
function bounds(rule) {
  const [low, high] = [rule.low, rule.high].map((one) => (typeof one === "number" ? inUnit(rule, one) : null));
  return low !== null && high !== null ? `${low} to ${high}` : high !== null ? `at most ${high}` : `at least ${low}`;
}

// Metrics whose values are no shares of 1.
const AMOUNTS = ["cost", "duration", "tokens", "metric", "min_samples", "scenario", "critical"];

// A difference in the unit of what a rule is about, as the terminal shows it.
function inUnit(rule, value) {
  const metric = rule.expression.split(/[:@[]/)[0];
  return AMOUNTS.includes(metric) ? (value > 0 ? "+" : "") + figure(value) : points(value);
}

function agentSection(summary) {
  return section("Agents", table("Agents",
    ["Agent", { title: "Mean score", number: true }, { title: "Pass rate", number: true }, ...["Trials", "Passed", "Partial", "Failed (0.0)", "Errors", "Cancelled", "Skipped", "Mean, errors as 0", "Cost",
      "Tokens in", "Tokens out", "Median time"].map((title) => ({ title, number: true, extra: title !== "Cost" }))],
    summary.agents.map((agent) => [agent.agent, score(agent.mean_scored), percent(agent.pass_rate), count(agent.total), count(agent.passed), count(agent.partial), count(agent.zero), count(agent.error), count(agent.cancelled), count(agent.skipped),
      score(agent.mean_all), money(agent.cost_usd), count(agent.input_tokens), count(agent.output_tokens), duration(agent.p50_seconds)])));
}

// Of a job with several attempts: estimates for k attempts, verdicts of scenarios, and what is flaky.
function attemptSection(summary) {
  const several = summary.agents.filter((agent) => agent.at_k.length);
  if (!several.length) return null;
  const most = Math.max(...several.map((agent) => agent.at_k.length));
  const ks = Array.from({ length: most }, (_, at) => at + 1).filter((k) => k <= 5 || k === 10 || k === most);
  const judged = several.some((agent) => agent.verdicts);
  const rate = (agent, k, name) => {
    const point = agent.at_k.find((one) => one.k === k);
    if (!point || point[name] === null) return "–";
    return point[name].toFixed(3) + (point.scenarios === agent.scenarios ? "" : "*");
  };
  const rates = several.map((agent) => [...ks.map((k) => rate(agent, k, "pass_at_k")), ...ks.filter((k) => k > 1).map((k) => rate(agent, k, "pass_hat_k"))]);
  const marked = rates.flat().some((shown) => shown.endsWith("*"));
  const flaky = several.flatMap((agent) => agent.flaky.map((id) => [agent.agent, id]));
  return section("Several attempts", table("Several attempts",
    ["Agent", ...ks.map((k) => ({ title: `pass@${k}`, number: true, extra: judged || ![1, most].includes(k) })),
      ...ks.filter((k) => k > 1).map((k) => ({ title: `pass^${k}`, number: true, extra: judged || k < most })),
      ...(judged ? ["passed", "failed", "without verdict"].map((word) => ({ title: `Scenarios ${word}`, number: true, extra: word === "without verdict" })) : []),
      { title: "Flaky scenarios", number: true }],
    several.map((agent, at) => [agent.agent, ...rates[at],
      ...(judged ? ["passed", "failed", "error"].map((name) => count(agent.verdicts ? agent.verdicts[name] : null)) : []), `${count(agent.flaky.length)} of ${count(agent.scenarios)}`])),
  marked ? h("p", { class: "note" }, "* without scenarios that have fewer attempts; an error does not count as one") : null,
  flaky.length ? h("details", null, h("summary", null, `${plural(flaky.length, "flaky scenario")}, with attempts that passed and attempts that failed`),
    h("ul", null, flaky.slice(0, 200).map(([agent, id]) => h("li", null, h("code", null, id), ` ${agent}`))),
    flaky.length > 200 ? h("p", null, `and ${plural(flaky.length - 200, "other")}`) : null) : null);
}

// Of a job of several benchmarks: each of them by itself.
function runSection(summary) {
  if (new Set(summary.runs.map((run) => run.benchmark)).size < 2) return null;
  return section("Benchmarks", table("Benchmarks and agents", ["Benchmark", "Agent", ...["Passed", "Partial", "Failed (0.0)", "Errors", "Pass rate", "Mean score", "Cost", "Median time"]
    .map((title) => ({ title, number: true, extra: !["Passed", "Mean score"].includes(title) }))],
  summary.runs.map((run) => [run.benchmark, run.agent, count(run.passed), count(run.partial), count(run.zero), count(run.error), percent(run.pass_rate), score(run.mean_scored),
    money(run.cost_usd), duration(run.p50_seconds)])));
}

function metricSection(summary) {
  const rows = summary.runs.flatMap((run) => run.metrics.map((metric) => [run, metric]));
  if (!rows.length) return null;
  return section("Metrics", table("Metrics",
    ["Metric", "Benchmark", "Agent", { title: "Mean", number: true }, { title: "Unit", extra: true }, { title: "Better", extra: true }, { title: "Trials", number: true, extra: true }],
    rows.map(([run, metric]) => [metric.name, run.benchmark, run.agent, figure(metric.mean), text(metric.unit), metric.direction, count(metric.trials)])));
}

// What trials are chosen by.
const HAVING = { agent: (trial) => trial.agent, benchmark: (trial, row) => row.benchmark, scenario: (trial, row) => row.scenario, outcome: (trial) => trial.outcome,
  class: (trial) => trial.class || "", tag: (trial, row) => (row.tags || []).join("\n") };
const COMPARED = { score: (trial) => trial.score, cost: (trial) => trial.cost, time: (trial) => trial.seconds, attempt: (trial) => trial.attempt };

// Rows of the matrix that fit the address: {benchmark, scenario, tags, cells: one list of trials for each agent}.
function rowsOf(matrix, agents, { outcome, q }) {
  const reasons = new Map((matrix.known || []).map((one) => [placeOf(one), one.reason]));
  const rows = matrix.rows.scenario.map((scenario, at) => ({
    scenario, benchmark: matrix.benchmarks[matrix.rows.benchmark[at]], tags: matrix.rows.tags ? matrix.rows.tags[at] : [], cells: agents.map(() => []),
  }));
  const place = new Map(agents.map((agent, at) => [matrix.agents.indexOf(agent), at]));
  const trials = matrix.trials;
  for (let at = 0; at < trials.row.length; at += 1) {
    const column = place.get(trials.agent[at]);
    if (column === undefined) continue;
    const word = trials.outcome[at] === null ? "running" : matrix.outcomes[trials.outcome[at]];
    const row = rows[trials.row[at]];
    row.cells[column].push({
      known: reasons.get(placeOf({ ...row, agent: agents[column] })), id: trials.id[at], agent: agents[column], attempt: trials.attempt[at], outcome: word, score: trials.score[at], flags: trials.flags[at],
      class: trials.class[at] === null ? null : matrix.classes[trials.class[at]], seconds: trials.seconds[at], cost: trials.cost_usd[at],
    });
  }
  for (const row of rows) for (const cell of row.cells) if (cell.length > 1) cell.sort((a, b) => a.attempt - b.attempt);
  const { words, having, limits } = parsed(q || "", Object.keys(HAVING), Object.keys(COMPARED));
  const fits = (trial, row) => (!outcome || trial.outcome === outcome) && having.every(([name, value]) => HAVING[name](trial, row).toLowerCase().includes(value)) &&
    limits.every(([name, sign_, value]) => keeps(COMPARED[name](trial), sign_, value));
  return rows.filter((row) => row.cells.some((cell) => cell.some((trial) => fits(trial, row))) &&
    words.map((word) => word.toLowerCase()).every((word) => [row.scenario, row.benchmark, ...(row.tags || []), ...row.cells.flat().map((trial) => trial.class || "")].join("\n").toLowerCase().includes(word)));
}

const placeOf = ({ benchmark, scenario, agent }) => [benchmark, scenario, agent].join("\n");

const isKnown = (trial) => trial.flags & KNOWN && trial.outcome !== "passed";

function trialMark(job, trial) {
  const about = [`attempt ${trial.attempt}`, trial.outcome, typeof trial.score === "number" ? "score " + score(trial.score) : null, trial.class,
    trial.flags & REUSED ? "reused" : null, trial.flags & RESCORED ? "rescored" : null, trial.flags & KNOWN ? `known failure${trial.known ? ": " + trial.known : ""}` : null,
    duration(trial.seconds), typeof trial.cost === "number" ? money(trial.cost) : null].filter(Boolean).join(", ");
  return h("a", { class: "mark is-" + trial.outcome + (isKnown(trial) ? " known" : "") + (trial.flags & (REUSED | RESCORED) ? " old" : ""), href: link("trial", { job, id: trial.id }), title: about, "aria-label": about },
    isKnown(trial) ? "⚑" : sign(trial.flags & RUNNING ? "running" : trial.outcome),
    trial.outcome === "failed" && trial.score > 0 && !narrow.matches ? h("small", null, trial.score.toFixed(2).replace(/^0/, "")) : null);
}

function matrixSection(matrix, job, name) {
  const now = current();
  const chosen = now.get("agent");
  const agents = chosen && matrix.agents.includes(chosen) ? [chosen] : matrix.agents;
  let rows = [];
  let wrong = null;
  try {
    rows = rowsOf(matrix, agents, { outcome: now.get("outcome"), q: now.get("q") });
  } catch (error) {
    wrong = h("p", { class: "error", role: "alert" }, error.message);
  }
  return section("Scenarios",
    h("div", { class: "filters" }, search("Search: words, tag:git, score<0.5, outcome:failed"),
      choice("agent", "Agent", matrix.agents), choice("outcome", "Outcome", matrix.outcomes),
      now.get("agent") || now.get("outcome") || now.get("q") ? h("a", { class: "button", href: changed({ agent: null, outcome: null, q: null }) }, "Clear filters") : null),
    h("p", { class: "key" }, "mean score, and each attempt: ", matrix.outcomes.map((word) => chip(word)), matrix.trials.flags.some((flags) => flags & KNOWN) ? h("span", { class: "chip" }, "⚑ known failure") : null),
    rows.length ? grid({ label: `Scenarios and agents of job ${name}`, virtual: true, ...(narrow.matches ? byTrials : byAgents)(rows, agents, job, matrix.benchmarks.length > 1) })
      : wrong || h("p", { class: "nothing" }, "No trials fit."),
    wrong ? null : h("p", { class: "pager" }, plural(rows.length, "scenario"), matrix.left_out ? `; ${plural(matrix.left_out, "trial")} beyond the first are left out` : null),
    knownList(rows));
}

const marks = (job, trials, most) => h("span", { class: "marks" }, trials.slice(0, most).map((trial) => trialMark(job, trial)),
  trials.length > most ? h("small", null, `+${trials.length - most}`) : null);
const meanOf = (trials) => score((spread(trials) || {}).mean);

// A row for each scenario, a column for each agent.
function byAgents(rows, agents, job, several) {
  const widest = Math.min(MARKS, Math.max(2, ...rows.map((row) => Math.max(...row.cells.map((cell) => cell.length)))));
  return { rows, least: 22 + agents.length * Math.max(8, 5 + 1.8 * widest), columns: [
    { key: "scenario", title: "Scenario", wide: true, cell: (row) => scenarioLink(row.benchmark, row.scenario) },
    ...(several ? [{ key: "benchmark", title: "Benchmark", cell: (row) => row.benchmark }] : []),
    ...agents.map((agent, at) => ({ key: agent, title: h("span", { title: agent }, middle(agent, 18)),
      cell: ({ cells }) => [cells[at].length ? h("span", { class: "mean" }, meanOf(cells[at])) : null, marks(job, cells[at], MARKS)] })),
  ] };
}

// A row for each scenario and agent: what there is room for on a narrow window.
function byTrials(rows, agents, job, several) {
  const named = (row) => [several ? row.benchmark : null, agents.length > 1 ? middle(row.agent, 28) : null].filter(Boolean).join(", ");
  const trials = rows.flatMap((row) => agents.map((agent, at) => ({ ...row, agent, trials: row.cells[at] }))).filter((row) => row.trials.length);
  return { rows: trials, least: 0, height: several || agents.length > 1 ? 46 : 34, columns: [
    { key: "scenario", title: agents.length > 1 ? "Scenario and agent" : "Scenario", cell: (row) => [scenarioLink(row.benchmark, row.scenario), h("small", { class: "agent" }, named(row))] },
    { key: "score", title: "Score", number: true, narrow: true, cell: (row) => meanOf(row.trials) },
    { key: "attempts", title: "Attempts", chart: true, cell: (row) => marks(job, row.trials, FEW) },
  ] };
}

// Why the known failures among the rows are known.
function knownList(rows) {
  const found = new Map();
  for (const row of rows) {
    for (const { agent, known } of row.cells.flat().filter(isKnown)) if (known) found.set(known, (found.get(known) || new Set()).add(`${row.scenario} (${middle(agent)})`));
  }
  return found.size ? h("ul", { class: "links" }, [...found].map(([reason, names]) => h("li", null, `⚑ ${[...names].slice(0, FEW).join(", ")}`,
    names.size > FEW ? ` and ${plural(names.size - FEW, "other")}` : null, `: ${reason}`))) : null;
}

function errorSection(errors) {
  if (!errors || !errors.length) return null;
  return section("Why trials did not pass", table("Classes of failures and errors", ["Reason", "Outcome", { title: "Trials", number: true }, "For example"],
    errors.map((error) => [h("span", { title: error.class }, classWords(error.class)), chip(error.outcome), count(error.trials), h("span", { class: "message" }, text(error.message))])));
}

function compareLinks(summary, agents) {
  const links = [];
  if (summary.parent) links.push(h("a", { href: link("compare", { a: summary.parent, b: summary.id }) }, "With the job it was made from"));
  for (const [at, a] of agents.entries()) {
    for (const b of agents.slice(at + 1)) {
      links.push(h("a", { href: link("compare", { a: summary.id, b: summary.id, a_agent: a, b_agent: b }) }, `${a} and ${b}`));
    }
  }
  if (links.length > MOST_LINKS) links.splice(MOST_LINKS, links.length, h("a", { href: link("compare", { a: summary.id, b: summary.id }) }, `${links.length - MOST_LINKS} others: choose two agents`));
  return links.length ? h("ul", { class: "links" }, links.map((one) => h("li", null, one))) : null;
}
