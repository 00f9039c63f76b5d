#!/usr/bin/env python3
"""Runs one client against a scripted model and checks that it is woken: see tests/clients.sh.

To be started in a network namespace of its own: usage: run.py CLIENT PROGRAM CLIENTS_FOLDER
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from model import Model  # noqa: E402

# Far longer than anything takes: reaching it is a failure.
DEADLINE = 180

# How long to watch for a message that comes twice.
WATCH = 4

KEY = "a-key-that-opens-nothing-0000000000000000"


def until(what, is_true):
    end = time.monotonic() + DEADLINE
    while True:
        result = is_true()
        if result:
            return result
        if time.monotonic() > end:
            raise SystemExit(f"never came: {what}")
        time.sleep(0.05)


class Client:
    """A client in a home of its own, with the adapter installed by `tmux-task init`."""

    def __init__(self, program, clients):
        self.root = tempfile.mkdtemp(prefix="tt-clients-", dir="/tmp")
        self.clients = clients
        self.home, self.project = f"{self.root}/home", f"{self.root}/project"
        for folder in ("home", "project", "bin", "tmux", "run", "tmp"):
            os.mkdir(f"{self.root}/{folder}", 0o700)
        os.symlink(program, f"{self.root}/bin/tmux-task")
        node = f"{clients}/node/node_modules/node/bin"
        packages = [f"{clients}/{name}/node_modules/.bin" for name in ("claude", "codex", "opencode", "pi")]
        path = [f"{self.root}/bin", node, *packages, "/usr/local/bin", "/usr/bin", "/bin"]
        self.env = {
            "HOME": self.home, "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "xterm-256color", "PATH": ":".join(path),
            "TMPDIR": f"{self.root}/tmp", "TMUX_TMPDIR": f"{self.root}/tmux", "XDG_RUNTIME_DIR": f"{self.root}/run",
        }
        # bash -lc reads it, where the system's profile sets PATH.
        for name in (".bash_profile", ".profile", ".bashrc"):
            self.write(f"{self.home}/{name}", f'export PATH="{":".join(path)}"\n')
        self.model = Model()
        self.process = None
        subprocess.run(["git", "init", "-q", self.project], env=self.env, check=True)
        self.configure()

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    def task(self, *args):
        return subprocess.run(["tmux-task", *args], env=self.env, cwd=self.project, capture_output=True, text=True)

    def spawn(self, command):
        log = open(f"{self.root}/client.log", "ab")
        self.process = subprocess.Popen(command, env=self.env, cwd=self.project, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def say(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def crash(self):
        self.process.kill()
        self.process.wait()

    def new_conversation(self):
        """Begins another conversation in the same process, where that can be asked for."""

    def heard(self, text):
        """How often the conversation's last request has the text."""
        return len(re.findall(re.escape(text), "\n".join(self.model.requests[-1][1]))) if self.model.requests else 0

    def end(self):
        if self.process and self.process.poll() is None:
            self.crash()
        for args in (["daemon", "stop"], ["kill-all", "--yes"]):
            self.task(*args)
        subprocess.run(["tmux", "kill-server"], env=self.env, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)


def client_said(client, text):
    with open(f"{client.root}/client.log", encoding="utf-8", errors="replace") as log:
        return text in log.read()


class Pi(Client):
    name = "pi"

    def configure(self):
        agent = f"{self.home}/.pi/agent"
        provider = {"baseUrl": f"{self.model.url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [{"id": "fake-1"}]}
        self.write(f"{agent}/models.json", {"providers": {"fake": provider}})
        self.write(f"{agent}/settings.json", {"defaultProvider": "fake", "defaultModel": "fake-1", "enableInstallTelemetry": False})
        self.env.update(PI_OFFLINE="1", PI_TELEMETRY="0", PI_SKIP_VERSION_CHECK="1")
        self.cli = f"{self.clients}/pi/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"
        self.write(f"{self.root}/bin/pi", f'#!/bin/sh\nexec node "{self.cli}" "$@"\n')
        os.chmod(f"{self.root}/bin/pi", 0o755)

    def start(self, resume=False):
        self.spawn(["pi", "--mode", "rpc", "--provider", "fake", "--model", "fake-1", *(["--continue"] if resume else [])])

    def prompt(self, text):
        self.say({"type": "prompt", "message": text})

    def new_conversation(self):
        self.prompt("a turn that has just ended")
        until("the turn", lambda: client_said(self, '"agent_settled"') or client_said(self, '"agent_end"'))
        self.say({"type": "new_session"})
        until("the new conversation", lambda: client_said(self, '"command":"new_session"'))
        # Longer than anything that the adapter puts off.
        time.sleep(WATCH)
        if self.process.poll() is not None:
            raise SystemExit("Pi ended")


class Claude(Client):
    name = "claude"

    def configure(self):
        self.env.update(
            ANTHROPIC_BASE_URL=self.model.url, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1", DISABLE_TELEMETRY="1", DISABLE_ERROR_REPORTING="1", IS_SANDBOX="1",
        )
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        self.write(f"{self.home}/.claude.json", {
            "hasCompletedOnboarding": True, "bypassPermissionsModeAccepted": True, "projects": {self.project: trusted},
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        })
        self.write(f"{self.home}/.claude/settings.json", {"permissions": {"allow": ["Bash", "Bash(*)"]}})

    def start(self, resume=False):
        stream = ["--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
        self.spawn(["claude", "-p", *stream, "--model", "claude-sonnet-4-5", *(["--continue"] if resume else [])])
        if resume:
            time.sleep(1)

    def prompt(self, text):
        self.say({"type": "user", "message": {"role": "user", "content": text}})


class Codex(Client):
    name = "codex"

    def configure(self):
        self.write(f"{self.home}/.codex/config.toml", f"""
model = "fake-1"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "{self.model.url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
requires_openai_auth = false
supports_websockets = false
[projects."{self.project}"]
trust_level = "trusted"
""")
        self.env["FAKE_KEY"] = KEY

    def tui(self, *args):
        return subprocess.run(["tmux", "-L", "tui", *args], env=self.env, capture_output=True, text=True).stdout

    def start(self, resume=False):
        command = ["env", "-u", "TMUX", "-u", "TMUX_PANE", "codex", *(["resume", "--last"] if resume else [])]
        self.tui("new-session", "-d", "-s", "tui", "-x", "150", "-y", "45", "-c", self.project, *command)
        screen = lambda: self.tui("capture-pane", "-p", "-t", "tui")  # noqa: E731
        until("Codex is ready", lambda: "fake-1" in screen() and "›" in screen())
        # It takes no keys for a moment.
        time.sleep(2)

    def prompt(self, text):
        self.tui("send-keys", "-t", "tui", "-l", text)
        # Text that comes with an Enter is taken for pasted text.
        time.sleep(0.5)
        self.tui("send-keys", "-t", "tui", "Enter")

    def crash(self):
        os.kill(int(self.tui("list-panes", "-t", "tui", "-F", "#{pane_pid}")), signal.SIGKILL)
        self.tui("kill-server")

    def new_conversation(self):
        """A conversation of `codex exec`, which cannot be woken: its model is told so."""
        command = ["codex", "exec", "--skip-git-repo-check", "RUN: tmux-task run exec -- true"]
        subprocess.run(command, env=self.env, cwd=self.project, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
        if self.heard("`codex exec` takes no messages") != 1:
            raise SystemExit(f"the model of `codex exec` knows nothing: {self.model.requests[-1]}")


class Opencode(Client):
    name = "opencode"
    port = 4096

    def configure(self):
        config = f"{self.home}/.config/opencode"
        # opencode fetches this otherwise, and there is no network.
        shutil.copytree(f"{self.clients}/opencode-config", config, symlinks=True)
        model = {"name": "fake-1", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
        options = {"baseURL": f"{self.model.url}/v1", "apiKey": KEY}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": options, "models": {"fake-1": model}}
        self.write(f"{config}/opencode.json", {
            "model": "fake/fake-1", "small_model": "fake/fake-1", "autoupdate": False, "share": "disabled",
            "permission": {"*": "allow"}, "provider": {"fake": provider},
        })
        self.env.update(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_LSP_DOWNLOAD="1", OPENCODE_DISABLE_DEFAULT_PLUGINS="1")
        self.session = None

    def http(self, method, path, body=None, timeout=DEADLINE):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def start(self, resume=False):
        self.spawn(["opencode", "serve", "--port", str(self.port)])

        def is_up():
            try:
                return self.http("GET", "/session", timeout=5) is not None
            except OSError:
                return False

        until("opencode serves", is_up)
        self.session = self.session or self.http("POST", "/session", {})["id"]

    def prompt(self, text):
        self.http("POST", f"/session/{self.session}/prompt_async", {"parts": [{"type": "text", "text": text}]})


def check(client):
    made = client.task("init", client.name, "--write")
    if made.returncode:
        raise SystemExit(f"init failed: {made.stderr}")
    client.start()
    # While the client is idle.
    client.prompt("RUN: tmux-task run idle -- 'sleep 2; exit 3'")
    until("the model has heard of `idle`", lambda: client.heard("(idle) exited with code 3"))
    # The client is killed, and resumes the conversation.
    client.prompt("RUN: tmux-task run away -- 'sleep 4; exit 4'")
    until("the model has the task's window", lambda: client.heard("task=away"))
    time.sleep(0.5)
    client.crash()
    until("`away` ends", lambda: '"away"' in client.task("feed", "--kind", "followUp").stdout or client.task("ls").returncode or "exited" in [line for line in client.task("ls").stdout.splitlines() if "away" in line][0])
    client.start(resume=True)
    until("the model has heard of `away`", lambda: client.heard("(away) exited with code 4"))
    time.sleep(WATCH)
    for text in ("(idle) exited with code 3", "(away) exited with code 4"):
        if client.heard(text) != 1:
            raise SystemExit(f"told {client.heard(text)} times: {text}")
    client.new_conversation()
    client.task("init", client.name, "--remove")


def main():
    name, program, clients = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    client = {"pi": Pi, "claude": Claude, "codex": Codex, "opencode": Opencode}[name](program, clients)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        check(client)
    except SystemExit:
        if client.name == "codex":
            sys.stderr.write(client.tui("capture-pane", "-p", "-t", "tui"))
            raise
        with open(f"{client.root}/client.log", encoding="utf-8", errors="replace") as log:
            sys.stderr.write(log.read()[-2000:] + "\n")
        raise
    finally:
        client.end()


main()
