"""Two conversations at the same time: each hears of its own tasks, and of no others.

The conversations start tasks at the same time, in rounds, and each round's tasks end within a
second, those of both mixed.
"""
import json
import time

from clients import WATCH, Claude, Codex, Opencode, Pi, until

ROUNDS = 10
TASKS = 10

# By the name of the scenario.
PAIRS = {
    "claude+claude": (Claude, Claude),
    "codex+codex": (Codex, Codex),
    "opencode+opencode": (Opencode, Opencode),
    "pi+pi": (Pi, Pi),
    "pi+claude": (Pi, Claude),
    "claude+opencode": (Claude, Opencode),
    "codex+opencode": (Codex, Opencode),
}


def ends(client):
    """The text by which each of the conversation's tasks is reported."""
    return [f"({client.mark}-{n}) exited with code 7" for n in range(ROUNDS * TASKS)]


def shell_variable(client, name):
    """A variable of the client's shell."""
    client.run(f'echo "{name} is <${name}>"')
    said = f"{name} is <"
    text = until(f"the shell's {name}", lambda: next((text for text in client.last_request() if said in text and "RUN" not in text), None))
    return text.split(said)[1].split(">")[0]


def begin(one, other):
    """Starts both. Their tasks are in one session, but for two of Pi."""
    one.start()
    if isinstance(one, Pi) and not isinstance(other, Pi):
        # A client that is started in a shell of Pi has its session, and finds its variables.
        for name in ("TMUX_TASK_SESSION", "TMUX_TASK_OWNER", "PI_SESSION_ID"):
            other.env[name] = shell_variable(one, name)
    other.start()


def follow_ups(world, session):
    lines = world.task("feed", "--kind", "followUp", session=session).stdout.splitlines()
    return [json.loads(line) for line in lines]


def delays(world, client, session):
    """From the end of each task to the request that has it, in milliseconds."""
    requests = [(at, "\n".join(texts)) for at, texts in world.model.requests if any(f"# {client.mark} " in text for text in texts)]
    ended = {}
    for record in follow_ups(world, session):
        for event in (event for event in record["message"]["details"]["events"] if event["type"] == "exited"):
            ended[event["task"]["windowName"]] = event["task"]["endedAt"] / 1000
    names = [f"{client.mark}-{n}" for n in range(ROUNDS * TASKS)]
    return sorted(1000 * (next(at for at, texts in requests if f"({name}) exited" in texts) - ended[name]) for name in names)


def pair(world, first, second):
    # Neither conversation's messages are to be summed up.
    world.write(f"{world.home}/.config/tmux-task/config.toml", "[agents]\nmax-per-minute = 1000\n")
    world.install(*dict.fromkeys((first, second)))
    one, other = first(world, "one"), second(world, "other")
    begin(one, other)
    began = time.monotonic()
    for n in range(0, ROUNDS * TASKS, TASKS):
        for client in (one, other):
            start = f"tmux-task run {client.mark}-$n -- 'sleep 0.$((RANDOM % 10)); exit 7' >/dev/null"
            client.run(f"for n in $(seq {n} {n + TASKS - 1}); do {start}; done")
        for client in (one, other):
            texts = ends(client)[n:n + TASKS]
            until(f"{client.name} `{client.mark}` has heard of the round {n // TASKS}", lambda: all(client.heard(text) for text in texts))
    took = time.monotonic() - began
    time.sleep(WATCH)
    for client, others in ((one, other), (other, one)):
        wrong = {text: client.heard(text) for text in ends(client) if client.heard(text) != 1}
        foreign = [text for text in ends(others) if client.heard(text)]
        if wrong or foreign:
            raise SystemExit(f"{client.name} `{client.mark}`: not once {wrong}; of the other {foreign}")
        own = shell_variable(client, "TMUX_TASK_SESSION")
        ms = delays(world, client, own)
        messages = "\n".join(client.last_request()).count("[tmux-task notification]")
        print(f"{client.name}: {len(ms)} exits, each once, none of the other's; {messages} messages; {ms[len(ms) // 2]:.0f} ms (median), {ms[-1]:.0f} ms (longest)")
    print(f"{took:.0f} s")
