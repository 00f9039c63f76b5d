"""Python's MCP client against `tmux-task mcp`: versions, progress, cancellation, errors, two
clients at once. Fails with an exception.

usage: client.py PROGRAM
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import anyio

warnings.simplefilter("ignore")
from mcp.client.client import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402

VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def world(folder):
    """An environment with folders of its own."""
    for name in ("home", "tmux", "run", "state"):
        os.mkdir(f"{folder}/{name}", 0o700)
    return {
        "PATH": os.environ["PATH"],
        "HOME": f"{folder}/home",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",
        "TMUX_TMPDIR": f"{folder}/tmux",
        "TMUX_TASK_RUNTIME_DIR": f"{folder}/run",
        "TMUX_TASK_STATE_DIR": f"{folder}/state",
        "TMUX_TASK_SESSION": "mcp",
    }


def text(result):
    return result.content[0].text


async def check(client, version, gate):
    """What a client does, with this version of the protocol. The file `gate` lets the task end."""
    assert client.protocol_version == version, client.protocol_version
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert len(tools) == 9, tools
    assert tools["list_tasks"].annotations.read_only_hint, tools["list_tasks"]
    reports = []

    async def report(progress, total, message):
        reports.append((progress, total, message))
        pathlib.Path(gate).touch()

    command = f"until [ -e {gate} ]; do sleep 0.05; done; echo done; exit 3"
    arguments = {"task": "build", "command": command, "wait": True}
    ended = await client.call_tool("run_task", arguments, progress_callback=report)
    assert not ended.is_error and "build exited with code 3" in text(ended), text(ended)
    assert reports and reports[0][1] == 50, reports
    await client.call_tool("run_task", {"task": "api", "command": "exec sleep 1000"})
    with anyio.move_on_after(0.3) as scope:
        await client.call_tool("wait_for", {"task": "api"})
    assert scope.cancelled_caught
    refused = await client.call_tool("wait_for", {"task": "nothing"})
    assert refused.is_error and "hint: list_tasks" in text(refused), text(refused)
    try:
        await client.call_tool("start_task", {})
    except Exception as error:  # The client's own class differs between its versions.
        assert "unknown tool" in str(error), error
    else:
        raise AssertionError("an unknown tool was called")
    tasks = text(await client.call_tool("list_tasks", {}))
    assert "api `exec sleep 1000` running" in tasks, tasks


async def main(program, env, folder):
    def connect(mode):
        server = StdioServerParameters(command=program, args=["mcp"], env=env, cwd=folder)
        return Client(stdio_client(server), mode=mode)

    for mode, version in VERSIONS.items():
        async with connect(mode) as client:
            await check(client, version, f"{folder}/gate-{version}")
    # Both see everything.
    async with connect("auto") as one, connect("auto") as other:
        for client in (one, other):
            await client.call_tool("next_events", {"wait_seconds": 0})
        await one.call_tool("run_task", {"task": "both", "command": "exit 4", "wait": True})
        for client in (one, other, one):
            seen = text(await client.call_tool("next_events", {"wait_seconds": 10}))
            assert "(both) " in seen, seen


if __name__ == "__main__":
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="mcp-", dir="/tmp") as folder:
        env = world(folder)
        try:
            anyio.run(main, program, env, folder)
        finally:
            for command in ([program, "daemon", "stop"], ["tmux", "kill-server"]):
                subprocess.run(command, env=env, cwd=folder, capture_output=True, check=False)
