"""A scripted endpoint of Chat Completions, for tests that need an answer and no agent."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Completions(BaseHTTPRequestHandler):
    """Base of handlers: `asked` is given each call, and replies with `answer`."""

    def asked(self, body: dict[str, Any]) -> None:
        """Reply to a call."""
        raise NotImplementedError

    def do_POST(self) -> None:
        """Read a call."""
        self.asked(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, model: str, text: str, finish: str = "stop") -> None:
        """Reply with a message of the assistant, for 7 tokens in and 3 out."""
        message = {"role": "assistant", "content": text}
        reply = {
            "object": "chat.completion",
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(handler: type[Completions]) -> Iterator[str]:
    """Serve a scripted endpoint, whose base URL this is."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
