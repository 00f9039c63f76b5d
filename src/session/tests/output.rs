//! Waits and output listeners: output that is followed, read again or archived, and how runs end.

use super::*;

#[test]
fn how_the_output_of_a_run_reaches_its_waits() {
    check(
        r"
        ## output counts before the end of its run
        RUNS
        begin done
        windows => look
        # The look shows the end; the last output of the run has not arrived yet.
        look life 1; @1#1 a dead 0 pid=7 => append event; read last of %1 LastRow
        print all done\r\n => nothing
        # The wait was answered by the text, and the output for its answer is read before archiving.
        read all done => read end of %1
        read all done => answer 1 Matched; archive @1
        followed => nothing

        ## what tmux threw away at the end is read
        RUNS
        begin done after begin
        shows life 1; @1#1 a dead 0 pid=7
        ignore
        # The pane contains more than has arrived: only then the whole history is read.
        read begin|all done => read last of %1 All
        read begin|all done
        read begin|all done => .. answer 1 Matched

        ## a run that ends without the text is an outcome of its own
        RUNS
        begin done after begin
        shows life 1; @1#1 a dead 3 pid=7
        read begin
        ignore
        read begin => answer 1 Died; archive @1

        ## a pane that was paused is read from where it was
        RUNS
        begin done after one
        print \r\ntwo
        paused => look @1
        # Output that arrives while it is paused has a gap before it.
        print done
        look RUNS => read %1 All
        read one|two|three|done => read end of %1
        read one|two|three|done => .. answer 1 Matched

        ## a pane whose place is not found again has lost output
        RUNS
        begin done after one
        paused
        look RUNS
        read something|else|stands|here
        read => .. answer 1 AnchorLost

        ## a pane that was respawned before it was read is looked at again
        RUNS
        begin done after one
        paused
        look life 1; @1#1 a running pid=6
        ignore
        read one => look @1

        ## another connection may have lost output
        RUNS
        begin done
        reconnected
        shows RUNS
        read => .. answer 1 AnchorLost

        ## a pane that was read is followed only if it has a listener
        RUNS
        begin done after one
        paused
        look RUNS
        leave 1
        followed => nothing
        # The read itself makes the link follow the pane.
        follows
        read one
        followed => nothing

        ## an output stream gets all output and then the end
        RUNS
        follow @1
        look RUNS
        read old => look @1; read %1 LastRow; begun 1
        print \r\nnew\r\nlast => output 1 new
        shows life 1; @1#1 a dead 0 pid=7
        ignore
        read old|new|last => output 1 last; end 1; archive @1
        ",
    );
}

#[test]
fn how_waits_begin_and_end() {
    check(
        r"
        ## a look that is out says nothing to a wait that begins meanwhile
        RUNS
        windows => look
        wait @1 => nothing
        # For the previous run: it was requested before the wait.
        look life 1; @1#1 a dead 0 pid=7 => append event; look @1
        look life 1; @1#2 a running pid=8 => .. begun 1; not answer

        ## a wait that needs no history reads none
        RUNS
        wait @1 for change
        ignore
        look RUNS => read %1 LastRow
        followed => %1

        ## whoever leaves takes everything along
        # While the pane is being read.
        RUNS
        wait @1 for text
        look RUNS
        ignore
        leave 1
        read => nothing
        followed => nothing
        # While it waits.
        begin text
        leave 2
        followed => nothing
        print text => nothing
        # While the output for its answer is being read.
        begin text
        print text\r\n
        leave 3
        read text => not answer
        waits => 0

        ## a wait for a run whose window is closed knows its end
        life 1; @1#1 a running pid=7; @2#1 b running pid=9
        shows life 1; ended @1#1 a dead 3 pid=7; @2#1 b running pid=9
        ignore
        wait @1#1
        look life 1; @2#1 b running pid=9
        after 100 => .. answer 1 Exited
        wait @1#2
        look life 1; @2#1 b running pid=9
            => look @1; refuse 2: run 2 of @1 is over and its window is closed

        ## a read that comes behind output delays nothing else
        RUNS
        begin done after one
        wait @1 for two
        look RUNS => .. read %1 All
        job asked
        # Another wait begins with the next read; meanwhile the list is asked for.
        wait @1 for three
        look RUNS
        count
        look RUNS => .. answer 4; not read
        # What was written before the read is old, what comes after it is not.
        print \r\ntwo => nothing
        comes one|two => begun 2; read %1 All
        job asked
        print \r\ntwo\r\n => .. read end of %1

        ## what begins while its pane is paused begins behind what is missing
        RUNS
        begin done after one
        wait @1 for two
        look RUNS
        job asked
        ignore
        # The pane contains more than has arrived.
        paused
        comes one|two
        look RUNS => not begun
        read one|two => read %1 All
        # Of what was missing the wait gets nothing.
        read one|two => begun 2
        ",
    );
}

#[test]
fn waits_that_begin_at_once_share_one_look_and_one_reading() {
    let mut driver = Driver::new(RUNS);
    for n in 0..40 {
        driver.step(&format!("wait @1 for text {n}"));
    }
    // The first look is running when the others arrive.
    driver.play("look RUNS\nlook RUNS => look @1; look @1; read %1 All\nread text 3");
    let did = driver.take();
    let begun = did.iter().filter(|did| did.starts_with("begun")).count();
    assert_eq!((begun, did.len()), (40, 40), "{did:?}");
    driver.play(
        r"
        waits => 40
        print text 30\r\n
        # The texts 3 and 30.
        read => read end of %1; answer 4 Matched; answer 31 Matched
        ",
    );
}
