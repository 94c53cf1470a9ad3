// Page of a trend: mean scores with their intervals, by commit or by day.

import { api } from "./api.js";
import { chartKey, trendChart } from "./chart.js";
import { h, section, table } from "./dom.js";
import { count, score, time } from "./format.js";
import { choice, jobLink, narrow, selected, when } from "./parts.js";
import { current } from "./state.js";

export async function trendPage() {
  const now = current();
  const meta = await api.meta();
  const { benchmarks, agents, branches } = meta.choices;
  const benchmark = now.get("benchmark") || benchmarks[0] || "";
  const ask = (way) => api.trend({ benchmark, agent: now.getAll("agent"), by: way, branch: now.get("branch") });
  let by = now.get("by") === "day" ? "day" : "commit";
  let found = benchmark ? await ask(by) : { points: [] };
  if (benchmark && !now.get("by") && !found.points.length) {
    // No job knows its commit.
    by = "day";
    found = await ask(by);
  }
  const names = [...new Set(found.points.map((point) => point.agent))];
  const keys = [...new Set(found.points.map((point) => point.key))];
  const series = names.map((name) => ({ name, points: found.points.filter((point) => point.agent === name).map((point) => ({
    x: keys.indexOf(point.key), mean: point.mean, low: point.low, high: point.high, selection: point.selection, title: `${name}, ${point.key}: ${score(point.mean)} (${time(point.at)})${point.selection ? ", a selection of scenarios" : ""}` })) }));
  return { title: "Trend", content: [
    h("h1", null, "Trend"),
    h("div", { class: "filters" }, benchmarks.length ? choice("benchmark", "Benchmark", benchmarks, now.get("benchmark") ? "first" : benchmark) : null,
      choice("agent", "Agent", agents), choice("by", "By", by === "day" ? ["day", "commit"] : ["commit", "day"], null), branches && branches.length ? choice("branch", "Branch", branches) : null),
    found.points.length ? [h("figure", null, trendChart(series, keys.map((key) => String(key).slice(0, 10)), narrow.matches ? 400 : 900), h("figcaption", { class: "key" }, chartKey(names))),
      section("Figures", table("Figures of the trend", [{ title: by === "day" ? "Day (UTC)" : "Commit", whole: true }, "Agent", { title: "Mean", number: true }, { title: "95 % interval", number: true }, { title: "Time", extra: true },
        ...["Scenarios", "Attempts", "Passed", "Failed", "Errors", "Known failures"].map((title) => ({ title, number: true, extra: true })), { title: "Jobs", extra: true }],
      [...found.points].reverse().map((point) => [String(point.key).slice(0, 10), point.agent, point.selection ? [score(point.mean), " ", selected()] : score(point.mean),
        typeof point.low === "number" ? `${score(point.low)} to ${score(point.high)}` : "–", when(point.at), count(point.scenarios), count(point.attempts), count(point.passed), count(point.failed),
        count(point.errors), count(point.known), point.jobs.slice(0, 5).map((job) => [jobLink(job), " "])])))]
      : h("p", { class: "nothing" }, "No jobs that have ended fit.")] };
}
