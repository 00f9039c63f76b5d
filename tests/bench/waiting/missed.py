"""The event tasks of the benchmark "Missing Events" (github.com/posix4e/tmuxbench), run by its own harness without a
model. Its code stays where it is: a checkout is read, and run.

Its arms: `reference`, which knows the event and looks for it, and `naive`, which does not look. Ours is reactor.py,
which waits for tmux-task's message, reads the flag or the screen that the message speaks of, and reacts. It gets the
tasks twice, each time with a setup that first starts a daemon, because the events happen in the setup:

- windows as they are: mostly shells that the setup types into;
- started as tasks: the same commands by `tmux-task run`, with --notify-on for any output."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
AT_ONCE = 4


def fault_of(folder):
    """Why the benchmark cannot be run from this folder, or None."""
    if sys.version_info < (3, 11):
        return "the benchmark needs Python 3.11 or newer"
    if not os.path.isfile(f"{folder}/harness/run.py") or not os.path.isdir(f"{folder}/tasks"):
        return f"`{folder}` is not a checkout of the benchmark: it has no harness/run.py or no tasks"
    return None


def run(world, folder, side_by_side):
    folder = os.path.abspath(folder)
    harness, tasks = f"{folder}/harness/run.py", f"{folder}/tasks"
    events = {}
    for name in sorted(os.listdir(tasks)):
        file = os.path.join(tasks, name, "task.toml")
        toml = read(file) if os.path.isfile(file) else ""
        if re.search(r'^event = "', toml, re.MULTILINE):
            events[name] = toml
    # The windows that the benchmark types into are shells.
    config = f"{world.root}/config.toml"
    write(config, 'shells = "followUp"\n[notices]\nplaces = []\n')
    env = world.env | {"TMUX_TASK_CONFIG": config, "TMUX_TASK_TMUX": find("tmux", world.env), "REACTOR": f"{HERE}/reactor.py"}
    del env["TMUX_TASK_SESSION"]
    with tempfile.TemporaryDirectory(dir=world.root) as copies:
        script = f"{copies}/agent.sh"
        write(script, 'python3 "$REACTOR"; tmux-task -L "$BENCH_SOCKET" -s "$WATCHED" daemon stop\n')

        def reactor(way, change):
            def words(name):
                session, toml = change(events[name])
                copy = f"{copies}/{way}-{name}.toml"
                write(copy, toml)
                return {"WATCHED": session}, [copy, "--agent", "cmdfile", "--cmdfile", script]

            return words

        arms = {
            "its own: reference": lambda name: ({}, [f"{tasks}/{name}"]),
            "its own: naive": lambda name: ({}, [f"{tasks}/{name}", "--agent", "cmdfile", "--cmdfile", f"{tasks}/{name}/naive.sh"]),
            "tmux-task's message, windows as they are": reactor("windows", watched),
            "tmux-task's message, started as tasks": reactor("tasks", as_tasks),
        }

        def one(words_of, name):
            more, words = words_of(name)
            return lambda: graded(world, [harness, *words], env | more)

        outcomes = side_by_side([one(words_of, name) for words_of in arms.values() for name in events], AT_ONCE)
    rows = []
    for n, title in enumerate(arms):
        handled = dict(zip(events, outcomes[n * len(events):]))
        rows.append({"title": title, "events": len(handled), "missed": [name for name, is_handled in handled.items() if not is_handled]})
    return rows


class Harness:
    """The benchmark's harness with one task, in a process group of its own."""

    def __init__(self, words, env, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-B", *words, "--json"], env=env, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)


def graded(world, words, env):
    """Whether the benchmark counts the task's events as handled."""
    harness = world.keep(lambda: Harness(words, env, world.root))
    output, errors = harness.process.communicate()
    world.drop(harness)
    try:
        (result,) = json.loads(output)
    except ValueError:
        raise RuntimeError(f"the benchmark failed: {errors.strip()}") from None
    setup = result["phases"]["setup"]
    if setup["exit"] or setup["timeout"]:
        raise RuntimeError(f"the setup of {result['id']} failed: {setup['stderr']}")
    return all(result["events"].values())


def parts_of(toml):
    """The text before the setup's commands, these commands, the text behind them, and the session's name."""
    found = re.search(r"^(.*?\nsetup = '''\n)(.*?)('''\n.*)$", toml, re.DOTALL)
    session = found and re.search(r"^tmux new-session -d -s (\w+)", found[2], re.MULTILINE)
    if not session:
        raise RuntimeError("the benchmark's tasks are written in another way than they were")
    return *found.groups(), session[1]


def program(session):
    return f'tmux-task -L "$BENCH_SOCKET" -s {session}'


def watched(toml):
    """A task with a daemon for its session; returns the session and the text."""
    head, setup, tail, session = parts_of(toml)
    return session, f"{head}{program(session)} daemon --detach\n{setup}{tail}"


def as_tasks(toml):
    """A task whose commands are started by tmux-task; returns the session and the text."""
    head, setup, tail, session = parts_of(toml)
    typed = dict(re.findall(r"^tmux send-keys -t \w+:(\w+) '(.*)' Enter$", setup, re.MULTILINE))
    lines = [f"{program(session)} daemon --detach"]

    def launch(window, command):
        # Names of windows that are numbers are numbers of windows.
        name = f"window-{window}" if window.isdigit() else window
        lines.append(f"{program(session)} run {name} --notify-on . --regex -- '{command}'")

    for line in setup.splitlines():
        window = re.match(r"tmux new-window -t \w+: -n (\w+)(?: '(.*)')?$", line)
        keys = re.match(r"tmux send-keys -t \w+:(\w+) ", line)
        if window and window[2]:
            launch(window[1], window[2])
        elif window and window[1] in typed:
            # Behind the command, the shell was still there.
            launch(window[1], f"{typed.pop(window[1])}; exec sleep 1000")
        elif keys and keys[1] in typed:
            launch(keys[1], f"{typed.pop(keys[1])}; exec sleep 1000")
        elif not keys:
            lines.append(line)
    return session, head + "\n".join(lines) + "\n" + tail


def find(name, env):
    return next(path for path in (f"{folder}/{name}" for folder in env["PATH"].split(":")) if os.access(path, os.X_OK))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
