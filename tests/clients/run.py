#!/usr/bin/env python3
"""Runs one scenario with real clients against a scripted model: see tests/clients.sh.

To be started in a network namespace of its own: usage: run.py SCENARIO PROGRAM CLIENTS_FOLDER
"""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clients import KINDS, World  # noqa: E402
from dropped import DROPPED  # noqa: E402
from mcp import mcp  # noqa: E402
from pairs import PAIRS, pair  # noqa: E402
from six import six  # noqa: E402
from turns import turns  # noqa: E402


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
            turns(world, KINDS[scenario.removeprefix("turns-")])
        else:
            six(world, KINDS[scenario])
    except BaseException:
        world.show()
        raise
    finally:
        world.end()


main()
