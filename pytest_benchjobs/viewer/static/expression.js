// The expression of a search: words, and fields such as `agent:codex`, `tag:"two words"` or `score<0.5`.

// Numbers by which rows are chosen -> the value of a row.
export const NUMBERS = {
  score: (row) => row.mean_score, cost: (row) => row.cost_usd, time: (row) => row.seconds, tokens: (row) => row.total_tokens,
  calls: (row) => row.calls, trials: (row) => row.trials, passed: (row) => row.passed, failed: (row) => row.failed, errors: (row) => row.error,
};
const COMPARED = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b,
};

// Its words, pairs of a field and what it contains, and triples of a number, a sign and a limit. An error says what is wrong.
export function parsed(text, fields, numbers = Object.keys(NUMBERS)) {
  const found = { words: [], having: [], limits: [] };
  for (const part of text.match(/(?:[^\s"]|"[^"]*"?)+/g) || []) {
    const plain = part.replaceAll('"', "");
    const [, name, sign, value] = plain.match(/^(\w+)(:|<=|>=|<|>|=)(.*)$/) || [];
    if (sign === ":" && fields.includes(name)) {
      if (!value) throw new Error(`Write what ${name} contains: ${name}:TEXT`);
      found.having.push([name, value.toLowerCase()]);
    } else if (sign && (sign !== ":" || numbers.includes(name))) {
      if (fields.includes(name)) throw new Error(`${part}: ${name} is a text; write ${name}:TEXT`);
      if (!numbers.includes(name)) throw new Error(`${part}: ${name} is not compared with a number; these are: ${numbers.join(", ")}`);
      if (!COMPARED[sign] || !value.trim() || !Number.isFinite(Number(value))) throw new Error(`${part}: ${name} needs one of ${Object.keys(COMPARED).join(" ")} and a number, as in ${name}<0.5`);
      found.limits.push([name, sign, Number(value)]);
    } else if (/^[<>=]+[\d.]*$/.test(plain)) {
      throw new Error(`${part}: write name, sign and number without blanks, as in score<0.5`);
    } else if (plain) found.words.push(plain);
  }
  return found;
}

// Whether a value keeps a limit; one that is unknown keeps none.
export function keeps(value, sign, limit) {
  return typeof value === "number" && COMPARED[sign](value, limit);
}
