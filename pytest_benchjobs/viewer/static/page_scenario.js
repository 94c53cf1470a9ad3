// Page of a scenario: its results over time, how flaky it is, and when its content changed.

import { api } from "./api.js";
import { facts, h, section, table } from "./dom.js";
import { count, duration, middle, money, percent, plural, score, sign, text, time } from "./format.js";
import { grid } from "./grid.js";
import { chip, choice, columnsOf, commit, jobLink, trialLink, when } from "./parts.js";
import { changed, current, link } from "./state.js";

const STRIP = 120;

export async function scenarioPage() {
  const now = current();
  const asked = { benchmark: now.get("benchmark"), scenario: now.get("scenario"), agent: now.get("agent"), after: now.get("after"), limit: 200 };
  const found = await api.scenario(asked);
  const columns = [
    { key: "at", title: "Trial", place: 1, cell: (row) => trialLink(row.job, row.id, when(row.at)) },
    { key: "score", title: "Score", place: 1, number: true, cell: (row) => score(row.score) },
    { key: "outcome", title: "Outcome", place: 1, cell: (row) => chip(row.outcome) },
    { key: "agent", title: "Agent", place: 1, hint: (row) => row.agent, cell: (row) => middle(row.agent, 28) },
    { key: "attempt", title: "Attempt", place: 2, number: true, cell: (row) => count(row.attempt) },
    { key: "seconds", title: "Time taken", place: 2, number: true, cell: (row) => duration(row.seconds) },
    { key: "cost", title: "Cost", place: 2, number: true, cell: (row) => money(row.cost_usd) },
    { key: "job", title: "Job", place: 2, cell: (row) => jobLink(row.job, row.job_name) },
    { key: "branch", title: "Branch", cell: (row) => text(row.branch) },
    { key: "commit", title: "Commit", cell: (row) => commit(row.commit) },
    { key: "content", title: "Content", place: 2, cell: (row) => [row.changed ? "◆ changed " : "", row.content ? h("code", null, row.content.slice(0, 8)) : "–"] },
  ];
  const [shown, chooser] = columnsOf("result", columns);
  const agents = [...new Set(found.agents.map((agent) => agent.agent))];
  return { title: found.scenario, content: [
    h("h1", null, found.scenario), facts([["Benchmark", h("a", { href: link("trend", { benchmark: found.benchmark }) }, found.benchmark)],
      ["First seen", when(found.first_seen, true)], ["Last seen", when(found.last_seen, true)]]),
    h("div", { class: "filters" }, choice("agent", "Agent", agents)),
    section("Agents", table("Agents", ["Agent", { title: "Mean score", number: true }, { title: "Pass rate", number: true }, { title: "95 % interval", number: true, extra: true }, { title: "Attempts", number: true, extra: true }, { title: "Passed", number: true, extra: true },
      { title: "Failed", number: true, extra: true }, { title: "Errors", number: true, extra: true }, { title: "Flaky", whole: true, extra: true }, { title: "Contents seen", number: true, extra: true }, "Latest results, the newest on the right"],
    found.agents.map((agent) => [agent.agent, score(agent.mean_score), percent(agent.pass_rate), typeof agent.low === "number" ? `${percent(agent.low)} to ${percent(agent.high)}` : "–",
      count(agent.attempts), count(agent.passed), count(agent.failed), count(agent.errors),
      agent.flaky ? `⚠ flaky, ${plural(agent.flips, "flip")}` : "no", count(agent.contents), strip(found.results.filter((row) => row.agent === agent.agent))]))),
    section("Results", found.results.length ? [chooser, grid({ label: `Results of ${found.scenario}`, columns: shown, rows: found.results, href: (row) => link("trial", { job: row.job, id: row.id }) })]
      : h("p", { class: "nothing" }, "No results."),
    h("p", { class: "pager" }, now.get("after") ? h("a", { class: "button", href: changed({ after: null }) }, "Newest") : null,
      found.next ? h("a", { class: "button", href: changed({ after: found.next }) }, "Earlier results") : null))] };
}

// Outcomes in the order of time; a mark where the content changed.
function strip(results) {
  return h("span", { class: "strip" }, results.slice(0, STRIP).reverse().map((row) =>
    h("span", { class: "mark is-" + row.outcome + (row.changed ? " new-content" : ""), title: `${time(row.at)} ${row.outcome}${row.changed ? ", content changed" : ""}` }, sign(row.outcome))));
}
