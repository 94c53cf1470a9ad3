// Two trajectories side by side, step by step.

// Rows of two lists of steps, with how the two of each row differ, and a count of each kind.
export function aligned(a, b) {
  const rows = [];
  const counts = { identical: 0, different: 0, tool_mismatch: 0, only_a: 0, only_b: 0 };
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const kind = kindOf(a[at], b[at]);
    counts[kind] += 1;
    rows.push({ kind, a: a[at] || null, b: b[at] || null });
  }
  return { counts, rows };
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
  return JSON.stringify([step.message ?? null, step.reasoning_content ?? null, calls, results]);
}
