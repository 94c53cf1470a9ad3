// Text with ANSI colours as elements. Every other escape sequence is dropped.

import { h } from "./dom.js";

// A control sequence, a sequence of the operating system, or any other escape. One that does not end stops at its line.
const ESCAPE = /\u001b(?:\[([0-9;:]*)[ -/]*([@-~])|\][^\u0007\u001b\n]*(?:\u0007|\u001b\\)?|[ -~]?)/g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Spans of a text. Colours are classes, so that they follow the page.
export function ansi(text) {
  const found = [];
  let style = { bold: false, dim: false, italic: false, underline: false, front: null };
  let from = 0;
  const put = (part) => {
    const shown = part.replace(/\r\n?/g, "\n").replace(CONTROL, "");
    if (!shown) return;
    const classes = ["bold", "dim", "italic", "underline"].filter((name) => style[name]);
    if (style.front !== null) classes.push("front-" + style.front);
    found.push(classes.length ? h("span", { class: classes.join(" ") }, shown) : document.createTextNode(shown));
  };
  for (const match of text.matchAll(ESCAPE)) {
    put(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") style = styled(style, match[1]);
  }
  put(text.slice(from));
  return found;
}

function styled(before, codes) {
  let style = { ...before };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) style = { bold: false, dim: false, italic: false, underline: false, front: null };
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code >= 30 && code <= 37) style.front = code - 30;
    else if (code >= 90 && code <= 97) style.front = code - 90;
    else if (code === 39) style.front = null;
    else if (code === 38 || code === 48) {
      // A colour of 256, or of red, green and blue: only the first sixteen have a name here.
      const named = numbers[at + 1] === 5 ? numbers[at + 2] : null;
      if (code === 38) style.front = named !== null && named < 16 ? named % 8 : null;
      at += numbers[at + 1] === 5 ? 2 : 4;
    }
  }
  return style;
}
