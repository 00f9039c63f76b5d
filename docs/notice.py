#!/usr/bin/env python3
"""Draws docs/notice.png: lets tasks fail and ask on a private tmux server, and takes a picture of the
notifications on a private screen, with a private bus and dunst.

Usage: docs/notice.py [PROGRAM]    (default: tmux-task on PATH)
Needs Xvfb, dunst and dbus-daemon.
"""

import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

SCREEN = "640x480x24"
MARGIN = 12
BACKGROUND = (0x1B, 0x1D, 0x23)

SCRIPTS = {
    "tests": "echo 'test result: FAILED. 41 passed; 1 failed'; exit 101",
    "migrate": "echo 'Migrating 3 tables'; printf 'Drop table orders? [y/N] '; read -r _",
}

DUNST = """[global]
width = 460
height = 200
origin = top-center
offset = 0x16
gap_size = 8
padding = 12
horizontal_padding = 14
frame_width = 1
corner_radius = 6
font = DejaVu Sans 11
format = "<b>%s</b>\\n%b"
notification_limit = 5
follow = none
show_indicators = no
[urgency_low]
background = "#2a2d36"
foreground = "#d7dae0"
frame_color = "#4aa5f0"
timeout = 0
[urgency_normal]
background = "#2a2d36"
foreground = "#d7dae0"
frame_color = "#d18f52"
timeout = 0
[urgency_critical]
background = "#2a2d36"
foreground = "#d7dae0"
frame_color = "#e05561"
timeout = 0
"""

BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:dir={folder}</listen><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
</policy></busconfig>
"""


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "tmux-task"
    with tempfile.TemporaryDirectory(prefix="notice-", dir="/tmp") as folder:
        desk = Desk(Path(folder), program)
        try:
            desk.start()
            image = desk.picture()
        finally:
            desk.close()
    target = Path(__file__).with_name("notice.png")
    target.write_bytes(png(cropped(image)))
    print(target)


class Desk:
    """A screen, a bus, a notifier and a tmux server of their own."""

    def __init__(self, folder, program):
        self.program = program
        self.folder = folder
        self.processes = []
        names = ("HOME", "TMUX_TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        self.env = {name: str(folder) for name in names} | {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "TMUX_TASK_SESSION": "shop",
        }

    def start(self):
        frames = self.folder / "frames"
        frames.mkdir()
        display = self.begin("Xvfb", "-displayfd", "1", "-screen", "0", SCREEN,
                             "-nolisten", "tcp", "-noreset", "-fbdir", str(frames))
        self.frame = frames / "Xvfb_screen0"
        self.env["DISPLAY"] = f":{display}"
        config = self.folder / "bus.conf"
        config.write_text(BUS.format(folder=self.folder))
        bus = f"--config-file={config}"
        self.env["DBUS_SESSION_BUS_ADDRESS"] = self.begin("dbus-daemon", bus, "--nofork", "--print-address")
        config = self.folder / "dunstrc"
        config.write_text(DUNST)
        self.begin("dunst", "-conf", str(config), first_line=False)
        self.until(lambda: self.count() == "0", "dunst does not start")

    def begin(self, *words, first_line=True):
        output = subprocess.PIPE if first_line else subprocess.DEVNULL
        process = subprocess.Popen(words, env=self.env, stdout=output, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        return process.stdout.readline().strip() if first_line else None

    def run(self, *words):
        return subprocess.run(words, env=self.env, cwd=self.folder, capture_output=True, text=True)

    def count(self):
        return self.run("dunstctl", "count", "displayed").stdout.strip()

    def until(self, is_true, problem):
        for _ in range(300):
            if is_true():
                return
            time.sleep(0.1)
        raise SystemExit(problem)

    def picture(self):
        for number, (name, script) in enumerate(SCRIPTS.items(), 1):
            file = self.folder / name
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o700)
            self.run(self.program, "run", name, "--", f"./{name}").check_returncode()
            self.until(lambda: self.count() == str(number), f"no notification of {name}")
        before = None
        # What dunst counts is drawn a moment later: two equal frames are a whole one.
        for _ in range(300):
            time.sleep(0.2)
            frame = self.frame.read_bytes()
            if frame == before and len(rows_with_content(read_xwd(frame))) > 100:
                return read_xwd(frame)
            before = frame
        raise SystemExit("the notifications are not drawn")

    def close(self):
        self.run(self.program, "daemon", "stop")
        self.run("tmux", "kill-server")
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


def read_xwd(data):
    """Returns the rows of an XWD file, each a list of (red, green, blue)."""
    fields = struct.unpack(">25I", data[:100])
    header, width, height = fields[0], fields[4], fields[5]
    order, bits, stride, n_colours = fields[7], fields[11], fields[12], fields[19]
    if bits != 32:
        raise SystemExit(f"a pixel has {bits} bits")
    start = header + 12 * n_colours
    rows = []
    for y in range(height):
        row = data[start + y * stride:start + y * stride + width * 4]
        pixels = struct.unpack(f"{'<' if order == 0 else '>'}{width}I", row)
        rows.append([(pixel >> 16 & 255, pixel >> 8 & 255, pixel & 255) for pixel in pixels])
    return rows


def rows_with_content(rows):
    return [y for y, row in enumerate(rows) if any(pixel != (0, 0, 0) for pixel in row)]


def cropped(rows):
    """Returns what is on the screen, with a margin."""
    ys = rows_with_content(rows)
    xs = [x for x in range(len(rows[0])) if any(row[x] != (0, 0, 0) for row in rows)]
    inside = [row[xs[0]:xs[-1] + 1] for row in rows[ys[0]:ys[-1] + 1]]
    side = [BACKGROUND] * MARGIN
    edge = [[BACKGROUND] * (len(inside[0]) + 2 * MARGIN)] * MARGIN
    blank = (0, 0, 0)
    middle = [side + [BACKGROUND if pixel == blank else pixel for pixel in row] + side for row in inside]
    return edge + middle + edge


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    raw = b"".join(b"\0" + b"".join(bytes(pixel) for pixel in row) for row in rows)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    main()
