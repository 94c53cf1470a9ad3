// Logs of a trial with their colours: the end first, the rest on request, and a search for lines; of one that runs what comes.

import { ansi } from "./ansi.js";
import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, plural } from "./format.js";
import { searchForm } from "./parts.js";
import { remember } from "./state.js";

const PART = 65536;
const FOUND = 500;
const SEARCHED = 16 << 20;
const MOST = 1 << 20;
const NOTHING = { text: "", from: 0, end: 0, whole: 0 };

// Returns the view, and a function that reads what came since; `anew` if it may be another log.
export function logView(job, id, logs, wanted, words) {
  const names = logs.map((log) => log.name);
  let name = names.includes(wanted) ? wanted : names[0];
  let turn = 0;
  let loaded = NOTHING;
  // What is looked for: the field may hold other words already, which were not asked for yet.
  let sought = words || "";
  const shown = h("pre", { class: "text log", tabindex: "0", "aria-label": "Log" });
  const about = h("p", { class: "pager", role: "status" });
  const earlier = h("button", { type: "button", click: () => load(Math.max(0, loaded.from - PART), loaded.from) }, "Earlier part");

  // Reads a part of the log, and puts it before what is there.
  async function load(from, to, drawn = true) {
    const mine = (turn += 1);
    earlier.disabled = true;
    try {
      const part = await api.log(job, id, from === null ? { name, offset: -PART, limit: PART } : { name, offset: from, limit: to - from });
      if (mine !== turn) return;
      loaded = from === null ? { text: part.text, from: part.offset, end: part.next ?? part.bytes, whole: part.bytes } : { ...loaded, text: part.text + loaded.text, from: part.offset };
      if (drawn) draw();
    } catch (error) {
      if (mine !== turn) return;
      fill(shown);
      fill(about, error.message);
      earlier.hidden = true;
    }
    earlier.disabled = false;
  }

  // Looks for the words in the whole log, of which so far only the end may be here.
  async function seek() {
    if (!loaded.whole) return; // it is empty, or could not be read, which is said already; or it is on its way
    draw();
    while (sought && loaded.from > 0 && loaded.text.length < SEARCHED) {
      const [before, mine] = [loaded.from, turn + 1];
      fill(about, `looking at the rest: ${bytes(before)}`);
      await load(Math.max(0, before - 4 * PART), before, false);
      if (turn !== mine || loaded.from >= before) return; // another log was chosen, or it cannot be read
    }
    draw();
  }

  async function more(anew) {
    const mine = turn;
    if (anew) return load(null);
    if (earlier.disabled) return null; // a part is on its way
    try {
      const part = await api.log(job, id, { name, offset: loaded.end, limit: PART });
      if (mine !== turn) return null;
      // It is shorter: another try has begun. It grew by more than a part, or is long: its end is what counts.
      if (part.bytes < loaded.end || part.next !== null || loaded.text.length > MOST) return load(null);
      if (!part.text) return null;
      const { scrollTop, scrollHeight, clientHeight } = shown;
      loaded = { ...loaded, text: loaded.text + part.text, end: part.bytes, whole: part.bytes };
      draw();
      if (scrollTop + clientHeight < scrollHeight - 4) shown.scrollTop = scrollTop;
    } catch (error) {
      fill(about, error.message);
    }
    return null;
  }

  function draw() {
    const word = sought.toLowerCase();
    const lines = loaded.text.split("\n");
    const found = word ? lines.filter((line) => line.toLowerCase().includes(word)) : null;
    fill(shown, ansi(found ? found.slice(0, FOUND).join("\n") : loaded.text));
    fill(about, found ? plural(found.length, "line") + (loaded.from ? ` of the last ${bytes(loaded.whole - loaded.from)}` : "") + (found.length === 1 ? " contains it" : " contain it") + (found.length > FOUND ? `; the first ${FOUND} are shown` : "")
      : loaded.from ? `the last ${bytes(loaded.whole - loaded.from)} of ${bytes(loaded.whole)}` : loaded.whole ? bytes(loaded.whole) : "It is empty.");
    earlier.hidden = loaded.from === 0;
    if (!found) shown.scrollTop = shown.scrollHeight;
  }

  // Reads the end of the log, and looks through the rest for what is sought.
  const begin = () => load(null).then(() => (sought ? seek() : null));

  begin();
  return { more, content: h("div", null,
    h("div", { class: "filters" },
      h("label", null, h("span", null, "Log"), h("select", { change: (event) => {
        name = event.target.value;
        remember({ log: name });
        loaded = NOTHING;
        begin();
      } }, names.map((one) => h("option", { value: one, selected: one === name }, one)))),
      searchForm("Search the log", sought, (value) => {
        sought = value;
        remember({ log_q: sought || null });
        seek();
      })),
    earlier, shown, about) };
}
