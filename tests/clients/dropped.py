"""Claude Code drops a message, or its model has not answered it: it is given again, and told once."""
import json
import time

from clients import WATCH, Claude, ClaudeTui, until

# A tool call that lasts until the turn is interrupted.
LONG = "python3 -c 'import time; time.sleep(1000)'"


def exited(name):
    return f"({name}) exited with code 3"


def until_recorded(world, name):
    """Waits until the feed has the message of the task's end."""
    until(f"`{name}` ends", lambda: f'"{name}"' in world.task("feed", "--kind", "followUp").stdout)


def consumers(world):
    return {one["name"]: one for one in json.loads(world.task("consumer", "ls", "--json").stdout)["consumers"]}


def until_acknowledged(world):
    # Of conversations that are followed.
    until("every message is acknowledged", lambda: all(one["lag"] == 0 for one in consumers(world).values() if one["reader"]))


def expect(client, name, n):
    """Watches for a message that comes too often."""
    time.sleep(WATCH)
    if client.heard(exited(name)) != n:
        raise SystemExit(f"told {client.heard(exited(name))} times, and not {n}: {name}")


def interrupt_answer(world, client, name):
    """A task ends, and the user presses Escape while the model is about to answer its message."""
    client.run(f"tmux-task run {name} -- 'sleep 3; exit 3'")
    until("the model has the task's window", lambda: client.heard(f"task={name}"))
    world.model.answers.clear()
    until(f"the model is asked about `{name}`", lambda: client.heard(exited(name)))
    client.escape()
    world.model.answers.set()


def escape(world):
    """Escape during a tool call, before and after the message; and while the model answers it."""
    world.install(ClaudeTui)
    client = ClaudeTui(world)
    client.start()
    client.run(f"tmux-task run queued -- 'sleep 3; exit 3'; {LONG}")
    until_recorded(world, "queued")
    time.sleep(1)
    client.escape()
    until("the model has heard of `queued`", lambda: client.heard(exited("queued")))
    client.run(f"tmux-task run later -- 'sleep 6; exit 3'; {LONG}")
    until("the tool runs", lambda: "later" in world.task("ls").stdout)
    client.escape()
    until("the model has heard of `later`", lambda: client.heard(exited("later")))
    expect(client, "queued", 1)
    expect(client, "later", 1)
    until_acknowledged(world)
    interrupt_answer(world, client, "unanswered")
    # The first one stays in the conversation.
    until("the model hears of `unanswered` again", lambda: client.heard(exited("unanswered")) == 2)
    until_acknowledged(world)
    expect(client, "unanswered", 2)


def clear(world):
    """`/clear` begins another conversation: the old one gets its messages when it is resumed."""
    world.install(ClaudeTui)
    client = ClaudeTui(world)

    def clear_and_resume(name):
        known = consumers(world)
        client.prompt("/clear")
        until("the new conversation is followed", lambda: any(found["reader"] for one, found in consumers(world).items() if one not in known))
        until_recorded(world, name)
        client.run("echo the new conversation")
        until("the new conversation's turn", lambda: client.heard("the new conversation"))
        time.sleep(WATCH)
        if client.heard(f"({name})"):
            raise SystemExit("the new conversation was told")
        client.crash()
        client.start(resume=old)

    client.start()
    interrupt_answer(world, client, "unanswered")
    old = next(iter(consumers(world))).split(":", 1)[1]
    clear_and_resume("unanswered")
    # The first one stays in the conversation.
    until("the model hears of `unanswered` again", lambda: client.heard(exited("unanswered")) == 2)
    client.run("tmux-task run later -- 'sleep 6; exit 3'")
    until("the model has the task's window", lambda: client.heard("task=later"))
    clear_and_resume("later")
    until("the model has heard of `later`", lambda: client.heard(exited("later")))
    until_acknowledged(world)
    expect(client, "later", 1)
    expect(client, "unanswered", 2)


def removed(world):
    """The host empties the queue that the message is in, as it is only during a turn."""
    world.write(f"{world.home}/.config/tmux-task/config.toml", '[agents]\ndeliver = "next-step"\n')
    world.install(Claude)
    client = Claude(world)
    client.start()
    client.run(f"tmux-task run removed -- 'sleep 3; exit 3'; {LONG}")
    until_recorded(world, "removed")
    time.sleep(1)
    client.say({"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt", "cancel_queued": True}})
    time.sleep(WATCH)
    if client.heard(exited("removed")):
        raise SystemExit("the message was not removed")
    until("the model has heard of `removed`", lambda: client.heard(exited("removed")))
    until_acknowledged(world)
    expect(client, "removed", 1)


DROPPED = {scenario.__name__: scenario for scenario in (escape, clear, removed)}
