#!/usr/bin/env python3
"""Draws docs/panel.svg: starts tasks in a private tmux server, opens the panel, and takes its picture.

Usage: docs/picture.py [PROGRAM]    (default: tmux-task on PATH)
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

COLUMNS, ROWS = 92, 20
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.43, 18, 12
BACKGROUND, FOREGROUND = "#1b1d23", "#d7dae0"
PALETTE = "#3f4451 #e05561 #8cc265 #d18f52 #4aa5f0 #c162de #42b3c2 #d7dae0".split()

SCRIPTS = {
    "deploy": "echo 'Building release 4.2.0'; echo 'Uploading to 3 machines';"
    " printf 'Deploy to \\033[1mproduction\\033[0m? [y/N] '; read -r _",
    "test": "printf 'test parses_empty_input ... \\033[32mok\\033[0m\\n';"
    " printf 'test keeps_order ... \\033[31mFAILED\\033[0m\\n';"
    " echo '41 passed; 1 failed'; exit 101",
    "lint": "echo 'no warnings'",
    "serve": "while :; do echo \"GET /health 200\"; sleep 1; done",
    "watch": "echo 'watching src for changes'; exec sleep 1000",
}


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "tmux-task"
    with tempfile.TemporaryDirectory(prefix="picture-", dir="/tmp") as folder:
        world = World(Path(folder), program)
        try:
            rows = world.picture()
        finally:
            world.close()
    target = Path(__file__).with_name("panel.svg")
    target.write_text(svg(rows), encoding="utf-8")
    print(target)


class World:
    """Folders and tmux servers of their own."""

    def __init__(self, folder, program):
        self.program = program
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH",)}
        folders = {
            name: str(folder)
            for name in ("HOME", "TMUX_TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        }
        self.env = kept | folders | {
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "TERM": "xterm-256color",
            "TMUX_TASK_SESSION": "shop",
        }

    def run(self, *words):
        done = subprocess.run(words, env=self.env, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout

    def terminal(self, *words):
        return self.run("tmux", "-L", "terminal", *words)

    def picture(self):
        for name, script in SCRIPTS.items():
            file = self.folder / name
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o700)
            self.run(self.program, "run", name, "--", f"./{name}")
        panel = f"env -u TMUX '{self.program}' panel"
        self.terminal("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), panel)
        self.terminal("set-option", "-g", "status", "off")
        self.terminal("resize-window", "-x", str(COLUMNS), "-y", str(ROWS))
        for _ in range(300):
            shown = self.terminal("capture-pane", "-p")
            # The processor time is known at the second sample.
            if all(text in shown for text in ("ASK", "FAILED", "DONE", "RUNNING", "%", "[y/N]", "3 machines")):
                return self.terminal("capture-pane", "-p", "-e", "-N").split("\n")[:ROWS]
            time.sleep(0.1)
        raise SystemExit(f"the panel does not show everything:\n{shown}")

    def close(self):
        for words in (
            ("tmux", "-L", "terminal", "kill-server"),
            (self.program, "daemon", "stop"),
            ("tmux", "kill-server"),
        ):
            subprocess.run(words, env=self.env, check=False, capture_output=True)


def colour(number):
    return PALETTE[number % 8]


def pieces(rows):
    """Yields row, column, text and style. tmux writes a style only where it changes."""
    style = {}
    for y, row in enumerate(rows):
        x = 0
        for codes, text in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b]+)", row):
            if text:
                yield y, x, text, dict(style)
                x += len(text)
                continue
            numbers = [int(code or 0) for code in codes.split(";")]
            while numbers:
                code = numbers.pop(0)
                if code == 0:
                    style = {}
                elif code in (1, 2, 7):
                    style[code] = True
                elif 30 <= code <= 37 or 90 <= code <= 97:
                    style["fill"] = colour(code % 10)
                elif code == 38 and numbers[:1] == [5]:
                    style["fill"] = colour(numbers[1])
                    del numbers[:2]
                elif code == 39:
                    style.pop("fill", None)


def svg(rows):
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = ROWS * CELL_HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        ' font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="14">',
        "<title>tmux-task panel: what needs you is on top</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    for y, x, text, style in pieces(rows):
        fill = style.get("fill", FOREGROUND)
        left, top = MARGIN + x * CELL_WIDTH, MARGIN + y * CELL_HEIGHT
        length = len(text) * CELL_WIDTH
        if style.get(7):
            back, fill = fill, BACKGROUND
            lines.append(f'<rect shape-rendering="crispEdges" x="{left:.1f}" y="{top}" width="{length:.1f}" height="{CELL_HEIGHT}" fill="{back}"/>')
        if not text.strip():
            continue
        looks = f' fill="{fill}"'
        if style.get(1):
            looks += ' font-weight="bold"'
        if style.get(2):
            looks += ' opacity="0.6"'
        lines.append(
            f'<text x="{left:.1f}" y="{top + 13}" textLength="{length:.1f}" xml:space="preserve"{looks}>{escape(text)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main()
