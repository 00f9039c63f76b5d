"""When a client that works gets a message: after its turn, and at the next step of it where it can."""
import time

from clients import WATCH, until
from six import exited


def turns(world, kind):
    for deliver in kind.delivers:
        # The adapter reads it when it starts.
        world.write(f"{world.home}/.config/tmux-task/config.toml", f'[agents]\ndeliver = "{deliver}"\n')
        if deliver == "after-turn":
            world.install(kind)
            client = kind(world)
        else:
            client.crash()
        client.start(resume=deliver == "next-step")
        client.run(f"tmux-task run {deliver} -- 'sleep 1; exit 3'; sleep 4 THEN: echo {deliver} is o''ver")

        def last_step():
            requests = ("\n".join(texts) for _, texts in world.model.requests)
            return next((request for request in requests if f"{deliver} is over" in request), None)

        step = until("the last step of the turn", last_step)
        until(f"the model has heard of `{deliver}`", lambda: client.heard(exited(deliver)))
        if (exited(deliver) in step) != (deliver == "next-step"):
            raise SystemExit(f"{deliver}: the last request of the turn has this: {step}")
        # The turn with the message ends, too.
        time.sleep(WATCH)
        if client.heard(exited(deliver)) != 1:
            raise SystemExit(f"{deliver}: told {client.heard(exited(deliver))} times")
