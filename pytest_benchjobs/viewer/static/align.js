// Two trajectories side by side, step by step.

// Rows of two lists of steps, with how the two of each row differ, and a count of each kind.
export function aligned(a, b) {
  const rows = [];
  const counts = { identical: 0, different: 0, tool_mismatch: 0, only_a: 0, only_b: 0 };
  // A system prompt that one of them lacks moves no step of the agents.
  const more = before(a) - before(b);
  const [skip_a, skip_b] = [Math.max(0, -more), Math.max(0, more)];
  for (let at = 0; at < Math.max(a.length + skip_a, b.length + skip_b); at += 1) {
    const [one, other] = [a[at - skip_a] || null, b[at - skip_b] || null];
    const kind = kindOf(one, other);
    counts[kind] += 1;
    rows.push({ kind, a: one, b: other });
  }
  return { counts, rows };
}

// The number of steps before the first one of the agent.
function before(steps) {
  const first = steps.findIndex((step) => step.source === "agent");
  return first < 0 ? steps.length : first;
}

function kindOf(a, b) {
  if (!b) return "only_a";
  if (!a) return "only_b";
  if (toolsOf(a) !== toolsOf(b)) return "tool_mismatch";
  return contentOf(a) === contentOf(b) ? "identical" : "different";
}

function toolsOf(step) {
  return JSON.stringify((step.tool_calls || []).map((call) => [call.function_name, Object.keys(call.arguments || {}).sort()]));
}

function contentOf(step) {
  const calls = (step.tool_calls || []).map((call) => [call.function_name, call.arguments]);
  const results = ((step.observation || {}).results || []).map((result) => result.content);
  return JSON.stringify([step.source, step.message ?? null, step.reasoning_content ?? null, calls, results]);
}
