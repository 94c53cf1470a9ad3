// A table as an ARIA grid: one stop of the Tab key, arrows between cells. Of many rows only those in sight are made.

import { h, fill, say } from "./dom.js";

const BEYOND = 8;

// Columns: {key, title, number, wrap, sort, hint(row), cell(row)}. `href(row)` is the address Enter opens. With `virtual`, rows have
// one `height` and columns share the width, but for those that are wide, narrow or a chart; `least` is the width in rem.
export function grid({ label, columns, rows, sort = {}, onSort = null, href = null, virtual = false, least = 50, height = 34 }) {
  const body = h("tbody", null);
  const heads = columns.map((column, at) => headCell(column, at, sort, onSort));
  const element = h("table", {
    role: "grid", class: virtual ? "grid virtual" : "grid", "aria-label": label,
    "aria-rowcount": rows.length + 1, "aria-colcount": columns.length,
  },
    virtual ? h("colgroup", null, columns.map((column) => h("col", { class: ["wide", "narrow", "chart"].find((width) => column[width]) }))) : null,
    h("thead", null, h("tr", { role: "row", "aria-rowindex": 1 }, heads)), body);
  if (virtual) {
    element.style.minWidth = least + "rem";
    element.style.setProperty("--row", height + "px");
  }
  const frame = h("div", { class: virtual ? "frame tall" : "frame" }, element);
  let active = { row: -1, column: 0 };
  let shown = [0, 0];

  // Draws the rows of the window, and gives the focus back to its cell.
  function draw() {
    const focused = element.contains(document.activeElement);
    const [first, last] = (shown = virtual ? windowOf(frame, rows.length, height) : [0, rows.length]);
    const space = (room) => (virtual && room ? h("tr", { class: "space", "aria-hidden": "true" },
      sized(h("td", { colspan: columns.length }), room)) : null);
    fill(body, space(first * height), rows.slice(first, last).map((row, at) => rowOf(row, first + at)), space((rows.length - last) * height));
    mark();
    if (focused) focus(false);
  }

  function rowOf(row, at) {
    return h("tr", { role: "row", "aria-rowindex": at + 2 },
      columns.map((column, index) => h(index === 0 ? "th" : "td", {
        role: index === 0 ? "rowheader" : "gridcell", class: column.number ? "number" : column.wrap ? "wrap" : null, tabindex: "-1",
        "data-row": at, "data-column": index, title: column.hint ? column.hint(row) : null,
      }, column.cell(row))));
  }

  const cellAt = ({ row, column }) => (row < 0 ? heads[column] : body.querySelector(`[data-row="${row}"][data-column="${column}"]`));
  const linksOf = (cell) => (cell ? [...cell.querySelectorAll("a, button")] : []);
  const targetOf = (cell) => (cell ? linksOf(cell)[active.part || 0] || linksOf(cell)[0] || cell : null);

  // Exactly one thing in the grid is a stop of the Tab key.
  function mark() {
    for (const one of element.querySelectorAll('[tabindex="0"], a, thead button')) one.tabIndex = -1;
    const target = targetOf(cellAt(active)) || targetOf(cellAt({ row: -1, column: 0 }));
    if (target) target.tabIndex = 0;
  }

  function focus(scroll) {
    if (scroll && virtual && active.row >= 0) {
      const top = active.row * height;
      if (top < frame.scrollTop) frame.scrollTop = top;
      else if (top + 3 * height > frame.scrollTop + frame.clientHeight) frame.scrollTop = top + 3 * height - frame.clientHeight;
      if (active.row < shown[0] || active.row >= shown[1]) draw();
    }
    mark();
    const target = targetOf(cellAt(active));
    if (target) target.focus({ preventScroll: virtual && !scroll });
  }

  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      if (event.ctrlKey && event.key === "Home") move(event, { row: 0, column: 0 });
      else if (event.ctrlKey && event.key === "End") move(event, { row: rows.length - 1, column: columns.length - 1 });
      return;
    }
    const page = Math.max(1, Math.floor(frame.clientHeight / height) - 2);
    const steps = {
      ArrowDown: { row: active.row + 1 }, ArrowUp: { row: active.row - 1 },
      // A cell may have several links, such as those of all attempts.
      ArrowRight: (active.part || 0) + 1 < linksOf(cellAt(active)).length ? { part: (active.part || 0) + 1 } : { column: active.column + 1 },
      ArrowLeft: active.part > 0 ? { part: active.part - 1 } : { column: active.column - 1 },
      Home: { column: 0 }, End: { column: columns.length - 1 },
      PageDown: { row: active.row + page }, PageUp: { row: Math.max(0, active.row - page) },
    };
    if (steps[event.key]) move(event, steps[event.key]);
    else if (event.key === "Enter" && href && active.row >= 0 && !event.target.closest("a, button")) {
      const address = href(rows[active.row]);
      if (address) h("a", { href: address }).click();
    }
  });

  function move(event, to) {
    event.preventDefault();
    active = {
      row: Math.max(-1, Math.min(rows.length - 1, to.row ?? active.row)),
      column: Math.max(0, Math.min(columns.length - 1, to.column ?? active.column)),
      part: to.part || 0,
    };
    focus(true);
  }

  element.addEventListener("focusin", (event) => {
    const cell = event.target.closest("[data-column]");
    if (!cell) return;
    active = { row: Number(cell.dataset.row), column: Number(cell.dataset.column), part: Math.max(0, linksOf(cell).indexOf(event.target)) };
  });

  // Whether rows that are soon in sight are not there yet.
  function isLate() {
    const [first, last] = windowOf(frame, rows.length, height, BEYOND / 2);
    return first < shown[0] || last > shown[1];
  }

  if (virtual) {
    let waiting = false;
    frame.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        if (isLate()) draw();
      });
    });
    new ResizeObserver(() => (isLate() ? draw() : null)).observe(frame);
  }
  draw();
  return frame;
}

function headCell(column, at, sort, onSort) {
  const sorted = sort.key === column.key ? (sort.order === "asc" ? "ascending" : "descending") : null;
  const attributes = {
    role: "columnheader", scope: "col", class: column.number ? "number" : null, "data-row": -1, "data-column": at, tabindex: "-1",
    "aria-sort": column.sort && onSort ? sorted || "none" : null,
  };
  if (!column.sort || !onSort) return h("th", attributes, column.title);
  return h("th", attributes, h("button", {
    type: "button",
    click: () => {
      const order = sorted === "descending" ? "asc" : "desc";
      say(`Sorted by ${column.title}, ${order === "asc" ? "ascending" : "descending"}`);
      onSort(column.key, order);
    },
  }, column.title, h("span", { "aria-hidden": "true" }, sorted === "ascending" ? " ▲" : sorted === "descending" ? " ▼" : "")));
}

// First and last row in sight, and `beyond` more on both sides.
function windowOf(frame, length, row, beyond = BEYOND) {
  const first = Math.floor(frame.scrollTop / row);
  return [Math.max(0, Math.min(length, first - beyond)), Math.min(length, first + Math.ceil((frame.clientHeight || 600) / row) + beyond)];
}

function sized(element, height) {
  element.style.height = height + "px";
  return element;
}
