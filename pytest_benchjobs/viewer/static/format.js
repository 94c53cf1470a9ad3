// Text of numbers, times and outcomes. What is unknown is a dash, never 0.

const UNKNOWN = "–";
const SIGNS = {
  passed: "✓", failed: "✗", error: "!", cancelled: "∅", skipped: "↷", running: "…",
  completed: "✓", initializing: "…", queued: "…", timeout: "!", paused: "‖", died: "!",
  ok: "✓", regressed: "✗", inconclusive: "?", invalid: "!", "no baseline": "–",
};

const known = (value) => typeof value === "number" && Number.isFinite(value);

// A score or a mean, from 0 to 1.
export function score(value) {
  return known(value) ? value.toFixed(3) : UNKNOWN;
}

// A difference of scores, with its sign.
export function change(value, digits = 3) {
  if (!known(value)) return UNKNOWN;
  const shown = Math.abs(value).toFixed(digits);
  return (Number(shown) === 0 ? "" : value < 0 ? "−" : "+") + shown;
}

// A value of a metric, which may be of any size.
export function figure(value) {
  return known(value) ? String(Number(value.toPrecision(4))).replace("-", "−") : UNKNOWN;
}

// A difference of shares of 1, in percentage points.
export function points(value, signed = true) {
  if (!known(value)) return UNKNOWN;
  const shown = (100 * Math.abs(value)).toFixed(1);
  return (!signed || shown === "0.0" ? "" : value < 0 ? "−" : "+") + shown + " pp";
}

export function percent(value) {
  return known(value) ? (100 * value).toFixed(1) + " %" : UNKNOWN;
}

export function probability(value) {
  if (!known(value)) return UNKNOWN;
  return value < 0.001 ? "< 0.001" : value.toFixed(3);
}

export function count(value) {
  return known(value) ? String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",") : UNKNOWN;
}

export function money(value) {
  if (!known(value)) return UNKNOWN;
  return "$" + (value !== 0 && Math.abs(value) < 0.01 ? value.toFixed(4) : value.toFixed(2));
}

// A duration in seconds.
export function duration(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 60) return (value < 10 ? value.toFixed(1) : Math.round(value)) + " s";
  const seconds = Math.round(value);
  const parts = [[Math.floor(seconds / 3600), "h"], [Math.floor(seconds / 60) % 60, "m"], [seconds % 60, "s"]];
  return parts.filter(([number], at) => number || (at === 2 && seconds < 3600)).map(([number, unit]) => number + unit).join(" ");
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 1000) return value + " B";
  return value < 1e6 ? (value / 1e3).toFixed(1) + " kB" : (value / 1e6).toFixed(1) + " MB";
}

// An ISO time as day and time of this machine's zone.
export function time(value) {
  const at = value ? new Date(value) : null;
  if (!at || Number.isNaN(at.getTime())) return UNKNOWN;
  const two = (number) => String(number).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

const AGES = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [14 * 86400, 86400, "d"]];

// How long ago a time was; null for one of more than two weeks ago, or to come.
export function age(value) {
  const seconds = (Date.now() - new Date(value).getTime()) / 1000;
  const [, unit, name] = AGES.find(([most]) => seconds < most) || [];
  return seconds >= 0 && unit ? `${Math.floor(seconds / unit)} ${name} ago` : null;
}

export function text(value) {
  return value === null || value === undefined || value === "" ? UNKNOWN : String(value);
}

// The sign of an outcome, a status or a verdict, so that colour is never the only difference.
export function sign(word) {
  return SIGNS[word] || "·";
}

// The class of a failure or error in words.
export function classWords(name) {
  return text(name).replaceAll("_", " ");
}

// A long name, without its middle: those of agents often differ at the end.
export function middle(name, most = 24) {
  return name.length > most ? `${name.slice(0, Math.ceil(most / 2))}…${name.slice(name.length - Math.floor(most / 2) + 1)}` : name;
}

// One of several words: `plural(2, "trial")` is "2 trials".
export function plural(number, word) {
  return count(number) + " " + word + (number === 1 ? "" : "s");
}
