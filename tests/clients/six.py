"""Six scenarios with one client: each end of a task is told once, whoever is killed."""
import json
import os
import signal
import time

from clients import WATCH, until

BURST = 10


def exited(name, code=3):
    return f"({name}) exited with code {code}"


def begin(client, name, command, more=""):
    """Lets the model start a task; returns when the model has its window."""
    client.run(f"tmux-task run {name} -- '{command}'{more}")
    # A shell with a terminal is told in other words.
    until(f"the model has the window of `{name}`", lambda: client.heard(f"task={name}") or client.heard(f" ({name}) in "))


def until_heard(client, *names):
    for name in names:
        until(f"the model has heard of `{name}`", lambda: client.heard(exited(name)))


def until_ended(world, name):
    """Waits until the task has ended, which may be known to no daemon yet."""
    ended = f"{world.root}/{name}"
    until(f"`{name}` ends", lambda: os.path.exists(ended))
    return ended


def noting(world, name, seconds):
    """A command that ends after so many seconds and leaves a file."""
    return f"sleep {seconds}; touch {world.root}/{name}; exit 3"


def idle(world, client):
    begin(client, "idle", "sleep 2; exit 3")
    until_heard(client, "idle")
    return ["idle"]


def busy(world, client):
    """The task ends while a long tool call runs, which is not aborted. Its message comes after the turn."""
    client.run("tmux-task run busy -- 'sleep 1; exit 3'; sleep 5; echo the tool has en''ded")
    until_heard(client, "busy")
    requests = ["\n".join(texts) for _, texts in world.model.requests]
    first = next((request for request in requests if "the tool has ended" in request), None)
    if first is None or exited("busy") in first:
        raise SystemExit(f"the message came within the turn: {first}")
    return ["busy"]


def burst(world, client):
    """Ten tasks end at once."""
    names = [f"burst{n}" for n in range(BURST)]
    gate = f"{world.root}/gate"
    client.run(f"for n in $(seq 0 {BURST - 1}); do tmux-task run burst$n -- 'until [ -e {gate} ]; do sleep 0.05; done; exit 3' >/dev/null; done; echo all ten ru''n")
    until("all run", lambda: client.heard("all ten run"))
    time.sleep(1)
    before = client.n_requests()
    world.write(gate, "")
    until_heard(client, *names)
    print(f"burst: {BURST} exits in {client.n_requests() - before} requests")
    return names


def daemonkill(world, client):
    begin(client, "daemonkill", noting(world, "daemonkill", 4))
    os.kill(json.loads(world.task("daemon", "status", "--json", session=client.task_session()).stdout)["pid"], signal.SIGKILL)
    until_heard(client, "daemonkill")
    return ["daemonkill"]


def restart(world, client):
    """The client quits, the task ends, the client resumes the conversation. Nobody types."""
    begin(client, "restart", noting(world, "restart", 6))
    time.sleep(0.5)
    client.quit()
    until_ended(world, "restart")
    client.start(resume=True)
    until_heard(client, "restart")
    return ["restart"]


def crash(world, client):
    begin(client, "crash", noting(world, "crash", 6))
    time.sleep(0.5)
    client.crash()
    until_ended(world, "crash")
    client.start(resume=True)
    until_heard(client, "crash")
    return ["crash"]


def six(world, kind):
    world.install(kind)
    client = kind(world)
    client.start()
    told = []
    for scenario in (idle, busy, burst, daemonkill, restart, crash):
        began = time.monotonic()
        told += scenario(world, client)
        print(f"{scenario.__name__}: {time.monotonic() - began:.1f} s")
    time.sleep(WATCH)
    wrong = {name: client.heard(exited(name)) for name in told if client.heard(exited(name)) != 1}
    if wrong:
        raise SystemExit(f"not told once: {wrong}")
    client.check(world)
    if client.once:
        client.ask_once(f"RUN: echo by itself # {client.mark} by itself")
    world.task("init", client.name, "--remove")
