#!/usr/bin/env python3
"""Measures what it costs an agent to wait for a long job: model requests, input tokens, and the time from the job's
end to the model's request that tells of it.

A scripted agent sends real requests to a scripted model on loopback and really runs the commands that the model asks
for, on a private tmux server: it polls the screen every 5 s, every 30 s, or with pauses that double up to 5 minutes;
it waits in a call of `tmux-task run --wait` or `wait`, as long as its client lets it; or it ends its turn and gets
tmux-task's message.

  costs    one conversation for each way and length of a job, all at the same time. Time is compressed: jobs, pauses,
           limits and the model's answers take 1/SPEED of their time.
  delays   jobs that end at another moment each time: pollers in compressed time (the figure is multiplied by SPEED,
           and with it what a command really takes), the two ways of tmux-task in real time, one after the other.
  missed   only with --tmuxbench: the event tasks of the benchmark "Missing Events" (github.com/posix4e/tmuxbench),
           by its own two arms and by two agents that have nothing but tmux-task's message.

Input tokens are a quarter of the characters that a request sends (texts, calls, descriptions of tools), all of them
again with each request. "with a cache" weights them as a provider with prompt caching charges them: what was sent with
the request before counts 0.1 if that is at most 5 minutes ago, everything else 1.25. Output tokens are not counted.

It needs tmux, bash, Python 3.9 and tmux-task; it uses folders and a tmux server of its own and removes them."""
import argparse
import glob
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import chart  # noqa: E402
import missed  # noqa: E402
from agent import RuleModel  # noqa: E402
from arms import ARMS, BACKED_OFF, converse  # noqa: E402

# How many pollers of a kind wait at the same time: few where a poll comes soon, because a burst of starts would delay it.
AT_ONCE = {"poll-5": 4, "poll-30": 8, "backed-off": 20}

# Between the starts of two conversations, in seconds, for the same reason.
APART = 0.1


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", metavar="FILE", help="tmux-task (default: $TMUX_TASK_PROGRAM, else on PATH)")
    parser.add_argument("--minutes", metavar="N,N,...", help="lengths of the jobs (default: 5,20,40)")
    parser.add_argument("--context", type=int, metavar="TOKENS", default=12000,
                        help="the conversation before the first prompt: instructions, tools, history (default: 12000)")
    parser.add_argument("--reply", type=float, metavar="S", default=3, help="seconds that the model takes for an answer (default: 3)")
    parser.add_argument("--limit", type=float, metavar="MINUTES", default=10, help="how long a command may take in the client (default: 10)")
    parser.add_argument("--speed", type=float, metavar="N", help="compress time N times (default: 40)")
    parser.add_argument("--samples", type=int, metavar="N", help="jobs for each delay (default: 20)")
    parser.add_argument("--tmuxbench", metavar="DIR", help="a checkout of the benchmark; without it, that part is skipped")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--picture", metavar="FILE", help="draw the costs, as SVG")
    parser.add_argument("--quick", action="store_true",
                        help="jobs of 1 and 2 minutes, 3 samples, speed 20, no poller that has backed off; in about 20 s."
                        " To see that it works, not for figures")
    options = parser.parse_args()
    try:
        minutes = [float(word) for word in (options.minutes or ("1,2" if options.quick else "5,20,40")).split(",")]
    except ValueError:
        parser.error("--minutes takes numbers, like 5,20,40")
    options.minutes = [int(n) if n == int(n) else n for n in minutes]
    options.speed = options.speed or (20 if options.quick else 40)
    options.samples = options.samples or (3 if options.quick else 20)
    if min([*options.minutes, options.context, options.limit, options.speed, options.samples]) <= 0 or options.reply < 0:
        parser.error("numbers must be positive")
    if options.limit * 60 < 20:
        parser.error("--limit: a call needs 20 s at least")
    if options.tmuxbench and (fault := missed.fault_of(options.tmuxbench)):
        parser.error(f"--tmuxbench: {fault}")
    options.program = needs(options.program or os.environ.get("TMUX_TASK_PROGRAM") or "tmux-task")
    return options


def needs(program):
    """The path of tmux-task. Ends the script if something is missing."""
    missing = [f"`{name}` is missing" for name in ("tmux", "bash", "sleep") if not shutil.which(name)]
    if sys.version_info < (3, 9):
        missing.append("Python 3.9 or newer is needed")
    path = shutil.which(program)
    if not path:
        missing.append(f"tmux-task is missing: there is no program `{program}`; install it, or name it with --program")
    if missing:
        sys.exit("\n".join(f"waiting.py: {line}" for line in missing))
    return os.path.abspath(path)


class World:
    """Folders, a tmux server and a model of their own."""

    def __init__(self, options):
        # Sockets are in this folder, and their paths are limited to about 100 bytes.
        self.root = tempfile.mkdtemp(prefix="tt-waiting-", dir="/tmp")
        for folder in ("bin", "ends", "home", "run", "tmux", "tmp"):
            os.mkdir(f"{self.root}/{folder}", 0o700)
        os.symlink(options.program, f"{self.root}/bin/tmux-task")
        self.job = f"{HERE}/job.py"
        home = f"{self.root}/home"
        path = f"{self.root}/bin:{os.environ['PATH']}"
        self.env = {
            "HOME": home, "PATH": path, "LANG": "C.UTF-8", "SHELL": shutil.which("bash"), "TERM": "xterm-256color",
            "TMPDIR": f"{self.root}/tmp", "TMUX_TMPDIR": f"{self.root}/tmux", "XDG_RUNTIME_DIR": f"{self.root}/run",
            "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config", "TMUX_TASK_SESSION": "waiting",
        }
        self.model = RuleModel(options.reply / options.speed)
        self.lock = threading.Lock()
        self.kept, self.has_ended = [], False  # what has to be closed at the end

    def start(self):
        self.run("tmux", "-f", "/dev/null", "new-session", "-d", "-s", "polled", "sleep 100000")
        self.run("tmux", "set-option", "-w", "-g", "remain-on-exit", "on")
        self.run("tmux-task", "daemon", "--detach")

    def output(self, *words):
        return self.finished(words).stdout

    def finished(self, words):
        return subprocess.run(words, env=self.env, cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def run(self, *words):
        done = self.finished(words)
        if done.returncode:
            raise RuntimeError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
        return done.stdout

    def keep(self, make):
        """Makes something that `drop` or the end closes."""
        with self.lock:
            if self.has_ended:
                raise RuntimeError("interrupted")
            self.kept.append(make())
            return self.kept[-1]

    def drop(self, one):
        with self.lock:
            if one in self.kept:
                self.kept.remove(one)
        one.close()

    def end(self):
        with self.lock:
            self.has_ended = True
        for one in list(self.kept):
            one.close()
        # That of the conversations and, after an interruption, those of the benchmark.
        for socket in glob.glob(f"{self.root}/tmux/*/*"):
            for session in self.output("tmux", "-S", socket, "list-sessions", "-F", "#{session_name}").split():
                self.output("tmux-task", "-S", socket, "-s", session, "daemon", "stop")
            self.output("tmux", "-S", socket, "kill-server")
        shutil.rmtree(self.root, ignore_errors=True)


def side_by_side(calls, at_once):
    """The results of the calls, in their order. The first that fails ends them all."""
    todo, done = queue.SimpleQueue(), queue.SimpleQueue()
    for n, call in enumerate(calls):
        todo.put((n, call))

    def work():
        while True:
            try:
                n, call = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((n, call(), None))
            except Exception as error:  # It is raised again below.
                done.put((n, None, error))

    for _ in range(min(at_once, len(calls))):
        threading.Thread(target=work, daemon=True).start()
    results = {}
    while len(results) < len(calls):
        n, result, error = done.get()
        if error:
            raise error
        results[n] = result
    return [results[n] for n in range(len(calls))]


def costs(world, options):
    cells = [(arm, minutes) for minutes in options.minutes for arm in ARMS]

    def one(n, arm, minutes):
        def call():
            time.sleep(n * APART)
            # In tmux's names of windows, a point has a meaning.
            name = f"{arm.key}-{minutes}m".replace(".", "_")
            return converse(world, arm, name, minutes * 60, options.speed, options.limit * 60, options.context)

        return call

    outcomes = side_by_side([one(n, *cell) for n, cell in enumerate(cells)], len(cells))
    rows = []
    for (arm, minutes), outcome in zip(cells, outcomes):
        row = {"arm": arm.key, "title": arm.title, "minutes": minutes} | asdict(outcome)
        del row["delay"]
        rows.append(row)
    return rows


def delays(world, options):
    """Pollers whose job ends somewhere between two polls; then tmux-task in real time."""
    rows = []
    pollers = [arm for arm in ARMS if arm.key in ("poll-5", "poll-30")] + ([] if options.quick else [BACKED_OFF])

    def poll(arm, n):
        pause = arm.pause(0) + options.reply
        seconds = pause + random.uniform(0, pause)
        return lambda: converse(world, arm, f"{arm.key}-d{n}", seconds, options.speed, options.limit * 60, options.context)

    for arm in pollers:
        outcomes = side_by_side([poll(arm, n) for n in range(options.samples)], AT_ONCE[arm.key])
        rows.append(delay_row(arm, [one.delay * options.speed for one in outcomes], options.speed))
    # Nothing else runs now, and the model answers at once.
    world.model.reply = 0
    for arm in ARMS:
        if not arm.pause:
            outcomes = [converse(world, arm, f"{arm.key}-d{n}", random.uniform(0.3, 0.8), 1, 600, options.context) for n in range(options.samples)]
            rows.append(delay_row(arm, [one.delay for one in outcomes], 1))
    return rows


def delay_row(arm, seconds, speed):
    seconds.sort()
    return {
        "arm": arm.key, "title": arm.title, "samples": len(seconds), "speed": speed,
        "median_s": round(seconds[len(seconds) // 2], 4), "longest_s": round(seconds[-1], 4),
    }


def table(head, rows):
    rows = [head, *rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    for row in rows:
        first, *rest = (cell.ljust(width) if n == 0 else cell.rjust(width) for n, (cell, width) in enumerate(zip(row, widths)))
        print("  ".join([first, *rest]).rstrip())
    print()


def show(result):
    setting = result["setting"]
    print(f"Costs: from the prompt to the request that tells of the end; {setting['context']} tokens before the prompt,")
    print(f"{setting['reply_s']:g} s for an answer, calls of {setting['limit_min']:g} minutes at most; time compressed {setting['speed']:g} times\n")
    table(
        ["way to wait", "job", "requests", "input tokens", "with a cache", "last request"],
        [[row["title"], f"{row['minutes']} min", str(row["requests"]), f"{row['input_tokens']:,}", f"{row['with_cache']:,}", f"{row['last_tokens']:,}"]
         for row in result["costs"]],
    )
    print("Delays: from the end of the job to the model's request that tells of it\n")
    table(
        ["way to wait", "jobs", "time", "median s", "longest s"],
        [[row["title"], str(row["samples"]), "real" if row["speed"] == 1 else f"{row['speed']:g} times", f"{row['median_s']:.3f}", f"{row['longest_s']:.3f}"]
         for row in result["delays"]],
    )
    if result["missed"] is None:
        print("Missed events: skipped; name a checkout of the benchmark with --tmuxbench")
        return
    print("Missed events of the benchmark's event tasks\n")
    table(
        ["arm", "missed", "which"],
        [[row["title"], f"{len(row['missed'])} of {row['events']}", " ".join(row["missed"]) or "-"] for row in result["missed"]],
    )


def on_signals(handler):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def stop(number, _):
    on_signals(signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    options = parse()
    on_signals(stop)
    began = time.monotonic()
    world = None
    try:
        world = World(options)
        world.start()
        version = world.run("tmux-task", "--version").strip()
        result = {
            "setting": {
                "tmux-task": version, "tmux": world.run("tmux", "-V").strip(), "context": options.context, "reply_s": options.reply,
                "limit_min": options.limit, "speed": options.speed, "quick": options.quick,
            },
            "costs": costs(world, options),
            "delays": delays(world, options),
            "missed": missed.run(world, options.tmuxbench, side_by_side) if options.tmuxbench else None,
        }
        result["setting"]["seconds"] = round(time.monotonic() - began)
    except (RuntimeError, OSError) as error:
        sys.exit(f"waiting.py: {error}")
    finally:
        # What is begun to be removed is removed.
        on_signals(signal.SIG_IGN)
        if world:
            world.end()
    if options.picture:
        with open(options.picture, "w", encoding="utf-8") as file:
            file.write(chart.svg(result))
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)


if __name__ == "__main__":
    main()
