#!/usr/bin/env python3
"""Runs one scenario with real clients against a scripted model: see tests/clients.sh.

To be started in a network namespace of its own: usage: run.py SCENARIO PROGRAM CLIENTS_FOLDER
"""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clients import KINDS, SIX, WATCH, World, until  # noqa: E402
from dropped import DROPPED  # noqa: E402
from mcp import mcp  # noqa: E402
from pairs import PAIRS, pair  # noqa: E402
from six import six  # noqa: E402
from turns import turns  # noqa: E402


def alone(world, kind):
    """One client: the model gets one message while it is idle, one after it was killed, and Pi one whose
    receipt is lost."""
    world.install(kind)
    client = kind(world)
    client.start()
    client.run("tmux-task run idle -- 'sleep 2; exit 3'")
    until("the model has heard of `idle`", lambda: client.heard("(idle) exited with code 3"))
    # opencode's adapter would not learn whom to follow.
    loses_receipts = client.name == "pi"
    if loses_receipts:
        client.crash()
        with world.lost_receipts():
            client.start(resume=True)
            client.run("tmux-task run lost -- 'sleep 2; exit 5'")
            until("the model has heard of `lost`", lambda: client.heard("(lost) exited with code 5"))
    # The client is killed, and resumes the conversation.
    client.run("tmux-task run away -- 'sleep 4; exit 4'")
    until("the model has the task's window", lambda: client.heard("task=away"))
    time.sleep(0.5)
    client.crash()

    def has_ended():
        if '"away"' in world.task("feed", "--kind", "followUp").stdout:
            return True
        tasks = world.task("ls")
        return tasks.returncode or any("away" in line and "exited" in line for line in tasks.stdout.splitlines())

    until("`away` ends", has_ended)
    client.start(resume=True)
    until("the model has heard of `away`", lambda: client.heard("(away) exited with code 4"))
    time.sleep(WATCH)
    texts = ["(idle) exited with code 3", "(away) exited with code 4"]
    if loses_receipts:
        texts.append("(lost) exited with code 5")
    for text in texts:
        if client.heard(text) != 1:
            raise SystemExit(f"told {client.heard(text)} times: {text}")
    client.new_conversation()
    world.task("init", client.name, "--remove")


def main():
    scenario, program, clients = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    world = World(program, clients)
    try:
        if scenario == "mcp":
            mcp(world)
        elif scenario in DROPPED:
            DROPPED[scenario](world)
        elif scenario in PAIRS:
            pair(world, *PAIRS[scenario])
        elif scenario.startswith("turns-"):
            turns(world, (KINDS | SIX)[scenario.removeprefix("turns-")])
        elif scenario in SIX:
            six(world, SIX[scenario])
        else:
            alone(world, KINDS[scenario])
    except BaseException:
        world.show()
        raise
    finally:
        world.end()


main()
