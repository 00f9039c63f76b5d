//! Ending runs: commands, time limits and launches into a live slot.

use super::*;

#[test]
fn a_run_that_a_command_ends() {
    check(
        "
        ## a kill is told once when nothing is left, with how the run ended
        RUNS
        kill a
        look RUNS => look barrier; mark [(WindowId(1), 7, UserKilled)]
        job done => end @1 7 SIGTERM 10s
        # A look that shows its end tells nothing.
        shows life 1; @1#1 a dead 0 pid=7 ended=5
        told => nothing
        alive => true
        ignore
        ended @1 => archive @1
        closing => .. answer 1
        told => disappeared @1#1 userKilled

        ## a window that closes by itself is told once as well
        RUNS
        killing a
        # What else runs there is waited for.
        shows life 1; ended @1#1 a dead 3 pid=7 => not answer
        told => disappeared @1#1 userKilled
        shows life 1 => not answer
        told => nothing
        ended @1 => .. answer 1

        ## what a daemon had begun the next one finishes
        life 1; @1#1 a running pid=7 ending=userKilled asker=laptop
        ending => userKilled
        ended @1
        look life 1; @1#1 a dead 0 pid=7 ended=5 ending=userKilled asker=laptop
        closing
        told => disappeared @1#1 userKilled for laptop

        ## a client that leaves does not stop what has begun
        RUNS
        killing a
        leave 1
        ignore
        ended @1
        look life 1; @1#1 a dead 0 pid=7 ended=5
        closing => not answer
        told => disappeared @1#1 userKilled

        ## a second command shortens the time and both are answered
        RUNS
        killing a
        kill a by pi:1 at once
        look RUNS => look barrier; end @1 7 SIGTERM 0ns asked
        ended @1
        look life 1; @1#1 a dead SIGKILL pid=7 ended=5
        closing => .. answer 1; .. answer 2
        told => disappeared @1#1 userKilled

        ## a run ends when its time is over
        life 1; @1#1 a running pid=7 started=1000000 limit=2000
        after 1900 => not mark
        after 200 => .. mark [(WindowId(1), 7, TimedOut)]
        job done
        ended @1
        look life 1; @1#1 a dead 143 pid=7 started=1000000 ended=5 limit=2000
        closing
        told => disappeared @1#1 timedOut

        ## the end of a session that has not begun is given up with its client
        RUNS
        kill all
        look RUNS => look barrier @1; find shared [WindowId(1)]
        # While it is found out which windows live on.
        leave 1
        job not shared => nothing
        ending => no

        ## a session whose runs have ended ends also without the client
        RUNS
        kill all
        look RUNS
        job not shared
        job done
        ignore
        ended @1
        # The session is about to be ended, after the output of its run is archived.
        look life 1; @1#1 a dead 143 pid=7 ended=5 => look @1; archive @1
        leave 1
        chores
        job not shared
        look missing
        told => disappeared @1#1 userKilled for laptop
        ",
    );
}

#[test]
fn a_window_is_closed_when_a_look_after_the_end_has_shown_it_however_late() {
    // If tmux still shows it as alive then, its terminal is held by another process.
    for shown in ["life 1; @1#1 a dead 143 pid=7 ended=5", RUNS] {
        let story = "
            RUNS
            killing a
            ended @1 => look @1
            now 5000 => nothing
            look SHOWN => archive @1
            closing
            told => disappeared @1#1 userKilled
            ";
        check(&story.replace("SHOWN", shown));
    }
}

#[test]
fn an_end_says_who_asked_from_another_machine() {
    // Whether its window is closed, goes by itself, or is gone before a look has shown its end.
    for shown in [
        "life 1; @1#1 a dead 3 pid=7\nclosing",
        "life 1; ended @1#1 a dead 3 pid=7",
        "life 1",
    ] {
        let story = "RUNS
            killing a by pi:1
            ended @1
            look SHOWN
            told => disappeared @1#1 agentKilled for pi:1@laptop";
        let story = story.replace("SHOWN", shown);
        let lines: Vec<&str> = story.lines().map(str::trim).collect();
        check(&lines.join("\n"));
    }
}

#[test]
fn the_next_run_waits_for_the_last_one_also_without_its_window() {
    let dead = "shows life 1; @1#1 a dead 143 pid=7 ended=5";
    for looks in [
        &["shows life 1"][..],
        &[dead, "shows life 1"],
        &["shows missing"],
    ] {
        let mut driver = Driver::new(RUNS);
        driver.play("run a\nlook RUNS\njob live 7\nignore");
        driver.play(&looks.join("\n"));
        driver.play("chores => not launch\nended @1\nchores => .. launch a over [7]");
    }
}

impl Driver {
    /// Finishes marks and archiving, and looks, which show this.
    fn finish_while_shown(&mut self, shown: &str) {
        while self.job.is_some() && !matches!(self.job, Some(Job::Kill(..))) {
            if self.is_looking() {
                self.look(shown);
            } else {
                self.finish("done");
            }
        }
    }
}

#[test]
fn what_cannot_be_ended_is_named_and_its_end_is_told_like_any_other() {
    let runs = "life 1; @1#1 a running pid=7; @2#1 b running pid=8";
    let both = "life 1; @1#1 a dead 0 pid=7 ended=5; @2#1 b dead 0 pid=8 ended=5";
    let mut driver = Driver::new(runs);
    driver.step("kill a b");
    driver.look(runs);
    driver.finish("done");
    driver.step(&format!("shows {both}"));
    driver.step("ended @1 sudo");
    // The mark is removed, and a look shows its end.
    driver.finish_while_shown(both);
    driver.play("told => exited @1#1 0\nended @2");
    driver.finish_while_shown(both);
    driver.play(
        "
        job closed
        look life 1; @1#1 a dead 0 pid=7 ended=5
            => .. refuse 1: could not end @1 (a): sudo (pid 9, another user's) still runs
        told => disappeared @2#1 userKilled
        ",
    );
}

#[test]
fn what_was_killed_while_we_were_ending_it_was_killed_by_us_also_for_the_next_daemon() {
    const KILLED: &str = "life 1; @1#1 a dead SIGKILL pid=7 ended=5";
    let hint = |driver: &Driver| {
        let task = driver.session.state().task(WindowId(1)).unwrap();
        task.exit_hint()
    };
    let mut driver = Driver::new(RUNS);
    driver.play("killing a\nended @1 sudo");
    driver.finish_while_shown(KILLED);
    driver.play("told => exited @1#1 SIGKILL");
    assert_eq!(hint(&driver), None);
    let mut next = Driver::new(&format!("{KILLED} ours"));
    next.step(&format!("shows {KILLED}"));
    assert_eq!(hint(&next), None);
    // Nothing of ours has ended the next run.
    next.step("shows life 1; @1#2 a dead SIGKILL pid=8 ended=9");
    assert!(hint(&next).is_some());
}

#[test]
fn a_launch_into_a_live_slot() {
    check(
        "
        ## a live run ends before the next one starts in its slot
        RUNS
        run a
        look RUNS => look barrier @1; launch a
        job live 7 => end @1 7 SIGTERM 10s
        ended @1
        look life 1; @1#1 a dead 143 pid=7 ended=5 => look @1; archive @1
        job done => launch a over [7]
        job launched @1
        look life 1; @1#2 a running pid=8
        told => exited @1#1 143 replaced by launcher; rerun @1#2

        ## launches into one slot follow each other
        RUNS
        run a
        run a
        look RUNS
        look RUNS
        job live 7
        ended @1
        look life 1; @1#1 a dead 143 pid=7 ended=5
        chores
        ignore
        job launched @1
        look life 1; @1#2 a running pid=8
        job live 8 => .. end @1 8 SIGTERM 10s
        ended @1
        look life 1; @1#2 a dead 143 pid=8 ended=5 => look @1; archive @1
        chores => launch a over [8]

        ## a launch whose client has left makes room for the next
        RUNS
        run a
        run a
        look RUNS
        look RUNS
        job live 7
        leave 1
        ended @1
        looks life 1; @1#1 a dead 143 pid=7 ended=5
        chores
        ended @1
        looks life 1; @1#1 a dead 143 pid=7 ended=5
        chores => .. launch a

        ## nothing is ended for a launch that is refused or whose client has left
        RUNS
        run a
        look RUNS
        ignore
        fails two windows are named `a` => refuse 1: two windows are named `a`
        run a
        look RUNS
        leave 2
        ignore
        job live 7 => not end
        ending => no

        ## a live run that no look has shown is looked at before it is ended
        RUNS
        run a
        look RUNS
        ignore
        # A user has respawned its pane.
        job live 9 => look @1
        look life 1; @1#2 a running pid=9
        ignore
        job live 9 => end @1 9 SIGTERM 10s

        ## an end whose launch has failed is told like any other
        RUNS
        run a
        look RUNS
        job live 7
        ended @1
        look life 1; @1#1 a dead 143 pid=7 ended=5
        chores
        fails tmux does not answer
        look life 1; @1#1 a dead 143 pid=7 ended=5
        told => exited @1#1 143
        ",
    );
}
