// Page of a trial: what it was asked, what the agent did, how it was scored, and what to type to repeat it.

import { api } from "./api.js";
import { commandList, facts, fill, h, say, section, table } from "./dom.js";
import { bytes, classWords, count, duration, figure, money, plural, score, text } from "./format.js";
import { ansi } from "./ansi.js";
import { logView } from "./log.js";
import { chip, jobLink, scenarioLink, searchForm, trialLink, when } from "./parts.js";
import { changed, current, link, remember } from "./state.js";
import { stepView } from "./step.js";

const PAGE = 50;
const SHOWN = 200000;
const SHORT = 4000;
const LOOK = 3000;
const LONGEST = 8000;
const KEPT = 60000;

export async function trialPage() {
  const now = current();
  const trial = await api.trial(now.get("job"), now.get("id"));
  const result = trial.result;
  const head = result || trial.running || trial.row || {};
  const row = trial.row || trial.running || {};
  const title = row.scenario ? `${row.scenario}, ${row.agent} #${row.attempt}` : now.get("id");
  const outcome = result ? result.outcome : trial.running ? "running" : (trial.row || {}).outcome;
  const log = trial.running ? runningLog(trial, now) : null;
  return { title, leave: log ? log.leave : null, content: [
    h("h1", null, title), h("p", { class: "lead" }, chip(outcome), " ", scoreOf(result)),
    h("p", { class: "key" }, h("span", null, "job ", jobLink(trial.job, trial.job_name)), head.scenario ? h("span", null, "scenario ", scenarioLink(head.benchmark, head.scenario)) : null,
      head.started_at ? h("span", null, "started ", when(head.started_at, true)) : null, head.seconds ? h("span", null, "took ", duration(head.seconds)) : null),
    log ? log.said : null,
    trial.withheld ? h("p", { class: "note" }, "This benchmark is confidential: its task, steps, logs and files are withheld.") : null,
    result || trial.running ? null : h("p", { class: "note" }, "The files of this trial are gone; the history knows only what is here."),
    originOf(result), failureOf(result), scorersOf(result), partsOf(result), turnsOf(result), metricsOf(result),
    trial.statement ? section("Task", h("pre", { class: "text" }, trial.statement)) : null,
    trial.steps ? section("Steps", stepList(trial, now)) : null,
    log && !trial.withheld ? section("Logs", log.place) : null,
    trial.logs.length && !log ? section("Logs", logOf(trial, now).content) : null,
    notesOf(result), filesOf(trial, now.get("id")), usageOf(result), phasesOf(result),
    trial.siblings && trial.siblings.length ? section("Other trials of this scenario", h("p", { class: "siblings" }, siblingsOf(trial.job, trial.siblings)), pairLinks(trial, result)) : null,
    section("Details", detailsOf(result, head, now)), section("Commands", commandList(trial.commands))] };
}

// A score, and what it has to be; one that is enough and yet failed has its reason below.
function scoreOf(result) {
  if (!result || typeof result.score !== "number") return null;
  const enough = result.outcome === "failed" && result.score >= result.threshold;
  return ["score ", h("b", null, score(result.score)), enough ? ", which would be enough to pass" : `, needs ${score(result.threshold)} to pass`];
}

function failureOf(result) {
  if (!result || !result.failure) return null;
  const { failure } = result;
  return section(result.outcome === "failed" ? "Why it failed" : "Why it has no score",
    h("p", null, failure.message, h("small", { class: "what", title: failure.class }, ` ${classWords(failure.class)}`, result.outcome === "error" && failure.phase ? `, in phase ${failure.phase}` : null)),
    failure.detail ? h("pre", { class: "text" }, failure.detail) : null);
}

// What a reader has to know before the score: that its failure is known, or that another job ran it.
function originOf(result) {
  const origin = result && (result.reused || result.rescored);
  return !origin && !(result && result.known) ? null : facts([["Known failure", result.known ? knownOf(result.known) : null],
    [result.reused ? "Reused from" : "Rescored from", origin ? jobLink(origin.job) : null]]);
}

function detailsOf(result, head, now) {
  return facts([
    ["Benchmark", head.benchmark ? text(head.benchmark) + (head.benchmark_version ? " " + head.benchmark_version : "") : null],
    ["Attempt", head.attempt], ["Tries", head.tries > 1 ? head.tries : null], ["Node id", h("code", null, now.get("id"))],
    ["Agent's version", result && result.agent_version],
    ["Image", result && result.image ? h("code", null, result.image.reference) : null],
    ["Tags", result && result.tags ? result.tags.join(", ") : null],
    ["Kept file system", result && result.kept ? h("code", null, result.kept) : null]]);
}

const MODES = { "expected-fail": "expected to fail", quarantine: "in quarantine", skip: "not run" };

// Why a trial may fail, and until when.
function knownOf(known) {
  const issue = known.issue && /^https?:/.test(known.issue) ? [", ", h("a", { href: known.issue, rel: "noreferrer noopener", "data-outside": true }, "issue")] : known.issue ? `, ${known.issue}` : null;
  return [`${MODES[known.mode] || known.mode}: ${known.reason}`, known.until ? `, until ${known.until}` : null, issue];
}

// The phases of a trial as bars over its time, and as a table.
function phasesOf(result) {
  if (!result || !result.phases || !result.phases.length) return null;
  const end = Math.max(...result.phases.map((phase) => phase.end), 0.001);
  return section("Timeline", table("Phases", ["Phase", { title: "Begins", number: true, extra: true }, { title: "Lasts", number: true }, "Share"],
    result.phases.map((phase) => {
      const bar = h("span", { class: "bar" });
      bar.style.marginInlineStart = `${(100 * phase.start) / end}%`;
      bar.style.width = `${Math.max(0.5, (100 * (phase.end - phase.start)) / end)}%`;
      return [phase.name, seconds(phase.start), seconds(phase.end - phase.start), h("span", { class: "track" }, bar)];
    })));
}

// Phases are often short: with hundredths below ten seconds.
function seconds(value) {
  return value < 10 ? value.toFixed(2) + " s" : duration(value);
}

function scorersOf(result) {
  if (!result || !result.scorers || !result.scorers.length) return null;
  const broken = result.scorers.some((scorer) => scorer.error);
  return section("Scorers", table("Scorers", ["Scorer", { title: "Score", number: true }, { title: "Type", extra: true }, { title: "Weight", number: true }, { title: "Time", number: true, extra: true }, ...(broken ? ["Error"] : [])],
    result.scorers.map((scorer) => [scorer.name, score(scorer.score), scorer.type, figure(scorer.weight), duration(scorer.seconds),
      ...(broken ? [scorer.error ? `${scorer.error.class}: ${scorer.error.message}` : "–"] : [])])),
  result.scorers.map((scorer) => {
    const runs = Object.entries(scorer.definition || {}).map(([name, value]) => `${name}: ${value}`).join("\n");
    const found = scorer.details && Object.keys(scorer.details).length ? JSON.stringify(scorer.details, null, 1) : null;
    const parts = [["printed", scorer.output || (runs || found ? "nothing" : null)], ["found", found], ["runs", runs]].filter(([, words]) => words);
    if (!parts.length) return null;
    return h("details", { open: result.outcome !== "passed" && scorer.score !== 1 && result.scorers.length < 4 }, h("summary", null, `What ${scorer.name} printed, found and runs`),
      parts.map(([what, words]) => [h("h4", null, `It ${what}`), h("pre", { class: "text", tabindex: "0", "aria-label": `What ${scorer.name} ${what}` }, words)]));
  }));
}

function metricsOf(result) {
  if (!result || !result.metrics || !result.metrics.length) return null;
  return section("Metrics", table("Metrics", ["Metric", { title: "Value", number: true }, "Unit", "Better"],
    result.metrics.map((metric) => [metric.name, String(metric.value), metric.unit || "–", metric.direction])));
}

// The steps of a task of several steps.
function partsOf(result) {
  if (!result || !result.steps || !result.steps.length) return null;
  return section("Steps of the task", table("Steps of the task", ["Step", { title: "Score", number: true }, { title: "Begins", number: true, extra: true }, { title: "Lasts", number: true, extra: true }, "Scorers", "Not run"],
    result.steps.map((step) => [step.name, score(step.score), step.not_run ? "–" : duration(step.start), step.not_run ? "–" : duration(step.end - step.start),
      step.scorers.join(", "), text(step.not_run)])));
}

function turnsOf(result) {
  if (!result || !result.turns || result.turns.length < 2) return null;
  return section("Turns", h("ol", null, result.turns.map((turn) => h("li", null, typeof turn === "number" ? score(turn) : text(JSON.stringify(turn))))));
}

const logOf = (trial, now) => logView(trial.job, now.get("id"), trial.logs, now.get("log"), now.get("log_q"));

// The log of a trial that runs: looked at every few seconds while it is seen, until the trial has ended.
function runningLog(trial, now) {
  const said = h("p", { class: "note", role: "status" });
  const place = h("div", null, h("p", { class: "nothing" }, "No output yet"));
  let { phase_since: since } = trial.running;
  let view = null;
  let timer = null;
  let left = false;
  const tell = (words) => (said.textContent === words ? null : fill(said, words));
  const show = (found) => {
    tell(`It runs; its phase is ${found.running.phase}. Its steps come when the trial has ended.`);
    if (view) return view.more(found.running.phase_since !== since);
    if (found.logs.length) {
      view = logOf(found, now);
      fill(place, view.content);
    }
    return null;
  };
  const look = async () => {
    if (document.visibilityState === "visible") {
      try {
        const found = await api.trial(trial.job, now.get("id"));
        if (left) return;
        if (!found.running) {
          if (view) view.more();
          fill(said, "The trial has ended. ", h("a", { href: changed({}) }, "See its result and steps"));
          say("The trial has ended");
          return;
        }
        await show(found);
        since = found.running.phase_since;
      } catch (error) {
        if (left) return;
        tell(error.message);
        if (error.status === 404) return;
      }
    }
    if (!left) timer = setTimeout(look, LOOK);
  };
  show(trial);
  timer = setTimeout(look, LOOK);
  return { said, place, leave: () => {
    left = true;
    clearTimeout(timer);
  } };
}

// The trajectory, a page at a time, with a search in it.
function stepList(trial, now) {
  const id = now.get("id");
  const list = h("ol", { class: "steps" });
  const count_ = h("p", { class: "pager", role: "status" });
  const more = h("button", { type: "button", click: () => load(after) }, "More steps");
  // The word that the list is of: the field may hold another already, which was not asked for yet.
  let word = now.get("q") || "";
  let after = 0;
  let turn = 0;
  async function load(from) {
    const mine = (turn += 1);
    more.disabled = true;
    try {
      const page = await api.steps(trial.job, id, { after: from, limit: PAGE, q: word || null });
      if (mine !== turn) return;
      if (!from) list.replaceChildren();
      list.append(...page.steps.map((step) => h("li", null, stepView(step, word))));
      fill(count_, `${list.children.length} of ${plural(page.total, "step")}` + (word ? " that contain it" : ""));
      after = page.next;
      more.hidden = page.next === null || page.next === undefined;
    } catch (error) {
      if (mine !== turn) return;
      fill(count_, error.message);
      more.hidden = true;
    }
    more.disabled = false;
  }
  load(0);
  return [searchForm("Search the steps", word, (value) => {
    word = value;
    remember({ q: word || null });
    load(0);
  }), list, count_, more];
}

function filesOf(trial, id) {
  if (!trial.files || !trial.files.length) return null;
  const wanted = new Set(current().getAll("file"));
  const open = new Set();
  const show = (button, place, file) => {
    open[open.has(file.path) ? "delete" : "add"](file.path);
    toggle(button, place, trial.job, id, file);
  };
  return section("Files", h("ul", { class: "files" }, trial.files.map((file) => {
    const place = h("div", { class: "content" });
    const address = api.fileUrl(trial.job, id, file.path, false);
    const shown = file.kind === "binary" ? null : h("button", {
      type: "button", "aria-expanded": "false", "aria-label": `Show ${file.path}`, click: (event) => {
        show(event.target, place, file);
        rememberFiles([...open]);
      },
    }, "Show");
    if (shown && (wanted.has(file.path) || (!wanted.size && isShortReply(file)))) show(shown, place, file);
    return h("li", null, h("code", null, file.path), ` ${bytes(file.bytes)} `, shown, " ",
      address ? h("a", { href: address, "data-outside": true, download: true, "aria-label": `Download ${file.path}` }, "Download")
        : shown ? h("button", { type: "button", "aria-label": `Save ${file.path}`, click: () => save(place, trial.job, id, file.path) }, "Save") : null, place);
  })), trial.files_left_out ? h("p", null, `${plural(trial.files_left_out, "more file")}: see the directory of the trial`) : null);
}

// What an agent answered is read more often than any other file.
const isShortReply = (file) => file.path.split("/").at(-1) === "reply.txt" && file.bytes <= SHORT;

// Saves a file of a report, which has no address.
async function save(place, job, id, path) {
  try {
    const address = URL.createObjectURL(await api.fileBlob(job, id, path));
    h("a", { href: address, download: path.split("/").at(-1) }).click();
    setTimeout(() => URL.revokeObjectURL(address), KEPT);
  } catch (error) {
    fill(place, h("p", { class: "error" }, error.message));
  }
}

// Remembers the opened files in the address, those opened last: names may be long, and no server takes a long address.
function rememberFiles(open) {
  let file = open;
  while (file.length && changed({ file }).length > LONGEST) file = file.slice(1);
  remember({ file });
}

async function toggle(button, place, job, id, file) {
  const open = place.childNodes.length > 0;
  button.setAttribute("aria-expanded", String(!open));
  button.textContent = open ? "Show" : "Hide";
  button.setAttribute("aria-label", `${button.textContent} ${file.path}`);
  if (open) return fill(place);
  try {
    const address = api.fileUrl(job, id, file.path, true);
    if (file.kind === "html" && address) return fill(place, h("iframe", { sandbox: "", src: address, title: file.path, loading: "lazy" }));
    if (file.kind === "image") return fill(place, h("img", { src: address || (await api.fileText(job, id, file.path)), alt: file.path }));
    const content = await api.fileText(job, id, file.path);
    if (content.includes("\0")) return fill(place, h("p", { class: "nothing" }, "This is no text; it can be downloaded."));
    const cut = content.length > SHOWN;
    return fill(place, file.kind === "diff" ? diffView(content.slice(0, SHOWN)) : h("pre", { class: "text", tabindex: "0", "aria-label": file.path }, ansi(content.slice(0, SHOWN))),
      cut ? h("p", null, `The first ${bytes(SHOWN)} of ${bytes(content.length)}`) : null);
  } catch (error) {
    return fill(place, h("p", { class: "error" }, error.message));
  }
}

// A patch, line by line. Its signs are in the text, so colour is not alone.
function diffView(content) {
  return h("pre", { class: "text diff", tabindex: "0", "aria-label": "Difference" }, content.split("\n").map((line) =>
    h("span", { class: line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@@") ? "place" : null }, line + "\n")));
}

function usageOf(result) {
  if (!result) return null;
  const usage = result.usage || {};
  const models = Object.entries(result.models || {}).map(([model, calls]) => `${model}: ${plural(calls, "call")}`).join(", ");
  if (!models && [usage.input_tokens, usage.output_tokens, usage.cost_usd].every((value) => value === null || value === undefined)) return null;
  return section("Usage", facts([["Cost", money(usage.cost_usd)], ["Input tokens", count(usage.input_tokens)], ["Cached tokens", count(usage.cached_tokens)],
    ["Output tokens", count(usage.output_tokens)], ["Reasoning tokens", typeof usage.reasoning_tokens === "number" ? count(usage.reasoning_tokens) : null], ["Models", models]]));
}

function notesOf(result) {
  const end = (result && result.agent_end) || {};
  const notes = [...((result && result.notes) || []), ...(end.message ? [end.message] : []),
    ...(end.tampered || []).map((one) => "outside of the workdir, changed by the agent: " + one),
    ...(end.killed || []).map((one) => "left running and killed before grading: " + one)];
  return notes.length ? section("Notes", h("ul", null, notes.map((note) => h("li", null, note)))) : null;
}

// Other trials of the scenario in the same job.
function siblingsOf(job, siblings) {
  return siblings.map((trial) => h("span", { class: "agent-score" }, chip(trial.outcome), " ", trialLink(job, trial.id, `${trial.agent} #${trial.attempt}`)));
}

function pairLinks(trial, result) {
  if (!result || !trial.steps) return null;
  const own = { job: trial.job, agent: (trial.row || {}).agent, attempt: result.attempt };
  return h("ul", { class: "links" }, trial.siblings.filter((other) => other.id !== result.node_id).slice(0, 8).map((other) => h("li", null,
    h("a", { href: link("steps", { a_job: own.job, b_job: own.job, benchmark: result.benchmark, scenario: result.scenario, a_agent: own.agent, b_agent: other.agent,
      a_attempt: own.attempt, b_attempt: other.attempt }) }, `Side by side with ${other.agent} #${other.attempt}`))));
}
