//! Requests, and what their answers wait for.

use super::*;

#[test]
fn what_answers_wait_for() {
    check(
        "
        ## an answer waits for the disk, and a delivery for the answer
        RUNS
        wait @1
        look RUNS
        refuses
        windows
        ignore
        look life 1; @1#1 a dead 0 pid=7 => append event; read end of %1
        read => archive @1
        job done
        after 120 => nothing
        takes
        # The waiting client has the event: the delivery is a notice.
        stored 1 => answer 1 Exited; append notice

        ## a wait by name looks at what was reported and at its task
        life 1; @1#1 a running pid=7; @2#1 b running pid=8
        to work: wait b => look barrier @2
        look life 1; @1#1 a running pid=7; @2#1 b dead 3 pid=8
        read over
        chores
        after 100 => .. answer 1 Exited
        to work: wait c => look barrier
        look life 1; @1#1 a running pid=7; @2#1 b dead 3 pid=8
            => refuse 2: no task `c` in session `work`

        ## a launch that goes on to wait holds the delivery
        life 1; @1#1 a dead 0 pid=7
        run a and wait => look barrier @1
        look life 1; @1#1 a dead 0 pid=7 => launch a
        # The run has begun and ended between two looks.
        job launched @1 => look @1
        look life 1; @1#2 a dead 1 pid=8
        chores
        after 100 => append event; archive @1; answer 1
        wait @1
        look life 1; @1#2 a dead 1 pid=8
        read
        after 100 => .. answer 2 Exited; .. append notice

        ## while too much waits for the disk only requests take looks
        RUNS
        full
        windows
        after 60000
        deadline => none
        after 0 => nothing
        list => look barrier @1
        look RUNS => answer 1
        windows => nothing
        stored 0 => look

        ## a list asks for what is reported when there are few windows
        RUNS
        list => look barrier @1

        ## a look that fails answers with what is known
        RUNS
        list
        fails tmux hangs => .. answer 1
        problem => tasks cannot be looked at: tmux hangs

        ## a session that could not be looked at is not called missing
        missing
        list
        fails tmux hangs => .. refuse 1: tasks cannot be looked at: tmux hangs
        list
        look missing => .. answer 2

        ## output is archived before a command changes its window
        RUNS
        windows
        kill a
        look life 1; @1#1 a dead 0 pid=7
        ignore
        look life 1; @1#1 a dead 0 pid=7 => .. end @1 7 SIGTERM 10s over; .. archive @1
        ended @1 => nothing
        job done
        look life 1; @1#1 a dead 0 pid=7 => .. kill [WindowId(1)]
        ",
    );
    let many: Vec<String> = (1..50)
        .map(|n| format!("@{n}#1 a running pid={n}"))
        .collect();
    let mut driver = Driver::new(&format!("life 1; {}; @60#1 b dead 0", many.join("; ")));
    driver.play("list => look barrier @60");
}

#[test]
fn what_comes_of_a_client_that_leaves_or_another_name() {
    check(
        "
        ## a kill that comes during a launch finds its window
        RUNS
        run b => look barrier
        look RUNS => launch b
        kill b => nothing
        # One look for both.
        job launched @2 => look barrier @2
        look life 1; @1#1 a running pid=7; @2#1 b running pid=8
            => .. mark [(WindowId(2), 8, UserKilled)]

        ## a command whose client has left is not carried out
        # While its look is under way, as with a tmux that does not answer.
        RUNS
        kill a => look barrier
        leave 1
        fails tmux does not answer
        after 100 => not mark

        # While another command is under way.
        RUNS
        run b
        look RUNS => look barrier; launch b
        kill a
        leave 2
        fails tmux does not answer
        after 100 => not mark

        ## nothing is done for a client that leaves before it is known who has the name
        RUNS
        to before: kill a
        look RUNS => look barrier; find name before
        leave 1
        job named work
        after 100 => not mark

        ## a request that names another session does nothing
        RUNS
        to work: send a
        job not needed => look barrier; type @1
        job typed => answer 1
        to former: send a
        job not needed => look barrier; find name former
        fails another session has it => refuse 2: another session has it
        # The former name of this session, which no other one has.
        to former: send a
        job not needed
        ignore
        job named work => type @1
        ",
    );
}

#[test]
fn a_launched_run_that_no_look_shows_has_disappeared() {
    check(
        "
        ## its window is closed before a look
        RUNS
        run b
        ignore
        look RUNS => launch b
        job launched @2 => look @2
        look RUNS => append event; answer 1
        wait @2#1
        look RUNS
        after 100 => .. answer 2 Disappeared

        ## its end was recorded
        RUNS
        run b
        ignore
        look RUNS => launch b
        job launched @2 => look @2
        look life 1; ended @2#1 b dead 3 pid=8; @1#1 a running pid=7 => append event; answer 1
        wait @2#1
        look life 1; ended @2#1 b dead 3 pid=8; @1#1 a running pid=7
        after 100 => .. answer 2 Exited

        ## a first run that ends its own session
        missing
        run a at 1
        look missing
        job launched @1 => look barrier; launch a; look @1
        look missing => .. append event
        # The same ids on another server, launched later: another run.
        run a at 2
        look missing
        job launched @1 => look barrier; launch a; look @1
        look missing => .. append event
        told => disappeared @1#1; disappeared @1#1
        # One that a look contains is reported by that.
        run a at 3
        look missing
        job launched @1 => look barrier; launch a; look @1
        look RUNS => .. append event
        told => started @1#1

        ## it is reported as gone when a look succeeds
        missing
        run a at 1
        look missing
        job launched @1 => look barrier; launch a; look @1
        fails the server is about to end => not append event
        list
        look missing => .. append event
        list
        look missing => not append event
        ",
    );
}

#[test]
fn stopping_delivers_and_saves_while_a_job_is_out() {
    let mut driver = Driver::new(RUNS);
    driver.play("shows life 1; @1#1 a dead 0 pid=7 => .. archive @1");
    let (effects, archives) = driver.session.stop(driver.now);
    assert!(
        matches!(effects[..], [Effect::Append { .. }, Effect::Save(..)]),
        "{effects:?}"
    );
    assert!(archives.is_empty());
}

#[test]
fn looks_go_between_the_tasks_of_a_search() {
    check(
        "
        life 1; @1#1 a running pid=7; @2#1 b running pid=8; @3#1 c running pid=9
        search e => look barrier
        job not needed => read log of @1
        windows
        job found: one => look
        slice life 1; @1#1 a running pid=7; @3#1 c running pid=9
        ignore
        # A window that was closed meanwhile has no lines.
        fails can't find pane: %2
            => log Debug a window was closed before it was searched error=\"can't find pane: %2\" window=@2;
            read log of @3
        job found: three => answer 1 one three
        # A task that still exists was not searched: the answer would not be complete.
        search x in a
        job not needed
        ignore
        fails tmux does not answer => refuse 2: tmux does not answer
        ",
    );
}

#[test]
fn what_a_request_types_stays_together_and_others_go_on() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b running pid=8");
    driver.play("send a\njob not needed => .. type @1");
    let Some(Job::Type(typing, outcome)) = driver.job.take() else {
        panic!("nothing is typed");
    };
    let mut typing = typing.clone();
    typing.typed(vec!["Enter".to_owned()], false, driver.now.mono);
    let due = typing.progress.due;
    outcome.resolve(typing);
    driver.input(Input::Done(Ok(())));
    assert!(driver.job.is_none());
    assert!(driver.session.next_deadline() <= due);
    driver.play(
        "
        # Not into the same task.
        send a
        job not needed => not type @1
        send b
        job not needed => .. type @2
        job typed => answer 3
        # What has begun is finished, also without its client.
        leave 1
        ",
    );
    driver.now.mono = due.unwrap();
    driver.play(
        "
        now 0
        chores => .. type @1
        job typed => type @1
        job typed => answer 2
        ",
    );
}
