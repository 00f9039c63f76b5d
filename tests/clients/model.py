"""A scripted model on loopback: OpenAI chat completions and responses, Anthropic messages, streaming.

A user's message `RUN: COMMAND` is answered by a call of the client's shell tool with COMMAND, everything
else by `noted`. `requests` has the texts of each request that a conversation's turn made.
"""
import http.server
import json
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


def shell_tool(tools):
    """The name of the shell tool and its required arguments."""
    for tool in tools:
        tool = tool.get("function", tool)
        if str(tool.get("name")).lower() in ("bash", "exec_command"):
            schema = tool.get("parameters") or tool.get("input_schema") or {}
            return tool["name"], schema.get("required", [])
    return None


class Model:
    def __init__(self):
        self.requests = []  # (time, [text of each message but the model's own])
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
                command = model.command_for(body)
                tool = shell_tool(body.get("tools") or [])
                reply = anthropic_reply if anthropic else responses_reply if responses else openai_reply
                events = reply(tool, command if tool else None)
                if body.get("stream"):
                    return self.answer("".join(events).encode(), "text/event-stream")
                text = {"content": [{"type": "text", "text": "ok"}]} if anthropic else {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
                text.update(id="x", model="fake", role="assistant", type="message", stop_reason="end_turn", usage={"input_tokens": 1, "output_tokens": 1, "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
                self.answer(json.dumps(text).encode(), "application/json")

            def answer(self, body, kind):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def command_for(self, body):
        """Notes a request of a conversation's turn; returns what its shell is to run."""
        if not body.get("tools"):
            return None
        messages = [m for m in body.get("messages", []) if m.get("role") not in ("system", "developer")]
        heard = [text for m in messages if m["role"] != "assistant" for text in texts_of(m.get("content"))]
        self.requests.append((time.time(), heard))
        last = messages[-1] if messages else {}
        if last.get("role") != "user":
            return None
        # A tool's result is a user's message too, for some.
        for text in texts_of([p for p in last["content"] if not isinstance(p, dict) or p.get("type") == "text"] if isinstance(last["content"], list) else last["content"]):
            if text.startswith("RUN: "):
                return text[5:].strip()
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
        elif kind.endswith("_output"):
            yield {"role": "tool", "content": item["output"]}


def arguments(tool, command):
    name = "cmd" if tool[0] == "exec_command" else "command"
    return json.dumps({name: "run it" for name in tool[1]} | {name: command})


def responses_reply(tool, command):
    n = time.time_ns()
    if command is None:
        text = {"type": "output_text", "text": "noted", "annotations": []}
        item = {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed", "content": [text]}
    else:
        item = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": tool[0], "arguments": arguments(tool, command), "status": "completed"}
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
    response = {"id": f"resp_{n}", "object": "response", "created_at": 1, "model": "fake-1", "status": "completed", "output": [item], "usage": usage}
    for event in (
        {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ):
        yield data(event, event["type"])


def openai_reply(tool, command):
    def chunk(delta, reason=None):
        return data({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    if command is None:
        yield chunk({"role": "assistant", "content": "noted"})
        yield chunk({}, "stop")
    else:
        call = {"index": 0, "id": f"call_{time.time_ns()}", "type": "function", "function": {"name": tool[0], "arguments": arguments(tool, command)}}
        yield chunk({"role": "assistant", "tool_calls": [call]})
        yield chunk({}, "tool_calls")
    yield "data: [DONE]\n\n"


def anthropic_reply(tool, command):
    usage = {"input_tokens": 10, "output_tokens": 10}
    message = {"id": f"msg_{time.time_ns()}", "type": "message", "role": "assistant", "model": "fake", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield data({"type": "message_start", "message": message}, "message_start")
    if command is None:
        block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": "noted"}, "end_turn"
    else:
        block = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": tool[0], "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": arguments(tool, command)}, "tool_use"
    yield data({"type": "content_block_start", "index": 0, "content_block": block}, "content_block_start")
    yield data({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")
    yield data({"type": "content_block_stop", "index": 0}, "content_block_stop")
    yield data({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}, "message_delta")
    yield data({"type": "message_stop"}, "message_stop")
