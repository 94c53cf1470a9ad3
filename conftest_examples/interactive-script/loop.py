"""A whole agent: a loop around a model, at any OpenAI-compatible endpoint. Usage: loop.py MODEL [BASE_URL]."""

import json
import sys

import pytest_benchjobs as benchjobs

SHELL = {"name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}
MODEL, URL = (*sys.argv[1:], None)[:2]

with benchjobs.start("words.bench.yaml", "count", agent="my-loop", model=MODEL, base_url=URL) as trial:
    messages = [{"role": "user", "content": trial.problem_statement}]
    for _ in range(20):
        answer = trial.chat(messages, tools=[{"type": "function", "function": SHELL}])
        messages.append(answer)
        if not answer.get("tool_calls"):
            break
        for call in answer["tool_calls"]:
            command = json.loads(call["function"]["arguments"])["command"]
            output = trial.exec(command).output
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    print(trial.score().score)
print(trial.result.usage.calls, "calls;", trial.files)
