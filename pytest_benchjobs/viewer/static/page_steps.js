// Page of two trajectories: side by side, step by step, or played back one step at a time.

import { api } from "./api.js";
import { fill, h, say } from "./dom.js";
import { count, plural, score } from "./format.js";
import { chip, jobLink, trialLink } from "./parts.js";
import { changed, current, go, link, remember } from "./state.js";
import { stepView } from "./step.js";

const PAGE = 50;
const KINDS = { identical: "= identical", different: "≠ different", tool_mismatch: "⚠ other tools", only_a: "A only", only_b: "B only" };
const ASKED = ["a_job", "b_job", "benchmark", "scenario", "a_agent", "b_agent", "a_attempt", "b_attempt"];

export async function stepsPage() {
  const now = current();
  const asked = Object.fromEntries(ASKED.map((name) => [name, now.get(name)]).filter(([, value]) => value));
  const first = await api.align({ ...asked, after: 0, limit: PAGE });
  const title = `Steps of ${asked.scenario}`;
  const playing = now.get("play") === "1";
  const heads = [h("h1", null, title), h("p", { class: "lead" }, "of benchmark ", asked.benchmark), h("div", { class: "two" }, sideHead("A", first.a), sideHead("B", first.b))];
  if (!first.total) {
    return { title, content: [heads, h("p", { class: "nothing" }, "Neither has steps: agents such as oracle, nop and shell commands leave none, and files of a trial may be gone. Their logs are on the pages of the trials.")] };
  }
  return { title, content: [
    heads, h("div", { class: "filters" }, trialChoice("A", first.a), trialChoice("B", first.b)),
    h("p", { class: "key" }, Object.entries(KINDS).map(([kind, words]) => [h("span", { class: "chip align-" + kind }, words), ` ${count(first.counts[kind] || 0)} `])),
    h("p", null, h("a", { class: "button", href: changed({ play: playing ? null : 1, step: null }) }, playing ? "All steps" : "Play back"), " ",
      h("a", { class: "button", href: link("steps", swapped(asked)) }, "Swap")),
    playing ? playback(asked, first) : sideBySide(asked, first)] };
}

function swapped(asked) {
  return Object.fromEntries(Object.entries(asked).map(([name, value]) =>
    [name.startsWith("a_") ? "b_" + name.slice(2) : name.startsWith("b_") ? "a_" + name.slice(2) : name, value]));
}

function sideHead(name, side) {
  return h("div", null, h("h2", null, `${name}: ${side.agent} #${side.attempt}`),
    h("p", null, chip(side.outcome), ` score ${score(side.score)}, ${plural(side.steps, "step")}, `, trialLink(side.job, side.id, "the trial"), " of job ", jobLink(side.job)));
}

// Another attempt of a side, or of another job of a baseline.
function trialChoice(name, side) {
  if (side.choices.length < 2) return null;
  const jobs = new Set(side.choices.map((one) => one.job));
  const letter = name.toLowerCase();
  return h("label", null, h("span", null, `Attempt of ${name}`), h("select", { name: letter + "_attempt", change: (event) => {
    const chosen = side.choices[Number(event.target.value)];
    go(changed({ [letter + "_job"]: jobs.size > 1 ? chosen.job : current().get(letter + "_job"), [letter + "_attempt"]: chosen.attempt, step: null }));
  } }, side.choices.map((one, at) => h("option", { value: at, selected: one.job === side.job && one.attempt === side.attempt },
    `${jobs.size > 1 ? one.job + " " : ""}#${one.attempt} ${one.outcome}`))));
}

function rowView(row, at) {
  const side = (step, name) => h("div", { class: step ? null : "absent" }, step ? h("p", { class: "side" }, name) : null, step ? stepView(step) : h("p", null, `no step ${at + 1} in ${name}`));
  return h("li", { class: "pair-row align-" + row.kind }, h("p", { class: "what" }, `${at + 1}: `, KINDS[row.kind]),
    h("div", { class: "two" }, side(row.a, "A"), side(row.b, "B")));
}

function sideBySide(asked, first) {
  const list = h("ol", { class: "steps" }, first.rows.map((row, at) => rowView(row, at)));
  const more = h("button", { type: "button", hidden: first.next === null || first.next === undefined, click: load }, "More steps");
  const about = h("p", { class: "pager", role: "status" });
  let after = first.next;
  async function load() {
    more.disabled = true;
    try {
      const page = await api.align({ ...asked, after, limit: PAGE });
      const from = list.children.length;
      list.append(...page.rows.map((row, at) => rowView(row, from + at)));
      after = page.next;
      more.hidden = after === null || after === undefined;
      fill(about);
    } catch (error) {
      fill(about, error.message);
    }
    more.disabled = false;
  }
  return [list, about, more];
}

// One row at a time, with buttons and the keys , and .
function playback(asked, first) {
  const rows = [...first.rows];
  let after = first.next;
  let at = Math.max(0, Math.min(first.total - 1, Number(current().get("step") || 1) - 1));
  const stage = h("ol", { class: "steps" });
  const place = h("output", null);
  const range = h("input", { type: "range", min: 1, max: Math.max(1, first.total), step: 1, "aria-label": "Step", input: () => show(Number(range.value) - 1) });
  const button = (title, where) => h("button", { type: "button", click: () => show(where()) }, title);

  let loading = null;
  let turn = 0;
  const left = () => after !== null && after !== undefined;

  // Reads the next rows, once for all who wait for them.
  function further() {
    loading = loading || api.align({ ...asked, after, limit: PAGE }).then((page) => {
      rows.push(...page.rows);
      after = page.next;
    }).finally(() => {
      loading = null;
    });
    return loading;
  }

  async function show(to) {
    const mine = (turn += 1);
    at = Math.max(0, Math.min(first.total - 1, await to));
    try {
      while (rows.length <= at && left()) await further();
    } catch (error) {
      fill(place, error.message);
      return;
    }
    if (mine !== turn) return;
    range.value = at + 1;
    fill(place, `step ${at + 1} of ${first.total}`);
    fill(stage, rows[at] ? rowView(rows[at], at) : h("li", null, "There are no steps."));
    remember({ step: at + 1 });
    say(`Step ${at + 1}: ${rows[at] ? KINDS[rows[at].kind] : "none"}`);
  }
  show(at);
  async function unlike(way) {
    for (let one = at + way; one >= 0 && one < first.total; one += way) {
      while (rows.length <= one && left()) await further();
      if (rows[one] && rows[one].kind !== "identical") return one;
    }
    return at;
  }
  function keys(event) {
    if (!view.isConnected) return document.removeEventListener("keydown", keys);
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=range]), select, textarea")) return null;
    if (event.key === ".") show(at + 1);
    if (event.key === ",") show(at - 1);
    return null;
  }
  document.addEventListener("keydown", keys);
  const view = h("div", { class: "playback" }, h("p", { class: "filters" }, button("First", () => 0), button("Previous", () => at - 1), range, button("Next", () => at + 1), button("Last", () => first.total - 1),
    button("Previous difference", () => unlike(-1)), button("Next difference", () => unlike(1)), place), stage);
  return view;
}
