//! What is gathered, delivered and recorded, and when.

use super::*;
use crate::model::WaitOutcome;

#[test]
fn events_are_gathered_and_delivered_when_they_are_due() {
    check_live(
        "
        ## events are gathered for fifty milliseconds from the first
        @1 a running bells=0; @2 b running => tmux: 2 tasks, 0 waiting, 0 dead
        +100 @1 a running bells=1; @2 b running => 1 notify @1 x1
        +49
        @1 a dead 0 bells=1; @2 b running => 2 exited @1 0; tmux: 2 tasks, 0 waiting, 1 dead
        +1 => 3 followUp of 1 2
        +50
        @1 a dead 0 bells=1; @2 b dead 1 => 4 exited @2 1; tmux: 2 tasks, 0 waiting, 2 dead
        +50 => 5 followUp! of 4

        ## a look does not join what was due before it
        @1 a running; @2 b running => tmux: 2 tasks, 0 waiting, 0 dead
        +100 @1 a dead 0; @2 b running => 1 exited @1 0; tmux: 2 tasks, 0 waiting, 1 dead
        +51 @1 a dead 0; @2 b dead 0
            => 2 followUp of 1; 3 exited @2 0; tmux: 2 tasks, 0 waiting, 2 dead
        +50 => 4 followUp of 3

        ## a gathering with a start is one message
        => tmux: 0 tasks, 0 waiting, 0 dead
        +100 @1 a running => 1 started @1; tmux: 1 task, 0 waiting, 0 dead
        +20 @1 a dead 0 => 2 exited @1 0; tmux: 1 task, 0 waiting, 1 dead
        +30 => 3 followUp of 1 2
        ",
    );
}

#[test]
fn a_group_is_one_message_with_its_last_end_and_at_once_where_one_needs_somebody() {
    check_after(
        "@1 a running G; @2 b running G; @3 c running => tmux: 3 tasks, 0 waiting, 0 dead
        +100 @1 a dead 0 G; @2 b running G; @3 c running => 1 exited @1 0; tmux: 3 tasks, 0 waiting, 1 dead
        +1000",
        "
        ## the last one ends
        BEGIN
        @1 a dead 0 G; @2 b dead 0 G; @3 c running => 2 exited @2 0; tmux: 3 tasks, 0 waiting, 2 dead
        +50 => 3 followUp pi:1 of 1 2

        ## it fails
        BEGIN
        @1 a dead 0 G; @2 b dead 2 G; @3 c running => 2 exited @2 2; tmux: 3 tasks, 0 waiting, 2 dead
        +50 => 3 followUp! pi:1 of 1 2

        ## its window goes
        BEGIN
        @1 a dead 0 G; @3 c running => 2 disappeared @2; tmux: 2 tasks, 0 waiting, 1 dead
        +50 => 3 followUp! pi:1 of 1 2

        ## one fails, and a third runs on
        BEGIN
        @1 a dead 0 G; @2 b dead 2 G; @3 c running; @4 d running G
            => 2 exited @2 2 & 3 started @4; tmux: 4 tasks, 0 waiting, 2 dead
        +50 => 4 followUp! pi:1 of 1 2 3
        @1 a dead 0 G; @2 b dead 2 G; @3 c running; @4 d dead 0 G
            => 5 exited @4 0; tmux: 4 tasks, 0 waiting, 3 dead
        +50 => 6 followUp pi:1 of 5

        ## what its owner has read meanwhile does not wake
        BEGIN
        has read pi:1 1
        +50 => 2 notice pi:1 of 1
        @1 a dead 0 G; @2 b dead 0 G; @3 c running => 3 exited @2 0; tmux: 3 tasks, 0 waiting, 2 dead
        +50 => 4 followUp pi:1 of 3

        ## a run whose end wakes nobody is not waited for
        BEGIN
        @1 a dead 0 G; @2 b running G wake=never; @3 c running
        +50 => 2 followUp pi:1 of 1

        ## a clean end that would not wake is told with one that does
        BEGIN
        @1 a dead 0 G; @2 b dead 0 G wake=failed; @3 c running
            => 2 exited @2 0; tmux: 3 tasks, 0 waiting, 2 dead
        +50 => 3 followUp pi:1 of 1 2

        ## it asks, and its bell is told without the others
        BEGIN
        @1 a dead 0 G; @2 b running G bell; @3 c running => 2 notify @2 x1
        +50 => 3 followUp pi:1 of 2
        @1 a dead 0 G; @2 b running G : Sure? [y/n]; @3 c running
        +250 @1 a dead 0 G; @2 b running G : Sure? [y/n]; @3 c running
            => 4 input @2: Sure? [y/n]; tmux: 3 tasks, 1 waiting, 1 dead
        +50 => 5 followUp! pi:1 of 1 4

        ## a restart that is impossible is none
        BEGIN
        @1 a dead 0 G; @2 b dead 1 G restarts=3,90000,0; @3 c running
            => 2 exited @2 1; tmux: 3 tasks, 0 waiting, 2 dead
        +50 => 3 notice! pi:1 of 2
        gives up @2 2 => tmux: 3 tasks, 0 waiting, 2 dead
        +50 => 4 followUp! pi:1 of 1 2

        ## tasks of others are of another group
        BEGIN
        @1 a dead 0 G; @2 b running group=h owner=pi:1; @3 c running group=g owner=pi:2
        +50 => 2 followUp pi:1 of 1
        ",
    );
}

#[test]
fn a_clean_end_that_wakes_nobody_by_itself_waits_for_its_group() {
    check_after(
        "@1 a running G wake=failed; @2 b running G wake=failed => tmux: 2 tasks, 0 waiting, 0 dead
        +100 @1 a dead 0 G wake=failed; @2 b running G wake=failed
            => 1 exited @1 0; tmux: 2 tasks, 0 waiting, 1 dead
        +1000",
        "
        ## the other fails
        BEGIN
        @1 a dead 0 G wake=failed; @2 b dead 2 G wake=failed
            => 2 exited @2 2; tmux: 2 tasks, 0 waiting, 2 dead
        +50 => 3 followUp! pi:1 of 1 2

        ## the other does not
        BEGIN
        @1 a dead 0 G wake=failed; @2 b dead 0 G wake=failed
            => 2 exited @2 0; tmux: 2 tasks, 0 waiting, 2 dead
        +50 => 3 notice pi:1 of 1 2
        ",
    );
}

#[test]
fn an_end_that_wakes_nobody_is_a_notice_beside_a_message() {
    check_live(
        "
        @1 a running wake=never; @2 b running; @3 c running wake=failed => tmux: 3 tasks, 0 waiting, 0 dead
        +100 @1 a dead 4 wake=never; @2 b dead 0; @3 c dead 0 wake=failed
            => 1 exited @1 4 & 2 exited @2 0 & 3 exited @3 0; tmux: 3 tasks, 0 waiting, 3 dead
        +50 => 4 followUp of 2 & 5 notice! of 1 3

        ## so is an end that a restart follows
        @1 a running restarts=3,90000,0; @2 b running => tmux: 2 tasks, 0 waiting, 0 dead
        +100 @1 a dead 1 restarts=3,90000,0; @2 b dead 0
            => 1 exited @1 1 & 2 exited @2 0; tmux: 2 tasks, 0 waiting, 2 dead
        +50 => 3 followUp of 2 & 4 notice! of 1

        ## the events of a message are in their order
        @1 a running group=g; @2 b running group=g; @3 c running => tmux: 3 tasks, 0 waiting, 0 dead
        +100 @1 a dead 0 group=g; @2 b running group=g; @3 c running
            => 1 exited @1 0; tmux: 3 tasks, 0 waiting, 1 dead
        +100 @1 a dead 0 group=g; @2 b running group=g; @3 c dead 0
            => 2 exited @3 0; tmux: 3 tasks, 0 waiting, 2 dead
        +10 @1 a dead 0 group=g; @2 b dead 0 group=g; @3 c dead 0
            => 3 exited @2 0; tmux: 3 tasks, 0 waiting, 3 dead
        +40 => 4 followUp of 1 2 3
        ",
    );
}

#[test]
fn a_group_has_messages_of_as_many_ends_as_one_is_to_have() {
    let tasks = |n_dead: usize| {
        let task = |n| match n <= n_dead {
            true => format!("@{n} a{n} dead 0 group=g"),
            false => format!("@{n} a{n} running group=g"),
        };
        (1..=MAX_HELD + 2).map(task).collect::<Vec<_>>().join("; ")
    };
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    let mut follow_ups = Vec::new();
    for n_dead in 0..=MAX_HELD + 2 {
        driver.step(&tasks(n_dead));
        follow_ups.extend(driver.step("+50"));
    }
    let shown: Vec<_> = follow_ups
        .iter()
        .filter(|effect| effect.contains("followUp"))
        .collect();
    let all = |from, to| (from..=to).map(|seq| format!(" {seq}")).collect::<String>();
    assert_eq!(
        shown,
        [
            &format!("51 followUp of{}", all(1, MAX_HELD)),
            &format!("54 followUp of{}", all(MAX_HELD + 2, MAX_HELD + 3)),
        ]
    );
}

/// Checks stories in which `BEGIN` stands for these steps, and `G` for a group.
fn check_after(begin: &str, text: &str) {
    check_live(
        &text
            .replace("BEGIN", begin)
            .replace(" G", " group=g owner=pi:1"),
    );
}

#[test]
fn what_a_command_is_about_to_return_with_is_not_delivered_before_it() {
    check_after(
        "=> tmux: 0 tasks, 0 waiting, 0 dead
        @1#1 a dead 3; @2#1 b running
            => 1 exited @1#1 3 & 2 started @2#1; tmux: 2 tasks, 0 waiting, 1 dead",
        "
        ## the wait begins, and returns with it
        will wait a
        BEGIN
        +60
        waits a pi:1
        +60
        waits a
        +0 => 3 followUp! of 1 2

        ## it never begins
        will wait a
        BEGIN
        +4999
        +1 => 3 followUp! of 1 2

        ## another's command is about to wait
        will wait a pi:1
        BEGIN
        +60 => 3 followUp! of 1 2
        ",
    );
}

#[test]
fn a_delivery_waits_for_the_owners_reader() {
    check_after(
        "@1#1 a running owner=pi:1 => tmux: 1 task, 0 waiting, 0 dead
        @1#1 a dead 3 owner=pi:1 => 1 exited @1#1 3; tmux: 1 task, 0 waiting, 1 dead",
        "
        ## it has read the end
        will read pi:1 6000
        BEGIN
        +549
        has read pi:1 1
        +0 => 2 notice! pi:1 of 1

        ## it has read something else
        will read pi:1 6000
        BEGIN
        has read pi:1
        +50 => 2 followUp! pi:1 of 1

        ## it never says what it has read, and it is not waited for again
        will read pi:1 6000
        BEGIN
        +550 => 2 followUp! pi:1 of 1

        will read pi:1 200
        BEGIN
        +200 => 2 followUp! pi:1 of 1

        ## another's
        will read pi:2 6000
        BEGIN
        +50 => 2 followUp! pi:1 of 1
        ",
    );
}

#[test]
fn deadlines_are_returned() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    assert_eq!(driver.engine.deliver_at(), None);
    assert_eq!(driver.engine.look_at(), None);
    driver.step("");
    driver.step("@1 a running : Go? [y/n]");
    let in_ms = |ms| Some(driver.now.after(Duration::from_millis(ms)).mono);
    assert_eq!(driver.engine.deliver_at(), in_ms(50));
    assert_eq!(driver.engine.look_at(), in_ms(200));
    driver.step("+200");
    driver.step("@1 a running : Go? [y/n]");
    assert_eq!(driver.engine.look_at(), None);
}

#[test]
fn a_notice_of_no_event_is_recorded_at_once() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    driver.step("@1 a running");
    driver.step("");
    let effects = driver
        .engine
        .notice(Level::Info, "killed api".to_owned(), driver.now);
    let actual: Vec<String> = effects.iter().map(describe_effect).collect();
    assert_eq!(actual, ["2 notice killed api"]);
    assert_eq!(driver.step("+50"), ["3 followUp! of 1"]);
}

#[test]
fn records_bear_the_time_of_their_making() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    driver.step("");
    driver.now.wall = 1000;
    let mut effects = driver.engine.look(snapshot("@1 a running"), driver.now);
    driver.now = driver.now.after(Duration::from_millis(50));
    effects.extend(driver.engine.deliver_due(driver.now));
    let times = effects.iter().flat_map(|effect| match effect {
        EngineEffect::Append(records) => records.iter().map(|record| record.time).collect(),
        EngineEffect::Status(_) => Vec::new(),
    });
    assert_eq!(times.collect::<Vec<_>>(), [1000, 1050]);
}

/// A command that waits for a run returns when the run's end is on the disk, and then gets no
/// follow-up for it.
#[test]
fn nothing_is_delivered_before_the_disk_has_had_it() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    let mut check = |step: &str, expected: &[&str], undelivered: &[Seq]| {
        let mut actual = driver.step(step);
        actual.retain(|effect| !effect.starts_with("tmux"));
        assert_eq!(actual, expected, "{step}");
        let actual: Vec<Seq> = driver.engine.undelivered().into_iter().collect();
        assert_eq!(actual, undelivered, "{step}");
        assert_eq!(driver.engine.deliver_at(), None, "{step}");
    };
    check("tried 0", &[], &[]);
    check("", &[], &[]);
    check("@1 a dead 1", &["1 exited @1 1"], &[1]);
    check("+60", &[], &[1]);
    // What comes when the first is due is delivered by itself.
    check("+1 @1 a dead 1; @2 b dead 2", &["2 exited @2 2"], &[1, 2]);
    check("+60", &[], &[1, 2]);
    check("tried 1", &["3 followUp! of 1"], &[2]);
    check("tried 2", &["4 followUp! of 2"], &[]);
    check("+60", &[], &[]);
}

#[test]
fn what_is_seen_while_the_disk_is_slow_is_a_notice() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    driver.step("tried 0");
    driver.step("");
    driver.step("@1#1 a dead 1");
    assert_eq!(driver.step("+60"), [] as [&str; 0]);
    let returns = WaitReturn {
        owner: None,
        window: WindowId(1),
        run: Some(1),
        outcome: WaitOutcome::Exited,
    };
    driver.engine.note_return(&returns, driver.now);
    assert_eq!(driver.step("tried 1"), ["2 notice! of 1"]);
}
