// Small charts in SVG. What each shows is also in a table or in its label.

import { h, svg } from "./dom.js";
import { change, score } from "./format.js";

// Scores from 0 to 1 of one scenario, a line and a mark for each agent; null: it has none.
export function scoreChart(figures) {
  const height = 6 + 12 * figures.length;
  const x = (value) => `${3 + 94 * value}%`;
  return svg("svg", { class: "chart marks", width: "100%", height, role: "img", "aria-label": figures.filter(Boolean).map((one) => `${one.agent} ${score(one.mean)}`).join(", ") },
    [0, 0.5, 1].map((value) => svg("line", { class: "axis", x1: x(value), x2: x(value), y1: 0, y2: height })),
    figures.map((one, number) => (one ? svg("g", { class: "series series-" + (number % 6) },
      svg("title", null, `${one.agent}: ${score(one.mean)}` + (one.low < one.high ? `, from ${score(one.low)} to ${score(one.high)}` : "")),
      svg("line", { class: "range", x1: x(one.low), x2: x(one.high), y1: 9 + 12 * number, y2: 9 + 12 * number }),
      svg("svg", { x: x(one.mean), y: 9 + 12 * number, overflow: "visible" }, marker(number, 0, 0))) : null)));
}

// What the three lines behind such scores are.
export function scoreAxis() {
  return svg("svg", { class: "chart", width: "100%", height: 14, "aria-hidden": "true" }, [["3%", "0", "middle"], ["50%", "0.5", "middle"], ["97%", "1", "middle"]].map(([x, shown, anchor]) =>
    svg("text", { class: "tick", x, y: 12, "text-anchor": anchor }, shown)));
}

// Two scores of one scenario on a line from 0 to 1: a hollow dot for A, a full one for B.
export function pairChart(a, b, width = 140) {
  const at = (value) => 8 + value * (width - 16);
  return svg("svg", { class: "chart pair", width, height: 20, role: "img", "aria-label": `A ${score(a)}, B ${score(b)}` },
    svg("line", { class: "axis", x1: at(0), x2: at(1), y1: 10, y2: 10 }),
    svg("line", { class: b < a ? "worse" : "better", x1: at(a), x2: at(b), y1: 10, y2: 10 }),
    svg("circle", { class: "hollow", cx: at(a), cy: 10, r: 5 }),
    svg("circle", { class: "full", cx: at(b), cy: 10, r: 4 }));
}

// A change with its interval, around 0, and beside it the `ends` of that in words; a dashed line marks the tolerance.
export function intervalChart({ value, low, high, tolerance }, ends, width) {
  if (typeof value !== "number") return null;
  const known = [value, low, high, tolerance ? -tolerance : 0].filter((one) => typeof one === "number").map(Math.abs);
  const most = 1.15 * Math.max(...known, 1e-9);
  const at = (one) => width / 2 + (one / most) * (width / 2 - 8);
  const [from, to] = [typeof low === "number", typeof high === "number"];  // a one-sided test has one end
  const range = from && to ? `, interval ${change(low)} to ${change(high)}` : to ? `, at most ${change(high)}` : from ? `, at least ${change(low)}` : "";
  const label = `change ${change(value)}${range}` +
    (tolerance ? `, tolerance ${score(tolerance)}` : "");
  const drawing = svg("svg", { class: "chart interval", width, height: 28, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: 4, x2: width - 4, y1: 14, y2: 14 }),
    svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 3, y2: 25 }),
    tolerance ? svg("line", { class: "tolerance", x1: at(-tolerance), x2: at(-tolerance), y1: 3, y2: 25 }) : null,
    range ? svg("line", { class: value < 0 ? "worse" : "better", x1: from ? at(low) : 4, x2: to ? at(high) : width - 4, y1: 14, y2: 14 }) : null,
    from ? svg("line", { class: "end", x1: at(low), x2: at(low), y1: 9, y2: 19 }) : null,
    to ? svg("line", { class: "end", x1: at(high), x2: at(high), y1: 9, y2: 19 }) : null,
    svg("circle", { class: "full", cx: at(value), cy: 14, r: 5 }));
  return range ? [drawing, " ", h("span", { class: "ends" }, ends)] : drawing;
}

const RUNS = 10;

// Scores of the last runs from 0 to 1, the newest on the right, each with its interval; a hollow dot is a selection of scenarios.
export function sparkline(runs, width = 180, height = 40) {
  const at = (number) => 8 + ((number + RUNS - runs.length) / (RUNS - 1)) * (width - 16);
  const y = (value) => 5 + (1 - value) * (height - 10);
  const whole = runs.map((run, number) => [run, number]).filter(([run]) => !run.selection);
  return svg("svg", { class: "chart spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Last ${runs.length} scores: ${runs.map((run) => score(run.mean_score)).join(", ")}` },
    [0, 1].map((value) => svg("line", { class: "axis", x1: 0, x2: width, y1: y(value), y2: y(value) })),
    whole.length > 1 ? svg("polyline", { points: whole.map(([run, number]) => `${at(number)},${y(run.mean_score)}`).join(" ") }) : null,
    runs.map((run, number) => svg("g", null,
      typeof run.low === "number" ? svg("line", { class: "range", x1: at(number), x2: at(number), y1: y(run.low), y2: y(run.high) }) : null,
      svg("circle", { class: run.selection ? "hollow" : "full", cx: at(number), cy: y(run.mean_score), r: 3.5 }),
      svg("title", null, `${score(run.mean_score)}${typeof run.low === "number" ? `, 95 % interval ${score(run.low)} to ${score(run.high)}` : ""}${run.selection ? ", a selection of scenarios" : ""}, job ${run.job}`))));
}

// Scores over time: a line with an interval for each series of points {x, mean, low, high, title, href}.
export function trendChart(series, labels, width = 900, height = 260) {
  const [left, right, top, bottom, inner] = [40, 12, 10, 30, 36];
  const x = (at) => left + inner + (labels.length < 2 ? 0.5 : at / (labels.length - 1)) * (width - left - right - 2 * inner);
  const y = (value) => top + (1 - value) * (height - top - bottom);
  const every = Math.max(1, Math.ceil((90 * labels.length) / width));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((value) => [
    svg("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
    svg("text", { class: "tick", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2))]);
  const names = labels.map((label, at) => (at % every ? null :
    svg("text", { class: "tick", x: x(at), y: height - 8, "text-anchor": "middle" }, label)));
  return svg("svg", { class: "chart trend", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Mean scores over time; the table below has the same figures" },
    ticks, names, series.map(({ points }, number) => seriesOf(points, number, x, y)));
}

function seriesOf(points, number, x, y) {
  const whole = points.filter((point) => typeof point.low === "number" && typeof point.high === "number");
  const known = points.filter((point) => typeof point.mean === "number");
  const line = known.filter((point) => !point.selection);
  return svg("g", { class: "series series-" + (number % 6) },
    whole.map((point) => svg("line", { class: "range", x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high) })),
    line.length > 1 ? svg("polyline", { points: line.map((point) => `${x(point.x)},${y(point.mean)}`).join(" ") }) : null,
    known.map((point) => {
      const dot = marker(number, x(point.x), y(point.mean));
      if (point.selection) dot.classList.add("hollow");
      dot.append(svg("title", null, point.title));
      return dot;
    }));
}

// A shape for each series, so that colour is not the only difference.
function marker(number, x, y) {
  const shapes = [
    () => svg("circle", { cx: x, cy: y, r: 4 }),
    () => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }),
    () => svg("path", { d: `M${x} ${y - 5}L${x + 5} ${y + 4}H${x - 5}Z` }),
    () => svg("path", { d: `M${x} ${y - 5}L${x + 5} ${y}L${x} ${y + 5}L${x - 5} ${y}Z` }),
    () => svg("path", { d: `M${x} ${y + 5}L${x + 5} ${y - 4}H${x - 5}Z` }),
    () => svg("path", { d: `M${x - 4} ${y - 4}L${x + 4} ${y + 4}M${x + 4} ${y - 4}L${x - 4} ${y + 4}`, class: "cross" }),
  ];
  // Colours begin anew with the seventh series, and shapes one further on.
  return shapes[(number + Math.floor(number / 6)) % shapes.length]();
}

// The key of a chart: the shape and the name of each series.
export function chartKey(names) {
  return names.map((name, number) => h("span", null,
    svg("svg", { class: "chart series series-" + (number % 6), width: 16, height: 16, "aria-hidden": "true" }, marker(number, 8, 8)), " ", name));
}
