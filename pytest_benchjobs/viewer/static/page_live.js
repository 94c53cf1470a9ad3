// Page of a running job, drawn anew at each event of the server.

import { api } from "./api.js";
import { fill, h, say, section, table } from "./dom.js";
import { count, duration, money, score, text } from "./format.js";
import { card, chip, jobLink, trialLink, when } from "./parts.js";
import { current, link } from "./state.js";

export async function livePage() {
  const { id: job, name } = (await api.job(current().get("job") || "last")).summary;
  const place = h("div", null, h("p", null, "Waiting for the first event"));
  const connection = h("p", { class: "pager", role: "status" });
  let shown = null;
  let newest = null;
  let came = 0;
  const tell = (text) => (connection.textContent === text ? null : fill(connection, text));
  // Times alone change often: they do not replace the elements, which may have the focus.
  const show = (state) => {
    tell("connected");
    stopped = false;
    newest = state;
    came = performance.now();
    const now = JSON.stringify({ ...state, at: null, elapsed: null, eta: null });
    if (now !== shown) {
      shown = now;
      const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const log = place.querySelector("pre");
      const from = log ? log.scrollTop : 0;
      fill(place, view(state));
      if (place.querySelector("pre")) place.querySelector("pre").scrollTop = from;
      const again = focused ? [...place.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused) : null;
      if (again) again.focus();
    }
    tick();
  };
  const tick = () => {
    const elapsed = place.querySelector(".elapsed");
    if (!newest || !elapsed) return;
    const since = ended || newest.died ? 0 : (performance.now() - came) / 1000;
    fill(elapsed, duration(newest.elapsed + since));
    fill(place.querySelector(".eta"), newest.eta === null ? "not known yet" : newest.eta - since < 1 ? "soon" : "about " + duration(newest.eta - since));
  };
  let ended = false;
  let stopped = false;
  const clock = setInterval(tick, 1000);
  const events = api.live(job, {
    state: show,
    end: (state) => {
      ended = true;
      if (state) show(state);
      fill(connection, state && state.died ? "The job's process died. " : "The job has ended. ", h("a", { href: link("job", { job }) }, "See its results"));
      say("The job has ended");
    },
    stop: () => {
      stopped = true;
    },
    lost: () => tell(stopped ? "The server has stopped; trying again" : "No connection; trying again"),
    refused: (why) => tell(`No longer followed: ${why}`),
  });
  if (!events) fill(place, h("p", { class: "nothing" }, "A report of a file does not change. ", h("a", { href: link("job", { job }) }, "See the job")));
  return { title: `Live: ${name || job}`, leave: () => {
    clearInterval(clock);
    if (events) events.close();
  }, content: [h("h1", null, "Live: ", jobLink(job, name)), connection, place] };
}

function view(state) {
  const { totals } = state;
  const done = totals.planned ? h("progress", { max: totals.planned, value: totals.done, "aria-label": "Trials that have ended" }) : null;
  return [
    h("p", { class: "lead" }, chip(state.status), state.died ? [" ", chip("died")] : null, state.message ? " " + state.message : null, " ", done, ` ${count(totals.done)} of ${count(totals.planned)} trials`),
    h("div", { class: "cards" }, card("Passed", count(totals.passed)), card("Failed", count(totals.failed)), card("Errors", count(totals.error)), card("Mean score", score(totals.mean_score)),
      card("Cost", money(totals.cost_usd)), card("Running", count(state.died ? 0 : state.in_flight.length), `at most ${count(state.concurrency)}`), card("Elapsed", h("span", { class: "elapsed" })), card("Time left", h("span", { class: "eta" }))),
    state.quotas.length ? section("Used-up quotas", table("Used-up quotas", Object.keys(state.quotas[0]), state.quotas.map((quota) => Object.values(quota).map((value) => text(value))))) : null,
    section("Agents", table("Agents", ["Agent", { title: "Done", number: true }, { title: "Passed", number: true }, { title: "Failed", number: true }, { title: "Errors", number: true }, { title: "Mean score", number: true }, { title: "Cost", number: true, extra: true }],
      state.agents.map((agent) => [agent.agent, typeof agent.planned === "number" ? `${count(agent.done)} / ${count(agent.planned)}` : count(agent.done), count(agent.passed), count(agent.failed), count(agent.error), score(agent.mean_score), money(agent.cost_usd)]))),
    section(state.died ? "Ran when the job died" : "Running now", state.in_flight.length ? table("Running trials", ["Trial", "Agent", { title: "Attempt", number: true, extra: true }, "Phase", { title: "Since", whole: true }, { title: "Started", whole: true, extra: true }],
      state.in_flight.map((trial) => [trialLink(state.id, trial.node_id, trial.scenario), trial.agent, count(trial.attempt), trial.phase, when(trial.phase_since), when(trial.started_at)])) : h("p", { class: "nothing" }, "nothing")),
    state.lately.length ? section("Ended last", table("Trials that ended last", ["Trial", "Agent", { title: "Attempt", number: true, extra: true }, "Outcome", { title: "Score", number: true }, { title: "Time", number: true }],
      [...state.lately].reverse().map((trial) => [trialLink(state.id, trial.node_id, trial.scenario), trial.agent, count(trial.attempt), [chip(trial.outcome), trial.reused ? " reused" : null], score(trial.score), duration(trial.seconds)]))) : null,
    state.log.length ? section("Output of pytest", h("pre", { class: "text", tabindex: "0", "aria-label": "Output of pytest" }, state.log.join("\n"))) : null];
}
