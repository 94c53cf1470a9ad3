// One step of a trajectory: message, tool calls, what they gave.

import { ansi } from "./ansi.js";
import { h } from "./dom.js";
import { count, text } from "./format.js";

const LONG = 1500;

// A step; `words` are marked in it.
export function stepView(step, words = "") {
  const calls = step.tool_calls || [];
  const results = ((step.observation || {}).results || []);
  const metrics = step.metrics || {};
  return h("article", { class: "step from-" + String(step.source || "agent").replace(/[^a-z]/g, "") },
    h("h3", null, `${step.step_id}. ${text(step.source)}`, typeof metrics.prompt_tokens === "number" ?
      h("small", null, ` ${count(metrics.prompt_tokens)} tokens in, ${count(metrics.completion_tokens)} out`) : null),
    step.reasoning_content ? block("Reasoning", step.reasoning_content, words, "reasoning") : null,
    step.message ? block(null, step.message, words, "message") : null,
    calls.map((call) => h("div", { class: "call" }, h("p", null, "calls ", h("code", null, text(call.function_name))), block(null, argumentsOf(call), words, "code"))),
    results.map((result) => block("Output", typeof result.content === "string" ? result.content : JSON.stringify(result.content, null, 1), words, "output")));
}

function argumentsOf(call) {
  const given = call.arguments;
  if (given === null || given === undefined) return "";
  if (typeof given !== "object") return String(given);
  const names = Object.keys(given);
  if (names.length === 1 && typeof given[names[0]] === "string") return given[names[0]];
  return JSON.stringify(given, null, 1);
}

// A text; of a long one the beginning, and a button for the rest.
function block(title, content, words, kind) {
  if (!content) return null;
  const pre = h("pre", { class: "text " + kind });
  const show = (part) => pre.replaceChildren(...(kind === "output" ? ansi(part) : marked(part, words)));
  show(content.slice(0, LONG));
  const rest = content.length > LONG ? h("button", { type: "button", click: (event) => {
    show(content);
    event.target.remove();
  } }, `Show all ${count(content.length)} characters`) : null;
  return [title ? h("p", { class: "what" }, title) : null, pre, rest];
}

// A text with each place of the words marked.
function marked(content, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [content];
  const found = [];
  const folded = content.toLowerCase();
  let from = 0;
  for (let at = folded.indexOf(wanted); at >= 0 && found.length < 400; at = folded.indexOf(wanted, from)) {
    found.push(content.slice(from, at), h("mark", null, content.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  return [...found, content.slice(from)];
}
