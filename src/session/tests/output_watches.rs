//! Runs with `--notify-on`: what they print is searched, and reported with a look.

use super::*;

const SEARCHED: &str = "life 1; @1#1 a running pid=7 notifies=ERROR";

/// Checks stories of such a task, whose output is followed after the rows in their first lines.
fn check_searching(text: &str) {
    for (heading, lines) in stories(&text.replace("SEARCHED", SEARCHED)) {
        let mut driver = Driver::new(SEARCHED);
        driver.play(&format!(
            "read {}\nchores\nignore",
            lines[0].replace('-', "")
        ));
        driver.play_lines(heading, &lines[1..]);
    }
}

#[test]
fn what_a_run_prints_is_searched_and_reported() {
    check_searching(
        r"
        ## what a run writes last is reported before its end
        -
        shows life 1; @1#1 a dead 1 pid=7 notifies=ERROR => look; drain
        print ERROR last\r\n
        job done
        read ERROR last => .. append event event
        told => output @1#1 x1: ERROR last; exited @1#1 1
        chores
        followed => nothing

        ## what tmux threw away is searched: the pane contains more than has arrived
        begin
        shows life 1; @1#1 a dead 1 pid=7 notifies=ERROR
        job done
        read begin|ERROR last
        read begin|ERROR last
        told => output @1#1 x1: ERROR last; exited @1#1 1

        ## what a window wrote that is gone is searched
        -
        shows life 1
        print ERROR last\r\n
        job done
        told => output @1#1 x1: ERROR last; disappeared @1#1

        ## output that is lost is said
        one
        print \r\nERROR b\r\n
        look SEARCHED
        told => output @1#1 x1: ERROR b
        paused
        look SEARCHED
        read something|else|ERROR c
        after 10000
        told => output @1#1 x1 gap: ERROR c
        followed => %1

        ## after the client for output was lost the search begins where it was
        -
        print one\r\n
        lost
        look SEARCHED
        read one|ERROR two|
        look SEARCHED
        told => output @1#1 x1: ERROR two
        ",
    );
}

#[test]
fn a_matching_line_is_reported_with_a_look_at_once_and_then_in_ten_seconds() {
    let many: Vec<String> = (0..1000)
        .map(|n| format!("print ERROR {n}\\r\\n"))
        .collect();
    let story = r"
        -
        followed => %1
        print fine\r\nERROR a\r\n => look @1
        look SEARCHED => append event
        told => output @1#1 x1: ERROR a
        MANY => nothing
        after 9999
        told => nothing
        after 1
        told => output @1#1 x1000: ERROR 0
        after 60000
        told => nothing
        followed => %1
        ";
    check_searching(&story.replace("MANY", &many.join("\n        ")));
}

#[test]
fn a_returning_daemon_searches_what_was_written_meanwhile() {
    let before = snapshot(SEARCHED);
    let told = "a line that was reported";
    let life = before.life.clone().unwrap();
    let anchor = crate::rules::wait::Anchor::at(&[told.to_owned(), String::new()], 0, 1, 0);
    let cursor = crate::rules::wait::Cursor::new(&life, WindowId(1), 1, anchor);
    for (looks, ended) in [
        (SEARCHED, false),
        ("life 1; @1#1 a dead 1 pid=7 notifies=ERROR", true),
    ] {
        let memory = RestoredState {
            last_look: Some(before.clone()),
            ..RestoredState::default()
        };
        let bookmark = Bookmark {
            searched: [(WindowId(1), cursor.to_string())].into(),
            ..Bookmark::default()
        };
        let mut driver = Driver::with_bookmark(memory, Vec::new(), bookmark, looks);
        if ended {
            driver.read(&[told, "ERROR while no daemon ran"]);
        } else {
            driver.read(&[told, "ERROR while no daemon ran", ""]);
            driver.look(looks);
        }
        let mut expected = vec!["output @1#1 x1: ERROR while no daemon ran"];
        expected.extend(ended.then_some("exited @1#1 1"));
        assert_eq!(driver.told, expected);
    }
}

#[test]
fn a_launch_is_answered_when_its_output_is_followed() {
    let story = "
        life 1
        run a
        look life 1
        job launched @1
        ignore
        look SEARCHED => append event; read %1 All
        read => .. answer 1

        ## a run without patterns costs nothing
        RUNS
        followed => nothing
        ";
    check(&story.replace("SEARCHED", SEARCHED));
    assert!(Driver::new(RUNS).job.is_none());
}
