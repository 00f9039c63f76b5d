"""Runs the survey of prompts: see prompts.sh.

A case is a line of a table in cases/*.toml:

  name, waits    waits: whether a person is expected to type before the program goes on.
                 Write it down before the case is run for the first time
  run            a shell command, or instead one of the keys of SCRIPTS: a script's text.
                 `run` beside a script says how to run it: {script} is its path
  apt, pip, npm  packages that it needs
  needs          programs that it needs and no package provides
  files          name and text of files in its working directory
  keys           keys by tmux's names, or texts, typed one by one after `after` seconds (5)
  shows          a regular expression that the last screen must match, else the case is broken
  ends           the program may end while it is observed
  kind, note     for the reader; `kind` at the top of a file is the default of its cases
"""

import argparse
import ctypes
import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("SURVEY_HOME", "/nonexistent"))
PROGRAM = os.environ.get("TMUX_TASK_PROGRAM", "tmux-task")
RECALL = 0.97
KEY_AFTER, KEY_PAUSE = 5, 1.5
PATH = f"{HOME}/venv/bin:{HOME}/npm/node_modules/.bin:{os.environ['PATH']}:/usr/sbin:/sbin:/usr/games"

# Language, name of the file, how it is run.
SCRIPTS = {
    "bash": ("case.bash", "bash {script}"),
    "python": ("case.py", "python3 {script}"),
    "node": ("case.js", "node {script}"),
    "module": ("case.mjs", "node {script}"),
    "c": ("case.c", "cc -w -o case {script} -lncurses -lmenu -lform -lpthread -lutil && ./case"),
    "perl": ("case.pl", "perl {script}"),
    "ruby": ("case.rb", "ruby {script}"),
    "tcl": ("case.tcl", "tclsh {script}"),
    "expect": ("case.exp", "expect {script}"),
    "php": ("case.php", "php {script}"),
    "lua": ("case.lua", "lua5.4 {script}"),
}
FIELDS = {"name", "waits", "run", "apt", "pip", "npm", "needs", "files", "keys", "after", "shows", "ends", "kind", "note"}
# What the scripts of a language need.
LANGUAGES = {"c": ["libncurses-dev"], "ruby": ["ruby"], "tcl": ["tcl"], "expect": ["expect"], "php": ["php-cli"], "lua": ["lua5.4"]}

HIDES_CALLS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

static int is_hidden(const char *path) {
    const char *name = strrchr(path, '/');
    return strncmp(path, "/proc/", 6) == 0 && (!strcmp(name, "/syscall") || !strcmp(name, "/mem"));
}
#define HIDE(name, parameters, ...)                                    \
    int name parameters {                                              \
        if (is_hidden(path)) { errno = EACCES; return -1; }            \
        va_list rest; va_start(rest, flags);                           \
        int mode = va_arg(rest, int); va_end(rest);                    \
        int (*next) parameters = dlsym(RTLD_NEXT, #name);              \
        return next(__VA_ARGS__, mode);                                \
    }
HIDE(open, (const char *path, int flags, ...), path, flags)
HIDE(open64, (const char *path, int flags, ...), path, flags)
HIDE(openat, (int folder, const char *path, int flags, ...), folder, path, flags)
HIDE(openat64, (int folder, const char *path, int flags, ...), folder, path, flags)
"""


def load_cases(only):
    cases, names = [], set()
    for path in sorted((HERE / "cases").glob("*.toml")):
        table = tomllib.loads(path.read_text())
        for case in table["case"]:
            case = {"kind": table["kind"]} | case
            language = next((name for name in SCRIPTS if name in case), None)
            where = f"{path.name}: {case.get('name')}"
            if unknown := case.keys() - FIELDS - SCRIPTS.keys():
                sys.exit(f"error: {where}: unknown key {unknown.pop()}")
            if case["name"] in names or not isinstance(case["waits"], bool) or not (language or "run" in case):
                sys.exit(f"error: {where}: needs a name of its own, `waits`, and what to run")
            names.add(case["name"])
            if language and case.get("run", "").find("{script}") < 0:
                case["run"] = SCRIPTS[language][1] + case.get("run", "")
            case["language"] = language
            case["apt"] = case.get("apt", []) + LANGUAGES.get(language, [])
            if only is None or re.search(only, f"{path.stem} {case['kind']} {case['name']}"):
                cases.append(case)
    return cases


def missing(kind, packages):
    """Those of the packages that are not installed."""
    if kind == "apt":
        shown = subprocess.run(["dpkg-query", "-W", "-f", "${Status} ${Package}\n"], capture_output=True, text=True)
        installed = {line.split()[-1] for line in shown.stdout.splitlines() if line.startswith("install ok installed")}
        return [package for package in packages if package not in installed]
    if kind == "npm":
        bare = lambda package: package[:1] + package[1:].split("@")[0]
        return [package for package in packages if not (HOME / "npm/node_modules" / bare(package)).is_dir()]
    code = "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'])"
    python = HOME / "venv/bin/python"
    listed = subprocess.run([python, "-c", code], capture_output=True, text=True).stdout if python.exists() else ""
    plain = lambda name: re.sub(r"[-_.]+", "-", name).lower()
    installed = {plain(name) for name in listed.split()}
    return [package for package in packages if plain(package) not in installed]


def all_packages(kind, cases):
    return sorted({package for case in cases for package in case.get(kind, [])})


class World:
    """A tmux server with a task session and a daemon, in a folder of its own."""

    def __init__(self, folder, mode):
        self.folder, self.mode = folder, mode
        for name in ("tmux", "run", "state", "home"):
            (folder / name).mkdir(mode=0o700, parents=True)
        self.env = {
            "PATH": PATH,
            "SHELL": "/bin/bash", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "USER": getpass.getuser(), "LOGNAME": getpass.getuser(),
            "TMUX_TMPDIR": f"{folder}/tmux", "XDG_RUNTIME_DIR": f"{folder}/run", "XDG_STATE_HOME": f"{folder}/state",
            "HOME": f"{folder}/home", "NODE_PATH": f"{HOME}/npm/node_modules", "TMUX_TASK_SESSION": "survey",
            "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "A",
            "GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "a@example.org",
            "TMUX_TASK_TMUX": shutil.which("tmux"),
        }
        self.call("tmux", "-L", "survey", "-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "-s", "survey", "sleep 1d")
        preloaded = {"LD_PRELOAD": f"{folder.parents[1]}/hide.so"} if mode == "hidden" else {}
        is_hidden = not self.call("cat", "/proc/self/syscall", env=preloaded, check=False)
        if is_hidden != (mode == "hidden"):
            sys.exit(f"error: mode {mode}: system calls are {'hidden' if is_hidden else 'not hidden'}")
        self.task("daemon", "--detach", env=preloaded)

    def call(self, *args, cwd=None, env={}, check=True):
        return subprocess.run(args, cwd=cwd, env=self.env | env, check=check, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=60).stdout

    def tmux(self, *args, **options):
        return self.call("tmux", "-L", "survey", *args, **options)

    def task(self, *args, **options):
        return self.call(PROGRAM, "-L", "survey", *args, **options)

    def launch(self, case):
        cwd = self.folder / case["name"]
        (cwd / "home").mkdir(parents=True)
        for name, text in case.get("files", {}).items():
            (cwd / name).parent.mkdir(parents=True, exist_ok=True)
            (cwd / name).write_text(text)
        if case.get("npm"):
            (cwd / "node_modules").symlink_to(HOME / "npm/node_modules")
        if language := case["language"]:
            (cwd / SCRIPTS[language][0]).write_text(case[language])
        command = case["run"].replace("{script}", SCRIPTS[language][0]) if language else case["run"]
        self.task("run", case["name"], "--", command, cwd=cwd, env={"HOME": str(cwd / "home"), "XDG_STATE_HOME": self.env["XDG_STATE_HOME"]})
        return time.time()

    def type_key(self, case, key):
        self.tmux("send-keys", "-t", f"survey:={case['name']}", key, check=False)
        return time.time()

    def results(self, cases, launched, typed):
        panes = self.tmux("list-panes", "-s", "-t", "survey", "-F", "#{window_name} #{pane_dead}").splitlines()
        dead = {line.split()[0] for line in panes if line.endswith(" 1")}
        feed = [json.loads(line) for line in self.task("feed").splitlines()]
        for case in cases:
            name = case["name"]
            explained = json.loads(self.task("explain", name, "--json", check=False) or "{}")
            screen = self.tmux("capture-pane", "-p", "-t", f"survey:={name}", check=False).rstrip()
            inputs = [record for record in feed if record.get("type") == "input" and record["task"]["windowName"] == name]
            since = typed.get(name, 0)
            at = lambda record: datetime.fromisoformat(record["time"]).timestamp()
            # An episode that began before the last key may still last.
            counted = [record for record in inputs if at(record) >= since]
            if not counted and explained.get("waitingSince"):
                counted = inputs[-1:]
            ended = name in dead and (not case.get("ends") or (case["waits"] and not counted))
            broken = ended or ("shows" in case and not re.search(case["shows"], screen, re.M))
            outcome = "broken" if broken else {(True, True): "found", (True, False): "missed",
                                               (False, True): "false", (False, False): "quiet"}[case["waits"], bool(counted)]
            first = counted[0] if counted else {}
            yield {"name": name, "kind": case["kind"], "mode": self.mode, "waits": case["waits"], "outcome": outcome,
                   "reportedAfter": round(at(first) - launched[name], 2) if first else None, "prompts": len(counted),
                   "prompt": first.get("prompt"), "promptKind": first.get("promptKind"), "screen": screen, "explain": explained}


def run_batch(folder, cases, modes, watch):
    """The cases in each mode, side by side."""
    worlds = [World(folder / mode, mode) for mode in modes]
    launched, typed, keys = [{} for _ in worlds], [{} for _ in worlds], []
    for case in cases:
        for index, world in enumerate(worlds):
            launched[index][case["name"]] = now = world.launch(case)
            for nth, key in enumerate(case.get("keys", [])):
                keys.append((now + case.get("after", KEY_AFTER) + nth * KEY_PAUSE, index, case, key))
    for due, index, case, key in sorted(keys, key=lambda entry: entry[0]):
        time.sleep(max(0, due - time.time()))
        typed[index][case["name"]] = worlds[index].type_key(case, key)
    observed = max(time for times in launched + typed for time in times.values()) + watch
    time.sleep(max(0, observed - time.time()))
    return [result for index, world in enumerate(worlds) for result in world.results(cases, launched[index], typed[index])]


def descendants():
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except (OSError, ValueError):
            continue  # it has ended
    found = list(parents.get(os.getpid(), []))
    for pid in found:
        found.extend(parents.get(pid, []))
    return found


def end_processes():
    """Ends all that was started. Orphans become children of this process: see `main`."""
    deadline = time.time() + 10
    while (alive := descendants()) and time.time() < deadline:
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def print_results(results, skipped, modes):
    for mode in modes:
        of_mode = [result for result in results if result["mode"] == mode]
        count = lambda outcome: sum(result["outcome"] == outcome for result in of_mode)
        waiting, other = count("found") + count("missed"), count("false") + count("quiet")
        print(f"{mode:7} found {count('found')} of {waiting} ({count('found') / max(waiting, 1):.3f}), "
              f"false {count('false')} of {other}, broken {count('broken')}, skipped {len(skipped)}")
    for outcome in ("missed", "false", "broken"):
        for result in (result for result in results if result["outcome"] == outcome):
            last = (result["screen"].splitlines() or [""])[-1].strip()
            detail = result["prompt"] if outcome == "false" else last
            print(f"{outcome:7} {result['mode']:6} {result['name']}: {detail!r}  rule: {result['explain'].get('rule')}")
    for name, why in skipped.items():
        print(f"skipped {name}: {why}")


def main():
    parser = argparse.ArgumentParser(prog="prompts.sh")
    parser.add_argument("--mode", choices=["shown", "hidden", "both"], default="shown")
    parser.add_argument("--only")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--watch", type=float, default=25, help="seconds that each program is observed")
    parser.add_argument("--missing", choices=["apt", "pip", "npm"], help="list the packages to install")
    args = parser.parse_args()
    cases = load_cases(args.only)
    absent = {kind: missing(kind, all_packages(kind, cases)) for kind in ([args.missing] if args.missing else ["apt", "pip", "npm"])}
    if args.missing:
        print(*absent[args.missing], sep="\n", end="\n" if absent[args.missing] else "")
        return 0
    modes = ["shown", "hidden"] if args.mode == "both" else [args.mode]
    skipped = {}
    for case in cases:
        lacks = [f"{kind} {package}" for kind in absent for package in case.get(kind, []) if package in absent[kind]]
        lacks += [program for program in case.get("needs", []) if not shutil.which(program, path=PATH)]
        if lacks:
            skipped[case["name"]] = "needs " + ", ".join(lacks)
    cases = [case for case in cases if case["name"] not in skipped]
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "results.jsonl").write_text("")
    # Heavy programs and slow ones of a file are spread over the batches.
    count = -(-len(cases) // args.jobs)  # rounded up
    batches = [cases[first::count] for first in range(count)]

    # Daemons and orphaned programs become children of this process, which ends them.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Sockets are in this folder, and their paths are limited to about 100 bytes.
    base = Path(tempfile.mkdtemp(prefix="tts.", dir="/tmp"))
    results = []
    try:
        (base / "hide.c").write_text(HIDES_CALLS)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", base / "hide.so", base / "hide.c", "-ldl"], check=True)
        for number, batch in enumerate(batches, 1):
            print(f"batch {number} of {count}: {' '.join(case['name'] for case in batch)}", flush=True)
            new = run_batch(base / str(number), batch, modes, args.watch)
            results += new
            if args.out:
                with open(args.out / "results.jsonl", "a") as lines:
                    lines.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in new)
            end_processes()
            shutil.rmtree(base / str(number), ignore_errors=True)
    except KeyboardInterrupt:
        print("interrupted: the results are of the batches before", file=sys.stderr)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_processes()
        shutil.rmtree(base, ignore_errors=True)
    print_results(results, skipped, modes)
    outcomes = [result["outcome"] for result in results]
    found, missed = outcomes.count("found"), outcomes.count("missed")
    return 0 if found >= RECALL * (found + missed) and "false" not in outcomes and results else 1


if __name__ == "__main__":
    sys.exit(main())
