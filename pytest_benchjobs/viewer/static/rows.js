// Filters, order and pages of lists in a report, where no server does it.

import { NUMBERS, keeps, parsed } from "./expression.js";

// Parameter -> field of a row, which may be a list.
const FILTERS = {
  runs: { benchmark: "benchmark", agent: "agent", model: "model", status: "status", branch: "branch", tag: "tags", job: "job" },
  jobs: { benchmark: "benchmarks", agent: "agents", model: "models", status: "status", branch: "branch", tag: "tags" },
};
const SEARCHED = ["id", "job", "job_name", "name", "benchmark", "benchmarks", "agent", "agents", "provider", "model", "models", "status", "branch", "commit"];
const NEWEST = { runs: "started_at", jobs: "created_at" };

// A page of `rows`, as the server would answer.
export function found(kind, rows, parameters = {}) {
  const { sort = NEWEST[kind], order = "desc", after = null, limit = 50 } = parameters;
  const chosen = ordered(rows.filter((row) => fits(kind, row, parameters)), sort || NEWEST[kind], order || "desc");
  const from = after ? Number(after) : 0;
  const next = from + Number(limit) < chosen.length ? String(from + Number(limit)) : null;
  return { total: chosen.length, next, [kind]: chosen.slice(from, from + Number(limit)) };
}

function fits(kind, row, parameters) {
  for (const [name, field] of Object.entries(FILTERS[kind])) {
    const wanted = [parameters[name]].flat().filter(Boolean);
    if (wanted.length && ![row[field]].flat().some((value) => wanted.includes(value))) return false;
  }
  for (const limit of parameters.where || []) {
    const { limits: [[name, sign, value]] } = parsed(limit, []);
    if (!keeps(NUMBERS[name](row), sign, value)) return false;
  }
  const text = SEARCHED.map((name) => row[name]).flat().filter(Boolean).join("\n").toLowerCase();
  return (parameters.q || "").toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// A column's value to sort by: of a list its first, of a high score its number.
function valueOf(row, name) {
  const value = row[name];
  if (Array.isArray(value)) return value[0];
  return name === "high_score" && value ? value.score : value;
}

// Rows by a column, then by id; unknown values last, whichever way.
function ordered(rows, name, order) {
  const way = order === "desc" ? -1 : 1;
  const unknown = (value) => value === null || value === undefined;
  const compared = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0);
  return [...rows].sort((x, y) => {
    const [a, b] = [valueOf(x, name), valueOf(y, name)];
    if (unknown(a) !== unknown(b)) return unknown(a) ? 1 : -1;
    return way * ((unknown(a) ? 0 : compared(a, b)) || compared(x.id, y.id));
  });
}
