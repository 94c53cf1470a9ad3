// Where the data of the pages come from: the server, the file itself, or files beside it.

import { aligned } from "./align.js";
import { found } from "./rows.js";

const source = document.querySelector('meta[name="benchjobs-source"]').content;

// An answer that is an error: its message is for people.
class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

function queryOf(parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters || {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  const text = String(query);
  return text ? "?" + text : "";
}

const ignore = () => null;

const jobPath = (job) => "api/jobs/" + encodeURIComponent(job);

// A browser drops what it is asking when networks of the machine come or go, as those of containers do: asked again.
async function asked(address, options, left = 3) {
  try {
    return await fetch(address, options);
  } catch {
    if (!left) throw new ApiError("The server does not answer. Is `benchjobs serve` still running?");
    await new Promise((resolve) => setTimeout(resolve, 300));
    return asked(address, options, left - 1);
  }
}

const FRESH = 5000;
const MOST_RECENT = 50;
const running = new Map();

// The document at an address. Two who want the same at once share one answer.
function get(path, parameters) {
  const address = path + queryOf(parameters);
  if (!running.has(address)) running.set(address, read(address).finally(() => running.delete(address)));
  return running.get(address);
}

const recent = new Map();

// The same, for what is above and beside a list: while a reader sorts and filters, it is asked for every few seconds only.
function lately(path, parameters) {
  const address = path + queryOf(parameters);
  const known = recent.get(address);
  if (known && performance.now() < known.until) return known.answer;
  if (recent.size >= MOST_RECENT) recent.clear();
  const answer = get(path, parameters);
  recent.set(address, { answer, until: performance.now() + FRESH });
  answer.catch(() => recent.delete(address));
  return answer;
}

async function read(address) {
  const answer = await asked(address, { headers: { accept: "application/json" } });
  let body = null;
  try {
    body = await answer.json();
  } catch {
    throw new ApiError(`The server answered with status ${answer.status}, and not with JSON.`);
  }
  if (!answer.ok) throw new ApiError((body.error && body.error.message) || `Status ${answer.status}`, answer.status);
  return body;
}

// Why a stream was refused, which its events do not tell; null if it no longer would be.
async function refusal(address) {
  const leaving = new AbortController();
  const answer = await fetch(address, { signal: leaving.signal });
  if (!answer.ok) return (await answer.json()).error.message;
  leaving.abort();
  return null;
}

const http = {
  source,
  meta: () => lately("api/meta"),
  overview: (parameters) => lately("api/overview", parameters),
  jobs: (parameters) => get("api/jobs", parameters),
  runs: (parameters) => get("api/runs", parameters),
  job: (job) => get(jobPath(job)),
  matrix: (job) => get(jobPath(job) + "/matrix"),
  trial: (job, id) => get(jobPath(job) + "/trial", { id }),
  steps: (job, id, parameters) => get(jobPath(job) + "/steps", { id, ...parameters }),
  log: (job, id, parameters) => get(jobPath(job) + "/log", { id, ...parameters }),
  fileUrl: (job, id, path, view) => jobPath(job) + "/file" + queryOf({ id, path, view: view ? 1 : null }),
  async fileText(job, id, path) {
    const answer = await asked(http.fileUrl(job, id, path, true), {});
    if (!answer.ok) throw new ApiError("The file cannot be read.");
    return answer.text();
  },
  compare: (parameters) => get("api/compare", parameters),
  align: (parameters) => get("api/align", parameters),
  scenario: (parameters) => get("api/scenario", parameters),
  trend: (parameters) => get("api/trend", parameters),
  live(job, { state, end, stop = ignore, lost = ignore, refused = ignore }) {
    const address = jobPath(job) + "/live";
    let events = null;
    let over = false;
    const stopListening = () => {
      if (events) events.close();
      events = null;
    };
    // A browser has few connections to a server at once: tabs that nobody sees must not hold them.
    const look = () => {
      if (document.visibilityState === "hidden") stopListening();
      else if (!events && !over) begin();
    };
    const leave = () => {
      over = true;
      stopListening();
      document.removeEventListener("visibilitychange", look);
    };
    const begin = () => {
      events = new EventSource(address);
      events.addEventListener("state", (event) => state(JSON.parse(event.data)));
      events.addEventListener("stop", stop);
      events.addEventListener("end", (event) => {
        leave();
        end(JSON.parse(event.data));
      });
      events.addEventListener("error", async () => {
        if (events && events.readyState !== EventSource.CLOSED) {
          lost();
          return;
        }
        stopListening();
        const why = await refusal(address).catch(() => "the server closed the connection");
        if (over) return;
        if (why) refused(why);
        else setTimeout(look, 1000);
      });
    };
    document.addEventListener("visibilitychange", look);
    look();
    return { close: leave };
  },
};

// The same from a report: parts are read when they are needed first.
function report(read) {
  const parts = new Map();
  const part = (name) => {
    if (!parts.has(name)) {
      parts.set(name, read(name).catch((error) => {
        parts.delete(name);
        throw error;
      }));
    }
    return parts.get(name);
  };
  const main = () => part("main");
  const leftOut = (more = "") => new ApiError("Left out of this report." + more);

  async function jobId(text) {
    const data = await main();
    const ids = Object.keys(data.job);
    if (text === "last") return ids.sort().at(-1);
    const id = ids.find((one) => one === text || one.startsWith(text) || data.job[one].summary.name === text);
    if (!id) throw new ApiError(`There is no job ${text} in this report.`);
    return id;
  }

  async function details(job, id) {
    const data = await main();
    const matrix = data.matrix[job];
    const at = matrix ? matrix.trials.id.indexOf(id) : -1;
    if (at < 0) throw new ApiError(`There is no trial ${id} of job ${job} in this report.`);
    const chunk = (data.details[job] || [])[at];
    if (chunk === null || chunk === undefined) throw leftOut();
    return part(String(chunk));
  }

  async function keyed(kind, key) {
    const value = ((await main())[kind] || {})[key];
    if (!value) throw leftOut();
    return value;
  }

  async function stepsOf(job, id) {
    const steps = (await details(job, id)).steps[job + "\n" + id];
    if (!steps) throw leftOut();
    return steps;
  }

  async function file(text, id, path) {
    const job = await jobId(text);
    const content = ((await details(job, id)).files || {})[job + "\n" + id + "\n" + path];
    if (!content) throw leftOut();
    return content;
  }

  return {
    source,
    meta: async () => (await main()).meta,
    async overview(parameters) {
      const { overview, runs } = await main();
      const fitting = found("runs", runs, { ...parameters, limit: runs.length + 1 }).runs;
      const completed = fitting.filter((run) => run.status === "completed").length;
      const open = fitting.filter((run) => ["initializing", "queued", "running"].includes(run.status)).length;
      return { ...overview, filtered: fitting.length, succeeded: completed, failed: fitting.length - completed - open };
    },
    jobs: async (parameters) => found("jobs", (await main()).jobs, parameters),
    runs: async (parameters) => found("runs", (await main()).runs, parameters),
    job: async (job) => (await main()).job[await jobId(job)],
    matrix: async (job) => keyed("matrix", await jobId(job)),
    async trial(text, id) {
      const job = await jobId(text);
      const trial = (await details(job, id)).trial[job + "\n" + id];
      if (!trial) throw leftOut();
      return trial;
    },
    async steps(job, id, { after = 0, limit = 100, q = "" } = {}) {
      const all = (await stepsOf(await jobId(job), id))
        .filter((step) => !q || textsOf(step).join("\n").toLowerCase().includes(q.toLowerCase()));
      const left = all.filter((step) => step.step_id > after);
      const steps = left.slice(0, limit);
      return { total: all.length, next: left.length > limit ? steps.at(-1).step_id : null, steps };
    },
    async log(text, id, { name = "agent.log" } = {}) {
      const job = await jobId(text);
      const content = (await details(job, id)).log[job + "\n" + id + "\n" + name];
      if (content === undefined) throw leftOut();
      return { name, bytes: content.length, offset: 0, next: null, text: content };
    },
    fileUrl: () => null,
    async fileText(text, id, path) {
      const content = await file(text, id, path);
      return content.text ?? content.data;
    },
    async fileBlob(text, id, path) {
      const content = await file(text, id, path);
      // Of no type that a browser would show.
      return new Blob([content.text ?? decoded(content.data.split(",").at(-1))], { type: "application/octet-stream" });
    },
    async compare({ a, b, a_agent = "", b_agent = "", benchmark = "" }) {
      const [one, other] = [await jobId(a), await jobId(b)];
      const { compare, matrix } = await main();
      // The only agent of a job needs no label.
      const label = (job, agent) => (one !== other && matrix[job].agents.length === 1 && matrix[job].agents[0] === agent ? "" : agent);
      const found = compare[[one, other, label(one, a_agent), label(other, b_agent)].join("\n")];
      if (!found) throw leftOut(" It has comparisons of jobs as a whole, and of one agent with another one, as many as there is room for.");
      return benchmark ? ofBenchmark(found, benchmark) : found;
    },
    async align(parameters) {
      const side = async (name) => {
        const job = await jobId(parameters[name + "_job"]);
        const matrix = await keyed("matrix", job);
        const attempt = Number(parameters[name + "_attempt"] || 0);
        const { trials, rows } = matrix;
        const places = [...trials.id.keys()].filter((at) => rows.scenario[trials.row[at]] === parameters.scenario &&
          matrix.benchmarks[rows.benchmark[trials.row[at]]] === parameters.benchmark &&
          (!parameters[name + "_agent"] || matrix.agents[trials.agent[at]] === parameters[name + "_agent"]))
          .sort((x, y) => trials.attempt[x] - trials.attempt[y]);
        const outcome = (at) => matrix.outcomes[trials.outcome[at]] ?? "running";
        const choices = places.map((at) => ({ job, attempt: trials.attempt[at], outcome: outcome(at) }));
        const found = { at: -1, steps: [], error: new ApiError("There is no such trial in this report.") };
        for (const at of places) {
          if (attempt && trials.attempt[at] !== attempt) continue;
          try {
            const steps = await stepsOf(job, trials.id[at]);
            if (found.at < 0 || steps.length) Object.assign(found, { at, steps });
          } catch (error) {
            found.error = error;
          }
          if (found.steps.length) break;
        }
        const { at, steps } = found;
        if (at < 0) throw found.error;
        return { steps, head: { job, id: trials.id[at], agent: matrix.agents[trials.agent[at]], attempt: trials.attempt[at], outcome: outcome(at), score: trials.score[at], steps: steps.length, choices } };
      };
      const [a, b] = [await side("a"), await side("b")];
      const { counts, rows } = aligned(a.steps, b.steps);
      return { a: a.head, b: b.head, counts, total: rows.length, next: null, rows };
    },
    async scenario({ benchmark, scenario, agent }) {
      const all = await keyed("scenario", benchmark + "\n" + scenario);
      return agent ? { ...all, results: all.results.filter((result) => result.agent === agent) } : all;
    },
    async trend({ by = "commit", benchmark = "", agent = [], branch = "" }) {
      const agents = [agent].flat().filter(Boolean);
      const all = await keyed("trend", `${by || "commit"}\n${branch || ""}`);
      return { ...all, points: all.points.filter((point) =>
        (!benchmark || point.benchmark === benchmark) && (!agents.length || agents.includes(point.agent))) };
    },
    live: () => null,
  };
}

// What a step says, calls and got, without the names of its fields.
function textsOf(value) {
  if (typeof value === "string" || typeof value === "number") return [String(value)];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (!value || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([name, one]) => (["step_id", "tool_call_id", "source_call_id", "metrics"].includes(name) ? [] : textsOf(one)));
}

// A comparison, narrowed to a benchmark.
function ofBenchmark(found, benchmark) {
  const { comparison, pairs } = found;
  const at = [...pairs.benchmark.keys()].filter((place) => pairs.benchmark[place] === benchmark);
  const of = (rows) => rows.filter((row) => row.benchmark === benchmark);
  const lists = ["rows", "newly_failing", "newly_passing", "suspects", "changed", "unscored", "removed", "added"].map((name) => [name, of(comparison[name])]);
  return { ...found, comparison: { ...comparison, ...Object.fromEntries(lists) },
    pairs: Object.fromEntries(Object.entries(pairs).map(([name, column]) => [name, at.map((place) => column[place])])) };
}

const decoded = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

async function embedded(name) {
  const element = document.getElementById("data-" + name);
  if (!element) throw new ApiError("Left out of this report.");
  const stream = new Blob([decoded(element.textContent.trim())]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export const api = source === "http" ? http : report(source === "embedded" ? embedded : (name) => get(`data/${name}.json`));
