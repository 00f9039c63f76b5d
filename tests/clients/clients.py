"""The real clients, each in a home of its own, with a scripted model: see tests/clients.sh."""
import contextlib
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


def until(what, is_true, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while True:
        result = is_true()
        if result:
            return result
        if time.monotonic() > end:
            raise SystemExit(f"never came: {what}")
        time.sleep(0.05)


class World:
    """Folders, an environment and a model of their own, for one client or several."""

    def __init__(self, program, clients):
        self.root = tempfile.mkdtemp(prefix="tt-clients-", dir="/tmp")
        self.clients = clients
        self.home, self.project = f"{self.root}/home", f"{self.root}/project"
        for folder in ("home", "project", "bin", "tmux", "run", "tmp"):
            os.mkdir(f"{self.root}/{folder}", 0o700)
        self.program = program
        os.symlink(program, f"{self.root}/bin/tmux-task")
        node = f"{clients}/node/node_modules/node/bin"
        packages = [f"{clients}/{name}/node_modules/.bin" for name in ("claude", "codex", "opencode", "pi", "copilot", "qwen")]
        path = [f"{self.root}/bin", node, *packages, "/usr/local/bin", "/usr/bin", "/bin"]
        self.env = {
            "HOME": self.home, "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "xterm-256color", "PATH": ":".join(path),
            "TMPDIR": f"{self.root}/tmp", "TMUX_TMPDIR": f"{self.root}/tmux", "XDG_RUNTIME_DIR": f"{self.root}/run",
        }
        # bash -lc reads it, where the system's profile sets PATH.
        for name in (".bash_profile", ".profile", ".bashrc"):
            self.write(f"{self.home}/{name}", f'export PATH="{":".join(path)}"\n')
        self.model = Model()
        self.conversations = []
        subprocess.run(["git", "init", "-q", self.project], env=self.env, check=True)

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    def task(self, *args, session=None):
        env = self.env | ({"TMUX_TASK_SESSION": session} if session else {})
        return subprocess.run(["tmux-task", *args], env=env, cwd=self.project, capture_output=True, text=True)

    def install(self, *kinds):
        """Installs the adapters of these clients."""
        for kind in kinds:
            # A client's command may be a part of it.
            kind(self)
            made = self.task("init", kind.name, "--write")
            if made.returncode:
                raise SystemExit(f"init failed: {made.stderr}")

    @contextlib.contextmanager
    def lost_receipts(self):
        """Adapters that are started meanwhile get nothing of what their client says."""
        link = f"{self.root}/bin/tmux-task"
        os.unlink(link)
        self.write(link, f'#!/bin/sh\ncase " $* " in *" agent "*) sleep 1000 | {self.program} "$@";; *) exec {self.program} "$@";; esac\n')
        os.chmod(link, 0o755)
        yield
        os.unlink(link)
        os.symlink(self.program, link)

    def show(self):
        """Writes what the clients wrote last to standard error."""
        for client in self.conversations:
            sys.stderr.write(f"--- {client.name} {client.mark}\n{client.last_words()}\n")

    def end(self):
        for client in self.conversations:
            client.end()
        sessions = subprocess.run(["tmux", "list-sessions", "-F", "#{session_name}"], env=self.env, capture_output=True, text=True)
        for session in sessions.stdout.split():
            self.task("daemon", "stop", session=session)
        subprocess.run(["tmux", "kill-server"], env=self.env, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)


class Client:
    """A client with one conversation. Its requests are those that have `mark`."""

    # When it can get a message while it works.
    delivers = ("after-turn", "next-step")

    # How it is run for one prompt, which is the last word.
    once = ()

    def __init__(self, world, mark="one"):
        self.world, self.mark = world, mark
        self.root, self.home, self.project = world.root, world.home, world.project
        self.clients, self.model, self.write = world.clients, world.model, world.write
        self.env = dict(world.env)
        self.process = None
        self.n_asked = 0
        self.log = f"{self.root}/{self.name}-{len(world.conversations)}.log"
        is_first = all(other.name != self.name for other in world.conversations)
        self.set_environment()
        if is_first:
            self.configure()
            # Its commands need some of it.
            world.env.update(self.env)
        world.conversations.append(self)

    def set_environment(self):
        """Sets what the client's processes need."""

    def spawn(self, command):
        log = open(self.log, "ab")
        self.process = subprocess.Popen(command, env=self.env, cwd=self.project, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def say(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def run(self, command):
        """Lets the model run a command in its shell."""
        self.ask(f"RUN: {command}")

    def call(self, tool, arguments):
        """Lets the model call a tool of the MCP server."""
        self.ask(f"CALL: {tool} {json.dumps(arguments)}")

    def ask(self, what):
        # The number makes the line another one each time.
        self.n_asked += 1
        self.prompt(f"{what} # {self.mark} {self.n_asked}")

    def ask_once(self, what, *more):
        """Runs the client for one prompt, after which it ends."""
        command = [*self.once, *more, what]
        subprocess.run(command, env=self.env, cwd=self.project, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)

    def crash(self):
        self.process.kill()
        self.process.wait()

    def quit(self):
        self.process.stdin.close()
        self.process.wait(DEADLINE)

    def task_session(self):
        """The task session; None for that of the project."""

    def check(self, world):
        """What else holds of this client, after the six scenarios."""

    def last_request(self):
        """The texts of the conversation's last request."""
        requests = (texts for _, texts in reversed(self.model.requests))
        return next((texts for texts in requests if any(f"# {self.mark} " in text for text in texts)), [])

    def n_requests(self):
        return sum(any(f"# {self.mark} " in text for text in texts) for _, texts in self.model.requests)

    def heard(self, text):
        """How often the conversation's last request has the text."""
        return "\n".join(self.last_request()).count(text)

    def last_words(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                return log.read()[-1000:]
        except OSError:
            return ""

    def end(self):
        if self.process and self.process.poll() is None:
            self.crash()


def client_said(client, text):
    with open(client.log, encoding="utf-8", errors="replace") as log:
        return text in log.read()


def check_withheld(client, world, names):
    """A task belongs to the session and does not have its variables."""
    client.run("tmux-task run seen -- 'env; sleep 1000'")
    until("the model has the window of `seen`", lambda: client.heard("task=seen") or client.heard(" (seen) in "))
    task = next(one for one in json.loads(world.task("ls", "--json").stdout)["tasks"] if one["windowName"] == "seen")
    seen = until("its environment", lambda: world.task("logs", "seen").stdout)
    for name in names:
        if f"\n{name}=" in seen:
            raise SystemExit(f"the task has {name}")
    print(f"a task's owner: {task['owner']}")


class Terminal(Client):
    """A client with a terminal interface, in a tmux of its own."""

    def set_environment(self):
        self.tab = f"tui{len(self.world.conversations)}"

    def tui(self, *args):
        return subprocess.run(["tmux", "-L", "tui", *args], env=self.env, capture_output=True, text=True).stdout

    def screen(self):
        return self.tui("capture-pane", "-p", "-t", self.tab)

    def start(self, resume=False):
        command = ["env", "-u", "TMUX", "-u", "TMUX_PANE", *self.command(resume)]
        # A server that is there already has the environment of the client that started it.
        env = [word for name, value in self.env.items() for word in ("-e", f"{name}={value}")]
        self.tui("new-session", "-d", "-s", self.tab, "-x", "150", "-y", "45", "-c", self.project, *env, *command)
        until(f"{self.name} is ready", lambda: self.is_ready(self.screen()))
        # It takes no keys for a moment.
        time.sleep(2)

    def prompt(self, text):
        self.tui("send-keys", "-t", self.tab, "-l", text)
        # Text that comes with an Enter is taken for pasted text.
        time.sleep(0.5)
        self.tui("send-keys", "-t", self.tab, "Enter")

    def crash(self):
        os.kill(int(self.tui("list-panes", "-t", self.tab, "-F", "#{pane_pid}")), signal.SIGKILL)
        self.tui("kill-session", "-t", self.tab)

    def last_words(self):
        return self.screen()

    def end(self):
        self.tui("kill-server")


# The names of Pi's conversation, one after the other.
TITLES = ("Fix the build", "-x 'one'; $(two);")


class Pi(Client):
    name = "pi"
    once = ("pi", "-p", "--provider", "fake", "--model", "fake-1")

    def set_environment(self):
        self.env.update(PI_OFFLINE="1", PI_TELEMETRY="0", PI_SKIP_VERSION_CHECK="1")

    def configure(self):
        agent = f"{self.home}/.pi/agent"
        provider = {"baseUrl": f"{self.model.url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [{"id": "fake-1"}]}
        self.write(f"{agent}/models.json", {"providers": {"fake": provider}})
        self.write(f"{agent}/settings.json", {"defaultProvider": "fake", "defaultModel": "fake-1", "enableInstallTelemetry": False})
        cli = f"{self.clients}/pi/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"
        self.write(f"{self.root}/bin/pi", f'#!/bin/sh\nexec node "{cli}" "$@"\n')
        os.chmod(f"{self.root}/bin/pi", 0o755)

    def start(self, resume=False):
        self.spawn(["pi", "--mode", "rpc", "--provider", "fake", "--model", "fake-1", *(["--continue"] if resume else ["--name", TITLES[0]])])

    def prompt(self, text):
        # During a turn, it is queued.
        self.say({"type": "prompt", "message": text, "streamingBehavior": "followUp"})

    def dialogs(self):
        """The dialogs that the extension has opened so far, and its notifications."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            lines = [line for line in log if line.startswith("{") and line.endswith("}\n") and "extension_ui_request" in line]
        requests = [json.loads(line) for line in lines]
        return [one for one in requests if one["method"] in ("select", "confirm", "input", "editor")], [one.get("message", "") for one in requests if one["method"] == "notify"]

    def answer(self, method, **response):
        """Answers the next dialog, which must be of this method; a function gets its options."""
        self.n_answered += 1
        dialog = until(f"dialog {self.n_answered}", lambda: self.dialogs()[0][self.n_answered - 1:])[0]
        if dialog["method"] != method:
            raise SystemExit(f"{method} was expected: {dialog}")
        values = {key: value(dialog["options"]) if callable(value) else value for key, value in response.items()}
        self.say({"type": "extension_ui_response", "id": dialog["id"], **values})
        return dialog

    def notified(self, text):
        until(f"the notification `{text}`", lambda: any(text in one for one in self.dialogs()[1]))

    def sessions(self):
        """The names of Pi's task sessions, each with its title."""
        command = ["tmux", "list-sessions", "-F", "#{session_name} #{@tmux_task_title}"]
        shown = subprocess.run(command, env=self.world.env, capture_output=True, text=True).stdout
        return [line.split(" ", 1) for line in shown.splitlines() if line.startswith("pi-")]

    def task_session(self):
        return self.sessions()[0][0]

    def titled(self, title):
        """Waits until the task session has the title; returns its name."""
        return until(f"the title `{title}`", lambda: [name for name, shown in self.sessions() if shown == title])[0]

    def check_titles(self):
        """The task session has the conversation's name, also after a rename, and the notices of other sessions show it."""
        session = self.titled(TITLES[0])
        for title in TITLES[1:]:
            self.say({"type": "set_session_name", "name": title})
            self.titled(title)
        self.world.task("run", "beside", "--", "sleep 1000", session="beside")
        notice = f"{session} ({TITLES[-1]}): 1 active"
        until("the notice with the title", lambda: notice in self.world.task("feed", "--kind", "notice", session="beside").stdout)
        self.world.task("kill-all", "--yes", session="beside")

    def lose_a_receipt(self, world):
        """A message whose receipt is lost comes once."""
        self.crash()
        with world.lost_receipts():
            self.start(resume=True)
            self.run("tmux-task run lost -- 'sleep 2; exit 5'")
            until("the model has heard of `lost`", lambda: self.heard("(lost) exited with code 5"))
        self.crash()
        self.start(resume=True)
        time.sleep(WATCH)
        if self.heard("(lost) exited with code 5") != 1:
            raise SystemExit(f"told {self.heard('(lost) exited with code 5')} times")

    def use_menu(self):
        """Uses `/tmux-tasks` as a person does."""
        self.n_answered = 0
        # The one line that lists show of this command would not run.
        self.run("tmux-task run menu -- bash -c $'printf \"<%s>\\\\n\" \"$@\"\\ncat # no more' menu 'two  blanks' ''")
        until("the model has the task's window", lambda: self.heard("task=menu"))
        self.check_titles()
        self.prompt("/tmux-tasks")
        task = lambda options: next(line for line in options if "  menu  " in line)  # noqa: E731

        def choose(action):
            self.answer("select", value=task)
            self.answer("select", value=action)

        choose("send")
        self.answer("input", value="hello there")
        self.notified("Sent to menu.")
        choose("logs")
        logs = self.answer("editor", cancelled=True)
        if "hello there" not in logs["prefill"]:
            raise SystemExit(f"the logs: {logs}")
        choose("rerun")
        self.answer("confirm", confirmed=True)
        self.notified("Started menu again.")
        session = self.titled(TITLES[-1])
        until("the output of the second run", lambda: self.world.task("logs", "menu", session=session).stdout == "<two  blanks>\n<>\n")
        choose("kill")
        self.answer("confirm", confirmed=True)
        self.notified("Killed menu.")
        self.answer("select", value=lambda options: next(line for line in options if line.startswith("prune-dead")))
        self.notified("Removed the tasks that have ended.")
        self.notified("This session has no tmux tasks.")
        self.run("tmux-task run last -- sleep 1000")
        until("the model has the task's window", lambda: self.heard("task=last"))
        # The next session has the title, too.
        self.titled(TITLES[-1])
        self.prompt("/tmux-tasks kill-all")
        self.answer("confirm", confirmed=False)
        self.prompt("/tmux-tasks kill-all --yes")
        self.notified("Ended the task session.")
        if len(self.dialogs()[0]) != self.n_answered:
            raise SystemExit(f"--yes asks: {self.dialogs()[0][-1]}")

    def check(self, world):
        self.lose_a_receipt(world)
        self.use_menu()
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
    once = ("claude", "-p", "--model", "claude-sonnet-4-5")

    def set_environment(self):
        self.args = ["--model", "claude-sonnet-4-5"]
        self.env.update(
            ANTHROPIC_BASE_URL=self.model.url, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1", DISABLE_TELEMETRY="1", DISABLE_ERROR_REPORTING="1", IS_SANDBOX="1",
        )

    def configure(self):
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        self.write(f"{self.home}/.claude.json", {
            "hasCompletedOnboarding": True, "bypassPermissionsModeAccepted": True, "projects": {self.project: trusted},
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        })
        self.write(f"{self.home}/.claude/settings.json", {"permissions": {"allow": ["Bash", "Bash(*)"]}, "skipDangerousModePermissionPrompt": True, "theme": "dark"})

    def start(self, resume=False):
        stream = ["--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
        self.spawn(["claude", "-p", *stream, *self.args, *(["--continue"] if resume else [])])
        if resume:
            time.sleep(1)

    def prompt(self, text):
        self.say({"type": "user", "message": {"role": "user", "content": text}})

    def check(self, world):
        """A message that comes after the end of `claude -p` is there when its conversation is resumed."""
        self.crash()
        self.ask_once(f"RUN: tmux-task run once -- 'sleep 2; exit 3' # {self.mark} once", "--continue")
        self.start(resume=True)
        until("the model has heard of `once`", lambda: self.heard("(once) exited with code 3"))


class ClaudeTui(Terminal, Claude):
    """Claude Code's terminal interface."""

    def set_environment(self):
        Terminal.set_environment(self)
        Claude.set_environment(self)

    def command(self, resume):
        """`resume` may be the id of a conversation."""
        which = ["--resume", resume] if isinstance(resume, str) else ["--continue"]
        return ["claude", *self.args, *(which if resume else [])]

    def is_ready(self, screen):
        return "❯" in screen

    def escape(self):
        """Interrupts the turn."""
        before = self.screen().count("Interrupted")
        self.tui("send-keys", "-t", self.tab, "Escape")
        until("the turn is interrupted", lambda: self.screen().count("Interrupted") > before)


class Codex(Terminal):
    name = "codex"
    delivers = ("after-turn",)
    once = ("codex", "exec", "--skip-git-repo-check")

    def set_environment(self):
        super().set_environment()
        self.env["FAKE_KEY"] = KEY

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

    def command(self, resume):
        return ["codex", *(["resume", "--last"] if resume else [])]

    def is_ready(self, screen):
        return "fake-1" in screen and "›" in screen

    def quit(self):
        self.prompt("/quit")
        until("Codex has quit", lambda: not self.tui("list-panes", "-t", self.tab))

    def check(self, world):
        """A conversation of `codex exec` cannot be woken: its model is told so."""
        self.ask_once("RUN: tmux-task run exec -- true")
        if "\n".join(self.model.requests[-1][1]).count("`codex exec` takes no messages") != 1:
            raise SystemExit(f"the model of `codex exec` knows nothing: {self.model.requests[-1]}")


class Opencode(Client):
    name = "opencode"
    once = ("opencode", "run")
    port = 4096

    def set_environment(self):
        self.env.update(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_LSP_DOWNLOAD="1", OPENCODE_DISABLE_DEFAULT_PLUGINS="1")
        self.session = None

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
    def http(self, method, path, body=None, timeout=DEADLINE):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def start(self, resume=False):
        # Conversations share a server.
        if not self.is_up():
            self.spawn(["opencode", "serve", "--port", str(self.port)])
        until("opencode serves", self.is_up)
        self.session = self.session or self.http("POST", "/session", {})["id"]

    def is_up(self):
        try:
            return self.http("GET", "/session", timeout=5) is not None
        except OSError:
            return False

    def prompt(self, text):
        self.http("POST", f"/session/{self.session}/prompt_async", {"parts": [{"type": "text", "text": text}]})

    def quit(self):
        self.process.terminate()
        self.process.wait(DEADLINE)


class Opencode2(Client):
    """A stand-in for OpenCode 2: opencode2.mjs."""
    name = "opencode"

    def set_environment(self):
        self.env.update(MODEL_URL=self.model.url, OPENCODE_STATE=f"{self.root}/opencode2.json")

    def configure(self):
        host = os.path.join(os.path.dirname(os.path.abspath(__file__)), "opencode2.mjs")
        self.write(f"{self.root}/bin/opencode", f'#!/bin/sh\nexec node "{host}" "$@"\n')
        os.chmod(f"{self.root}/bin/opencode", 0o755)

    def start(self, resume=False):
        self.spawn(["opencode", f"ses_{self.mark}"])

    def prompt(self, text):
        self.say({"prompt": text})

    def check(self, world):
        """Each message is in the conversation once, with its id."""
        with open(self.env["OPENCODE_STATE"], encoding="utf-8") as file:
            messages = json.load(file)["sessions"][f"ses_{self.mark}"]["messages"]
        ids = [one["metadata"]["id"] for one in messages if one.get("metadata")]
        if len(ids) != len(set(ids)):
            raise SystemExit(f"twice: {ids}")
        print(f"{len(ids)} messages, each with an id of its own")


class Copilot(Terminal):
    """GitHub Copilot CLI, with a provider of its own instead of GitHub's."""
    name = "copilot"
    once = ("copilot", "--experimental", "--allow-all", "-p")

    def set_environment(self):
        super().set_environment()
        self.env.update(
            COPILOT_OFFLINE="true", COPILOT_AUTO_UPDATE="false", COPILOT_PROVIDER_BASE_URL=f"{self.model.url}/v1", COPILOT_PROVIDER_TYPE="openai",
            COPILOT_PROVIDER_API_KEY=KEY, COPILOT_MODEL="fake-1", COPILOT_ALLOW_ALL="true",
        )

    def configure(self):
        """It needs no more than its variables."""

    def command(self, resume):
        return ["copilot", "--experimental", "--allow-all", *(["--continue"] if resume else [])]

    def is_ready(self, screen):
        return "❯" in screen

    def quit(self):
        self.prompt("/exit")
        until("Copilot has quit", lambda: not self.tui("list-panes", "-t", self.tab))

    def check(self, world):
        check_withheld(self, world, ("COPILOT_AGENT_SESSION_ID", "COPILOT_CLI", "COPILOT_LOADER_PID"))


class Qwen(Terminal):
    """Qwen Code, with a provider of its own. Its terminal has a launcher, the program is a child of it."""
    name = "qwen"
    delivers = ("after-turn",)
    once = ("qwen", "--yolo", "-p")

    def set_environment(self):
        super().set_environment()
        self.env.update(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"{self.model.url}/v1", OPENAI_MODEL="fake-1")

    def configure(self):
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"enableAutoUpdate": False},
            # Else a request for suggestions follows each turn.
            "ui": {"enableFollowupSuggestions": False},
        }
        self.write(f"{self.home}/.qwen/settings.json", json.dumps(settings))

    def command(self, resume):
        return ["qwen", "--yolo", *(["--continue"] if resume else [])]

    def is_ready(self, screen):
        return "Type your message" in screen

    def prompt(self, text):
        # Of keys that come fast, it loses one now and then.
        self.tui("set-buffer", text)
        self.tui("paste-buffer", "-p", "-t", self.tab)
        time.sleep(0.5)
        self.tui("send-keys", "-t", self.tab, "Enter")

    def quit(self):
        self.prompt("/quit")
        until("Qwen Code has quit", lambda: not self.tui("list-panes", "-t", self.tab))

    def crash(self):
        """A signal to the launcher only would let the program quit."""
        for name in os.listdir(f"{self.home}/.qwen/sessions"):
            try:
                os.kill(int(re.match(r"\d+", name)[0]), signal.SIGKILL)
            except ProcessLookupError:
                pass
        super().crash()

    def check(self, world):
        check_withheld(self, world, ("QWEN_CODE", "QWEN_CODE_SESSION_ID", "QWEN_CODE_MESSAGING_TOKEN"))


KINDS = {kind.name: kind for kind in (Pi, Claude, Codex, Opencode, Copilot, Qwen)} | {"opencode2": Opencode2}
