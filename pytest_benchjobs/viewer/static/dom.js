// Makes elements. All text goes in by textContent: what agents wrote is never markup.

const SVG = "http://www.w3.org/2000/svg";

// Element `tag` with attributes and children. A function among the attributes listens to the event of its name.
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// The same for SVG.
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

// Replaces the children of an element. Those that stay are never taken out: they keep the focus, and their layout.
export function fill(element, ...children) {
  const wanted = nodesOf(children);
  const staying = new Set(wanted);
  for (const child of [...element.childNodes]) if (!staying.has(child)) child.remove();
  let place = element.firstChild;
  for (const node of wanted) {
    if (node === place) place = place.nextSibling;
    else element.insertBefore(node, place);
  }
  return element;
}

const made = new Map();

// What `make` makes of `data`: the same element as long as the data are the same, of each name the last one.
export function kept(name, data, make) {
  const text = JSON.stringify(data);
  if (!made.has(name) || made.get(name).text !== text) made.set(name, { text, content: make() });
  return made.get(name).content;
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const node of nodesOf(children)) element.append(node);
}

function nodesOf(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

// A message for screen readers.
export function say(text) {
  const place = document.getElementById("said");
  if (place) place.textContent = text;
}

// A table of few rows: `columns` are titles, or {title, number, whole, extra}, where what is whole stays on one line, and what is
// extra is for wide windows; `rows` are lists of cells.
export function table(label, columns, rows) {
  const classes = columns.map((column) => ["number", "whole", "extra"].filter((name) => column[name]).join(" ") || null);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", { class: "plain" },
      h("caption", { class: "unseen" }, label),
      h("thead", null, h("tr", null, columns.map((column, at) =>
        h("th", { scope: "col", class: classes[at] }, column.title || column)))),
      h("tbody", null, rows.map((row) =>
        h("tr", null, row.map((cell, at) => h("td", { class: classes[at] }, cell)))))));
}

// Terms and what they are: pairs of a term and a value; those without a value are left out.
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value))));
}

// A section with a heading. Nothing is made of a section without content.
export function section(title, ...content) {
  if (content.flat(Infinity).every((child) => child === null || child === undefined || child === false)) return null;
  return h("section", { "aria-label": title }, h("h2", null, title), content);
}

// Commands to type, each with a button that copies it.
export function commandList(commands) {
  if (!commands || !commands.length) return null;
  return h("ul", { class: "commands" }, commands.map(({ title, command }) =>
    h("li", null, h("span", null, title), h("code", null, command),
      h("button", { type: "button", "aria-label": "Copy: " + title, click: (event) => copy(command, event.target) }, "Copy"))));
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
    button.textContent = "Copied";
    setTimeout(() => fill(button, "Copy"), 2000);
  } catch {
    say("The browser does not let this page copy; select the text instead");
  }
}
