"""A scripted model on loopback: OpenAI chat completions and responses, Anthropic messages, streaming.

A user's message `RUN: COMMAND` is answered by a call of the client's shell tool with COMMAND, with
` THEN: COMMAND` by one more in the same turn, `CALL: TOOL ARGUMENTS` by a call of the tool whose name ends
with TOOL with these arguments (JSON), each such line once; everything else by `noted`. `requests` has the texts of each request that a conversation's turn made.
While `answers` is cleared, it notes requests and does not answer.
"""
import http.server
import json
import re
import threading
import time


def texts_of(content):
    """The texts of a message's content, whatever its form."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if isinstance(content, dict):
        return texts_of(content.get("text") or content.get("content"))
    return [text for part in content for text in texts_of(part)]


def call_for(prompt, tools):
    """The name of the tool to call and its arguments."""
    tools = [tool.get("function", tool) for tool in tools]
    if prompt.startswith("CALL: "):
        _, name, arguments = prompt.split(" ", 2)
        for tool in tools:
            if str(tool.get("name")).endswith(name):
                return tool["name"], json.JSONDecoder().raw_decode(arguments)[0]
    for tool in tools:
        if prompt.startswith("RUN: ") and str(tool.get("name")).lower() in ("bash", "exec_command", "shell", "run_shell_command"):
            schema = tool.get("parameters") or tool.get("input_schema") or {}
            name = "cmd" if tool["name"] == "exec_command" else "command"
            properties = schema.get("properties", {})
            needed = {name: False if properties.get(name, {}).get("type") == "boolean" else "run it" for name in schema.get("required", [])}
            return tool["name"], needed | {name: prompt[5:].strip()}
    return None


class Model:
    def __init__(self):
        self.requests = []  # (time, [text of each message but the model's own])
        self.done = set()
        self.answers = threading.Event()
        self.answers.set()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_HEAD(self):
                self.answer(b"", "text/plain")

            def do_GET(self):
                self.answer(b"{}", "application/json")

            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                if self.path.endswith("/count_tokens"):
                    return self.answer(b'{"input_tokens": 10}', "application/json")
                anthropic, responses = "/messages" in self.path, self.path.endswith("/responses")
                if responses:
                    body["messages"] = list(messages_of(body.get("input") or []))
                call = model.call(body)
                if body.get("tools"):
                    model.answers.wait()
                reply = anthropic_reply if anthropic else responses_reply if responses else openai_reply
                events = reply(call)
                if body.get("stream"):
                    return self.answer("".join(events).encode(), "text/event-stream")
                text = {"content": [{"type": "text", "text": "ok"}]} if anthropic else {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
                text.update(id="x", model="fake", role="assistant", type="message", stop_reason="end_turn", usage={"input_tokens": 1, "output_tokens": 1, "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
                self.answer(json.dumps(text).encode(), "application/json")

            def answer(self, body, kind):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                try:
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    # The user interrupted the turn.
                    self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def call(self, body):
        """Notes a request of a conversation's turn; returns the tool to call."""
        if not body.get("tools"):
            return None
        messages = [m for m in body.get("messages", []) if m.get("role") not in ("system", "developer")]
        heard = [text for m in messages if m["role"] != "assistant" for text in texts_of(m.get("content"))]
        self.requests.append((time.time(), heard))
        # A prompt that is given during a turn comes with other messages, and some put words around it.
        for m in reversed(messages):
            content = m.get("content")
            if isinstance(content, list):
                # A tool's result is a user's message too, for some.
                content = [part for part in content if not isinstance(part, dict) or part.get("type") == "text"]
            for text in texts_of(content) if m["role"] == "user" else []:
                found = re.search(r"^(RUN|CALL): .*$", text, re.MULTILINE)
                if not found:
                    continue
                for n, step in enumerate(found[0].split(" THEN: ")):
                    if (found[0], n) not in self.done:
                        self.done.add((found[0], n))
                        return call_for(step if n == 0 else f"RUN: {step}", body["tools"])
                return None
        return None


def data(event, name=None):
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n"


def messages_of(items):
    """The items of a request for a response, as messages."""
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            yield {"role": item["role"], "content": "\n".join(texts_of(item["content"]))}
        elif kind.endswith("_call"):
            yield {"role": "assistant", "content": None}
        elif kind.endswith("_output"):
            yield {"role": "tool", "content": item["output"]}


def responses_reply(call):
    n = time.time_ns()
    if call is None:
        text = {"type": "output_text", "text": "noted", "annotations": []}
        item = {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed", "content": [text]}
    else:
        item = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": call[0], "arguments": json.dumps(call[1]), "status": "completed"}
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
    response = {"id": f"resp_{n}", "object": "response", "created_at": 1, "model": "fake-1", "status": "completed", "output": [item], "usage": usage}
    for event in (
        {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ):
        yield data(event, event["type"])


def openai_reply(call):
    def chunk(delta, reason=None):
        return data({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    if call is None:
        yield chunk({"role": "assistant", "content": "noted"})
        yield chunk({}, "stop")
    else:
        part = {"index": 0, "id": f"call_{time.time_ns()}", "type": "function", "function": {"name": call[0], "arguments": json.dumps(call[1])}}
        yield chunk({"role": "assistant", "tool_calls": [part]})
        yield chunk({}, "tool_calls")
    yield "data: [DONE]\n\n"


def anthropic_reply(call):
    usage = {"input_tokens": 10, "output_tokens": 10}
    message = {"id": f"msg_{time.time_ns()}", "type": "message", "role": "assistant", "model": "fake", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield data({"type": "message_start", "message": message}, "message_start")
    if call is None:
        block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": "noted"}, "end_turn"
    else:
        block = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": call[0], "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}, "tool_use"
    yield data({"type": "content_block_start", "index": 0, "content_block": block}, "content_block_start")
    yield data({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")
    yield data({"type": "content_block_stop", "index": 0}, "content_block_stop")
    yield data({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}, "message_delta")
    yield data({"type": "message_stop"}, "message_stop")
