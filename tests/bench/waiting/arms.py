"""The ways to wait for a job: what the model does with each message, and how one conversation goes."""

import shlex
from dataclasses import dataclass

from agent import DEADLINE, Agent, Messages, with_cache

PROMPT = "Run the tests, and tell me when they are through and how they ended."
MARK = "test result: FAILED"

# A command must return before the client's limit, in seconds.
MARGIN = 10

# What a line of the job's output takes, in seconds of the job.
LINE = 2

# The pause of a poller that backs off: the first one, and the longest, in seconds.
FIRST, LONGEST = 5, 300


@dataclass(frozen=True)
class Arm:
    key: str
    title: str
    pause: object = None  # of pollers: the number of the poll -> seconds


ARMS = (
    Arm("poll-5", "poll every 5 s", lambda n: 5),
    Arm("poll-30", "poll every 30 s", lambda n: 30),
    Arm("backoff", "poll, pauses from 5 s doubling to 5 min", lambda n: min(FIRST * 2**n, LONGEST)),
    Arm("wait", "blocking wait, repeated at the limit"),
    Arm("wake", "tmux-task's message"),
)

# A poller that has backed off as far as it does.
BACKED_OFF = Arm("backed-off", "poll every 5 min (backed off)", lambda n: LONGEST)


@dataclass
class Outcome:
    requests: int
    input_tokens: int
    with_cache: int
    last_tokens: int  # the input tokens of the last request
    delay: float  # from the job's end to the request that tells of it, in real seconds


def text_of(seconds):
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def polling(arm, name, job, speed):
    """A model that starts the job in a window, and reads its screen again and again."""

    def rule(messages):
        last = messages[-1]
        if last["role"] == "user":
            start = f"tmux new-window -d -t polled: -n {name} {shlex.quote(job)}"
            return start, "Start the tests in a window"
        if "pane_dead=1" in last["content"]:
            return None
        n = sum(message["role"] == "tool" for message in messages) - 1
        pause = arm.pause(n)
        look = f"tmux capture-pane -p -t polled:{name} \\; display-message -p -t polled:{name} 'pane_dead=#{{pane_dead}} status=#{{pane_dead_status}}'"
        return f"sleep {text_of(pause / speed)}; {look}", f"Wait for {pause} seconds and look at the tests"

    return rule


def blocking(name, job, limit):
    """A model that waits inside a call, as long as its client lets it."""
    timeout = f"--timeout {text_of(limit)}s"

    def rule(messages):
        last = messages[-1]
        if last["role"] == "user":
            return f"tmux-task run {name} --wait {timeout} -- {job}", "Run the tests"
        if last["content"].endswith(("exit code 124\n", "exit code 4\n")):
            return f"tmux-task wait {name} {timeout}", "Wait for the tests"
        return None

    return rule


def waking(name, job):
    """A model that starts the job as a task and ends its turn."""

    def rule(messages):
        if messages[-1]["role"] == "user" and MARK not in messages[-1]["content"]:
            return f"tmux-task run {name} -- {job}", "Start the tests as a task"
        return None

    return rule


def converse(world, arm, name, seconds, speed, limit, context):
    """Has one conversation about a job of so many seconds; those and `limit` are as they are for the agent, and are
    divided by `speed`."""
    ended = f"{world.root}/ends/{name}"
    lines = max(1, round(seconds / LINE))
    job = shlex.join(["python3", "-I", world.job, text_of(seconds / speed), str(lines), ended])
    env = world.env | {"TMUX_TASK_OWNER": f"waiting:{name}"}
    if arm.pause:
        rule = polling(arm, name, job, speed)
    elif arm.key == "wait":
        rule = blocking(name, job, (limit - MARGIN) / speed)
    else:
        rule = waking(name, job)
    longest = 2 * seconds / speed + DEADLINE
    agent = world.keep(lambda: Agent(world.model, name, rule, env, world.root, limit / speed, context, longest))
    if arm.key == "wake":
        messages = world.keep(lambda: Messages(env["TMUX_TASK_OWNER"], env, world.root, longest))
        messages.until("sync")
        agent.turn(PROMPT)
        agent.turn(messages.next())
        world.drop(messages)
    else:
        agent.turn(PROMPT)
    world.drop(agent)
    if MARK not in agent.messages[-2]["content"]:
        raise RuntimeError(f"`{name}`: the model's last request does not tell how the job ended:\n{agent.messages[-2]['content']}")
    with open(ended, encoding="ascii") as file:
        end = float(file.read())
    arrivals = agent.arrivals()
    tokens = [n for _, n in arrivals]
    return Outcome(len(arrivals), sum(tokens), with_cache(arrivals, speed), tokens[-1], arrivals[-1][0] - end)
