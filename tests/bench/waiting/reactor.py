#!/usr/bin/env python3
"""An agent for the event tasks of tmuxbench that knows of nothing but tmux-task's messages: see missed.py.

It waits for a message, at most five seconds, reads in tmux what the message speaks of, and does what the benchmark's
tasks want done. Whether the agent itself reads it, the benchmark grades, too."""
import json
import os
import subprocess
import sys
import threading

LONGEST = 5


def tmux(*words):
    subprocess.run(["tmux", *words], stdout=subprocess.DEVNULL, check=True)


def report(text):
    with open(os.environ["REPORT"], "w", encoding="utf-8") as file:
        file.write(text)


def main():
    words = ["tmux-task", "-L", os.environ["BENCH_SOCKET"], "-s", os.environ["WATCHED"]]
    feed = subprocess.Popen([*words, "feed", "--follow", "--after", "0", "--kind", "followUp"], stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(LONGEST, feed.kill)
    watchdog.start()
    records = (json.loads(line) for line in feed.stdout)
    message = next((record["message"] for record in records if record["kind"] == "followUp"), None)
    watchdog.cancel()
    feed.kill()
    if message is None:
        sys.exit("no message")
    # A bell, a question and an end say more than that something was printed, or started in the same moment.
    event = max(message["details"]["events"], key=lambda event: {"started": 0, "output": 1}.get(event["type"], 2))
    window, name = event["task"]["windowId"], event["task"]["windowName"]
    if event["type"] == "exited":
        tmux("display-message", "-p", "-t", window, "#{pane_dead}")
        tmux("respawn-pane", "-t", window, "sleep 1000")
    elif event["type"] == "notify":
        tmux("list-windows", "-F", "#{window_name} #{window_bell_flag}")
        report(name)
    elif event["type"] == "output" and "INTERRUPT" not in event["line"]:
        tmux("list-windows", "-F", "#{window_name} #{window_activity_flag}")
        report(name)
    elif event["type"] in ("input", "output"):
        tmux("capture-pane", "-p", "-t", window)
        subprocess.run([*words, "send", window, "APPROVE"], check=True, stdout=subprocess.DEVNULL)


main()
