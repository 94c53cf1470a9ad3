// Shows the page that the address asks for, and follows its links without loading anew.

import { api } from "./api.js";
import { fill, h, kept, say } from "./dom.js";
import { jobPage } from "./page_job.js";
import { jobsPage, runsPage } from "./page_jobs.js";
import { comparePage } from "./page_compare.js";
import { livePage } from "./page_live.js";
import { scenarioPage } from "./page_scenario.js";
import { stepsPage } from "./page_steps.js";
import { trendPage } from "./page_trend.js";
import { trialPage } from "./page_trial.js";
import { when } from "./parts.js";
import { current, go, link } from "./state.js";

const PAGES = { jobs: jobsPage, runs: runsPage, job: jobPage, trial: trialPage, compare: comparePage, steps: stepsPage, scenario: scenarioPage, trend: trendPage, live: livePage };
const NAV = [["jobs", "Jobs"], ["runs", "Runs"], ["compare", "Compare"], ["trend", "Trend"]];

const USUAL = { page: "jobs" };
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

let leave = null;
let turn = 0;
let shown = new URLSearchParams();

// Draws the page of the address. A page that is slower than the next one is dropped. `back` is where a reader was who returns.
async function draw(first, back = null) {
  const mine = (turn += 1);
  if (leave) leave();
  leave = null;
  const now = current();
  const name = now.get("page") || USUAL.page;
  const main = document.getElementById("main");
  fill(document.getElementById("nav"), kept("nav", name, () => h("ul", null, NAV.map(([page, title]) =>
    h("li", null, h("a", { href: link(page), "aria-current": page === name ? "page" : null }, title))))));
  main.setAttribute("aria-busy", "true");
  let page;
  try {
    if (!Object.hasOwn(PAGES, name)) throw new Error(`There is no page ${name}.`);
    page = await PAGES[name]();
  } catch (error) {
    page = { title: "Not shown", content: [h("h1", null, "This page cannot be shown"), h("p", { class: "error", role: "alert" }, error.message), h("p", null, h("a", { href: link("jobs") }, "To the jobs"))] };
  }
  if (mine !== turn) {
    if (page.leave) page.leave();
    return;
  }
  leave = page.leave || null;
  const focused = focusIn(main);
  fill(main, page.content);
  main.removeAttribute("aria-busy");
  document.title = `${page.title} · benchjobs`;
  document.documentElement.dataset.ready = name;
  fill(document.getElementById("foot"), `Times are those of ${ZONE}`);
  const before = shown;
  shown = now;
  if (first === true) return;
  if (back) {
    const left = back.link && [...main.querySelectorAll("a[href]")].find((one) => one.getAttribute("href") === back.link);
    (left || main).focus({ preventScroll: true });
    window.scrollTo(0, back.scroll);
    say(page.title);
  } else if (isSame(before, now)) {
    const found = focused && main.querySelector(focused);
    if (found) found.focus({ preventScroll: true });
    const counted = main.querySelector(".pager");
    if (counted && counted.firstChild && ["sort", "order"].every((one) => before.get(one) === now.get(one))) say(counted.firstChild.textContent);
  } else {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
    say(page.title);
  }
}

// Whether an address has the same page, in another order or with other filters: readers stay where they are.
function isSame(before, now) {
  return ["page", "job", "id", "scenario", "after"].every((name) => (before.get(name) || USUAL[name]) === (now.get(name) || USUAL[name]));
}

// A selector of the field or the head of a column that has the focus, which the page may be about to make anew.
function focusIn(main) {
  const active = document.activeElement;
  if (!active || !main.contains(active)) return null;
  if (active.name) return `[name="${CSS.escape(active.name)}"]`;
  const head = active.closest('[role="columnheader"]');
  const grid = head && head.closest('[role="grid"]');
  return head ? `[role="grid"][aria-label="${CSS.escape(grid.getAttribute("aria-label"))}"] [role="columnheader"][data-column="${head.dataset.column}"] button` : null;
}

// Links of this viewer are followed here; others, and those opened elsewhere, by the browser.
function follow(event) {
  const anchor = event.target.closest && event.target.closest("a[href]");
  if (!anchor || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || anchor.dataset.outside) return;
  const address = anchor.getAttribute("href");
  if (!address.startsWith("?") && !address.startsWith("#?")) return;
  event.preventDefault();
  go(address);
}

// The key / goes to the first search field.
function shortcut(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const field = document.querySelector('main input[type="search"]');
  if (!field) return;
  event.preventDefault();
  field.focus();
}

async function place() {
  try {
    const meta = await api.meta();
    fill(document.getElementById("place"), meta.live === false && meta.generated_at ? ["report of ", when(meta.generated_at, true)] : meta.directory);
    if (meta.cut && meta.cut.length) {
      document.getElementById("main").before(h("details", { class: "note" }, h("summary", null, "Parts are left out of this report"), h("ul", null, meta.cut.map((line) => h("li", null, line)))));
    }
  } catch {
    // The page itself says what is wrong.
  }
}

// The state of a report is behind `#`, where a link to a part of the page would replace it.
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

document.querySelector(".skip").addEventListener("click", skip);
document.addEventListener("click", follow);
document.addEventListener("keydown", shortcut);
window.addEventListener("popstate", (event) => draw(false, event.state));
history.scrollRestoration = "manual";
window.addEventListener("benchjobs-page", () => draw(false));
place();
draw(true);
