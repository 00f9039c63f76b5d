"""The MCP server with real clients that have nothing else of tmux-task: no adapter, no variable.

Claude Code's terminal interface is woken by the end of `run_task`; `claude -p`, which takes no
handles, by a call that it has moved to the background. Two clients see the same events. A client
that is killed leaves no wait behind. The inspector lists the tools and calls each.
"""
import json
import os
import signal
import subprocess
import time

from clients import Claude, ClaudeTui, Opencode, until

SERVER = {"command": "tmux-task", "args": ["mcp"]}

# What the inspector calls, in this order, and what the answer has. It declares the tasks extension
# and shows the handles that it gets, and their states.
CALLS = [
    ("run_task", {"task": "build", "command": "echo made it; exit 3"}, "waiting for build"),
    ("wait_for", {"task": "build"}, "waiting for build"),
    ("list_tasks", {}, "build `echo made it; exit 3`"),
    ("run_task", {"task": "ask", "command": "read -p 'Proceed? [y/N] ' x; echo got $x"}, "waiting for ask"),
    ("send_input", {"task": "ask", "text": "y", "prompt": "Proceed? [y/N]"}, "ask"),
    ("read_output", {"task": "build"}, "made it"),
    ("search_output", {"pattern": "got y"}, "got y"),
    ("next_events", {"wait_seconds": 0}, "cursor:"),
    ("kill_task", {"task": "ask"}, "ask"),
    ("prune_tasks", {}, "build"),
]


def with_server(kind, world, mark):
    """A client whose only configuration is the server."""
    client = kind(world, mark)
    if isinstance(client, Opencode):
        path = f"{client.home}/.config/opencode/opencode.json"
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["mcp"] = {"tmux-task": {"type": "local", "command": ["tmux-task", "mcp"], "enabled": True}}
        world.write(path, config)
    else:
        path = f"{client.root}/mcp.json"
        world.write(path, {"mcpServers": {"tmux-task": SERVER}})
        client.args += ["--mcp-config", path, "--dangerously-skip-permissions"]
        # Otherwise the model gets the schemas of MCP tools only when it searches for them.
        client.env["ENABLE_TOOL_SEARCH"] = "false"
    client.start()
    return client


def waits(world):
    return json.loads(world.task("daemon", "status", "--json").stdout)["waits"]


def woken(client, name, tool, arguments):
    """The model calls a tool and ends its turn; the end of the task begins another one."""
    client.call(tool, arguments)
    # The turn has ended when the model has said something after the call.
    until(f"`{tool}` returns", lambda: client.n_requests() >= 2)
    n = client.n_requests()
    until(f"{client.name} is woken by the end of `{name}`", lambda: client.heard(f"{name} exited with code 3") == 1)
    if client.n_requests() == n:
        raise SystemExit("the result was in the call's own turn")


def inspector(world):
    command = [f"{world.clients}/inspector/node_modules/.bin/mcp-inspector", "--cli"]
    for name in ("TMUX_TMPDIR", "XDG_RUNTIME_DIR", "PATH", "HOME"):
        command += ["-e", f"{name}={world.env[name]}"]
    command += ["tmux-task", "mcp"]

    def run(*args):
        done = subprocess.run([*command, *args], env=world.env, cwd=world.project, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise SystemExit(f"the inspector failed with {args}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    # Strict: it fails if a client could misunderstand a schema.
    tools = {tool["name"] for tool in run("--method", "tools/list", "--strict")["tools"]}
    if tools != {name for name, _, _ in CALLS}:
        raise SystemExit(f"tools: {sorted(tools)}")
    for name, arguments, expected in CALLS:
        given = [word for key, value in arguments.items() for word in ("--tool-arg", f"{key}={value}")]
        answer = run("--method", "tools/call", "--tool-name", name, *given)
        text = "\n".join([answer.get("statusMessage", ""), *(part["text"] for part in answer["content"])])
        if answer.get("isError") or expected not in text:
            raise SystemExit(f"{name} {arguments}: {answer}")
        if name == "run_task" and arguments["task"] == "build":
            world.task("wait", "build")
        if name == "run_task" and arguments["task"] == "ask":
            world.task("wait", "ask", "--input")
        if name == "send_input":
            world.task("wait", "ask")
    print(f"the inspector called all {len(tools)} tools")


def mcp(world):
    inspector(world)
    tui = with_server(ClaudeTui, world, "terminal")
    woken(tui, "long", "run_task", {"task": "long", "command": "sleep 4; exit 3"})
    tasks = json.loads(world.task("ls", "--json").stdout)["tasks"]
    owner = next(task["owner"] for task in tasks if task["windowName"] == "long")
    if not str(owner).startswith("claude:"):
        raise SystemExit(f"the owner of `long`: {owner}")
    print("Claude Code's terminal interface: woken by the end of run_task")
    # It takes no handles. With the first variable, a call that takes longer than the second one says
    # (two minutes if it is not set) is moved to the background.
    world.env.update(CLAUDE_AUTO_BACKGROUND_TASKS="1", CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS="1000")
    stream = with_server(Claude, world, "stream")
    woken(stream, "piped", "run_task", {"task": "piped", "command": "sleep 5; exit 3", "wait": True, "timeout_seconds": 600})
    print("claude -p: woken by the end of a call that it had moved to the background")
    opencode = with_server(Opencode, world, "opencode")
    both = (tui, opencode)
    for client in both:
        client.call("next_events", {"wait_seconds": 0})
        until(f"{client.name} has its cursor", lambda: client.heard("cursor:"))
    world.task("run", "shared", "--wait", "--", "exit 6")
    for client in (*both, tui):
        client.call("next_events", {"wait_seconds": 10})
        until(f"{client.name} sees the event", lambda: client.heard("(shared) exited with code 6"))
    print("two clients: both see the same event")
    # A client that is killed while it waits.
    world.task("run", "endless", "--", "sleep 1000")
    for client in (stream, opencode):
        before = waits(world)
        client.call("wait_for", {"task": "endless", "timeout_seconds": 600})
        until(f"{client.name} waits", lambda: waits(world) > before)
        client.crash()
        until(f"the wait of {client.name} has ended", lambda: waits(world) == before)
    print("clients that were killed left no wait behind")
