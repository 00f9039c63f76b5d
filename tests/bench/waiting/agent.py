"""A scripted agent and its scripted model. The model answers by rules, over HTTP on loopback; the agent really sends
the whole conversation with each request, and really runs the commands that the model asks for."""
import http.client
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients"))
from model import Model  # noqa: E402

# Far longer than any answer or message takes: reaching it is a failure.
DEADLINE = 120

# How long a provider keeps the beginning of a conversation after a request, in seconds, and what a token costs
# that is read from there, or written there, in tokens without a cache.
CACHE_LIFE, CACHE_READ, CACHE_WRITE = 300, 0.1, 1.25

SHELL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a command with bash and returns what it printed, and its exit code if that is not 0.",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "the command"},
                "description": {"type": "string", "description": "what it is for, in one line"},
            },
            "required": ["command", "description"],
        },
    },
}

FILLER = "Instructions of the client, descriptions of its tools, and what was said and read so far. "


def tokens_of(body):
    """The input tokens of a request: a quarter of the characters of its texts."""
    n = len(json.dumps(body["tools"]))
    for message in body["messages"]:
        n += len(message.get("content") or "")
        for call in message.get("tool_calls") or []:
            n += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return math.ceil(n / 4)


class RuleModel(Model):
    """Answers each request by the rule of its conversation: a function of the messages that returns a command and
    what it is for, or None where the turn ends."""

    def __init__(self, reply):
        """`reply` is how long an answer takes, in seconds."""
        super().__init__()
        # Without this, an answer waits for a delayed acknowledgement, and connections for a place in the queue.
        self.server.RequestHandlerClass.disable_nagle_algorithm = True
        self.server.socket.listen(256)
        self.reply = reply
        self.rules = {}
        self.arrivals = {}  # of each conversation: [(time, input tokens)]

    def call(self, body):
        at = time.time()
        conversation = body["user"]
        self.arrivals.setdefault(conversation, []).append((at, tokens_of(body)))
        time.sleep(self.reply)
        answer = self.rules[conversation](body["messages"])
        return answer and ("bash", {"command": answer[0], "description": answer[1]})


class Agent:
    """One conversation: its messages, and a connection to the model."""

    def __init__(self, model, name, rule, env, folder, limit, context, longest):
        """`limit` is how long a command may take, and `longest` the conversation, in seconds; `context` are the tokens
        before the first prompt."""
        self.model, self.name, self.env, self.folder, self.limit = model, name, env, folder, limit
        model.rules[name] = rule
        size = max(0, 4 * context - len(json.dumps([SHELL])))
        self.messages = [{"role": "system", "content": (FILLER * (size // len(FILLER) + 1))[:size]}]
        self.connection = http.client.HTTPConnection("127.0.0.1", model.server.server_port, timeout=DEADLINE)
        self.deadline = time.monotonic() + longest
        self.lock = threading.Lock()
        self.child, self.is_closed = None, False

    def turn(self, prompt):
        """Gives the model a prompt, and runs commands until it ends its turn."""
        self.messages.append({"role": "user", "content": prompt})
        while calls := self.ask():
            for call in calls:
                result = self.bash(json.loads(call["function"]["arguments"])["command"])
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            if time.monotonic() > self.deadline:
                raise RuntimeError(f"`{self.name}` does not hear of the job's end; its last command said:\n{result}")

    def ask(self):
        """Sends the conversation to the model; returns the tools that it calls."""
        body = {"model": "rules", "user": self.name, "stream": True, "tools": [SHELL], "messages": self.messages}
        self.connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        message = {"role": "assistant", "content": ""}
        for line in self.connection.getresponse().read().decode().splitlines():
            if line.startswith("data: {"):
                delta = json.loads(line[6:])["choices"][0]["delta"]
                message["content"] += delta.get("content") or ""
                if "tool_calls" in delta:
                    message.setdefault("tool_calls", []).extend(delta["tool_calls"])
        self.messages.append(message)
        return message.get("tool_calls")

    def bash(self, command):
        with self.lock:
            if self.is_closed:
                raise RuntimeError("interrupted")
            process = self.child = subprocess.Popen(
                ["bash", "-c", command], env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
            )
        try:
            output, _ = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0] + "\nended by the time limit of the tool\n"
        return output + (f"exit code {process.returncode}\n" if process.returncode else "")

    def arrivals(self):
        return self.model.arrivals[self.name]

    def close(self):
        """Ends the command that still runs if the script is interrupted, and lets no other one begin."""
        with self.lock:
            self.is_closed = True
            if self.child and self.child.poll() is None:
                os.killpg(self.child.pid, signal.SIGKILL)
        self.connection.close()


class Messages:
    """The messages for an owner, as a harness of one's own reads them."""

    def __init__(self, owner, env, folder, longest):
        """`longest` is how long a message may take, in seconds."""
        words = ["tmux-task", "feed", "--follow", "--consumer", owner, "--from", "now", "--owner", owner, "--kind", "followUp"]
        self.process = subprocess.Popen(
            words, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        self.watchdog = threading.Timer(longest, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()

    def until(self, kind):
        for line in self.process.stdout:
            record = json.loads(line)
            if record["kind"] == kind:
                return record
        raise RuntimeError(f"the feed of tmux-task ended before a record `{kind}`")

    def next(self):
        record = self.until("followUp")
        self.process.stdin.write(json.dumps({"ack": record["seq"]}) + "\n")
        return record["message"]["content"]

    def close(self):
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()


def with_cache(arrivals, speed):
    """The input tokens of a conversation's requests, weighted as a provider with a cache charges them. What the request
    before had sent is read from the cache if that is not longer ago than the cache lives."""
    total, before, at_before = 0.0, 0, -math.inf
    for at, tokens in arrivals:
        read = before if (at - at_before) * speed <= CACHE_LIFE else 0
        total += CACHE_READ * read + CACHE_WRITE * (tokens - read)
        before, at_before = tokens, at
    return round(total)
