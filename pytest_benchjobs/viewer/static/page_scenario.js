// Page of a scenario: its results over time, how flaky it is, and when its content changed.

import { api } from "./api.js";
import { facts, h, section, table } from "./dom.js";
import { count, duration, money, percent, plural, score, sign, text, time } from "./format.js";
import { grid } from "./grid.js";
import { chip, choice, jobLink, trialLink } from "./parts.js";
import { changed, current, link } from "./state.js";

const STRIP = 120;

export async function scenarioPage() {
  const now = current();
  const asked = { benchmark: now.get("benchmark"), scenario: now.get("scenario"), agent: now.get("agent"), after: now.get("after"), limit: 200 };
  const found = await api.scenario(asked);
  const columns = [
    { key: "at", title: "Time", cell: (row) => time(row.at) },
    { key: "agent", title: "Agent", cell: (row) => row.agent },
    { key: "attempt", title: "Attempt", number: true, cell: (row) => count(row.attempt) },
    { key: "outcome", title: "Outcome", cell: (row) => trialLink(row.job, row.id, [chip(row.outcome)]) },
    { key: "score", title: "Score", number: true, cell: (row) => score(row.score) },
    { key: "seconds", title: "Time taken", number: true, cell: (row) => duration(row.seconds) },
    { key: "cost", title: "Cost", number: true, cell: (row) => money(row.cost_usd) },
    { key: "job", title: "Job", cell: (row) => jobLink(row.job, row.job_name) },
    { key: "branch", title: "Branch", cell: (row) => text(row.branch) },
    { key: "commit", title: "Commit", cell: (row) => text(row.commit && row.commit.slice(0, 10)) },
    { key: "content", title: "Content", cell: (row) => [row.changed ? "◆ changed " : "", row.content ? h("code", null, row.content.slice(0, 8)) : "–"] },
  ];
  const agents = [...new Set(found.agents.map((agent) => agent.agent))];
  return { title: found.scenario, content: [
    h("h1", null, found.scenario), facts([["Benchmark", h("a", { href: link("trend", { benchmark: found.benchmark }) }, found.benchmark)],
      ["First seen", time(found.first_seen)], ["Last seen", time(found.last_seen)]]),
    h("div", { class: "filters" }, choice("agent", "Agent", agents)),
    section("Agents", table("Agents", ["Agent", { title: "Attempts", number: true }, { title: "Passed", number: true }, { title: "Failed", number: true }, { title: "Errors", number: true },
      { title: "Pass rate", number: true }, { title: "95 % interval", number: true }, { title: "Mean score", number: true }, { title: "Flaky", whole: true }, { title: "Contents", number: true }, "Latest results, the newest on the right"],
    found.agents.map((agent) => [agent.agent, count(agent.attempts), count(agent.passed), count(agent.failed), count(agent.errors), percent(agent.pass_rate),
      typeof agent.low === "number" ? `${percent(agent.low)} to ${percent(agent.high)}` : "–", score(agent.mean_score),
      agent.flaky ? `⚠ flaky, ${plural(agent.flips, "flip")}` : "no", count(agent.contents), strip(found.results.filter((row) => row.agent === agent.agent))]))),
    section("Results", found.results.length ? grid({ label: `Results of ${found.scenario}`, columns, rows: found.results, href: (row) => link("trial", { job: row.job, id: row.id }) })
      : h("p", { class: "nothing" }, "No results."),
    h("p", { class: "pager" }, now.get("after") ? h("a", { class: "button", href: changed({ after: null }) }, "Newest") : null,
      found.next ? h("a", { class: "button", href: changed({ after: found.next }) }, "Earlier results") : null))] };
}

// Outcomes in the order of time; a mark where the content changed.
function strip(results) {
  return h("span", { class: "strip" }, results.slice(0, STRIP).reverse().map((row) =>
    h("span", { class: "mark is-" + row.outcome + (row.changed ? " new-content" : ""), title: `${time(row.at)} ${row.outcome}${row.changed ? ", content changed" : ""}` }, sign(row.outcome))));
}
