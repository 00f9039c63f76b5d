//! The record of deaths: which run each belongs to.

use super::*;

use proptest::prelude::*;

proptest! {
    /// Whatever processes follow one another, every change is one run more, and a look that
    /// shows no change reports nothing.
    #[test]
    fn runs_only_grow(pids in proptest::collection::vec((1u32..4, any::<bool>()), 1..20)) {
        let mut world = World::new();
        let mut before: Option<(u32, u32)> = None;
        for (pid, is_dead) in pids {
            let text = format!("@1 pid={pid}{}", if is_dead { " exit=0" } else { "" });
            let observed = world.see(&[&text], "");
            let run = observed.snapshot.tasks[&WindowId(1)].run.unwrap();
            if let Some((pid_before, run_before)) = before {
                prop_assert_eq!(run, run_before + u32::from(pid != pid_before));
            }
            prop_assert!(observed.snapshot.ended.is_empty());
            let again = world.see(&[&text], "");
            prop_assert_eq!(again.snapshot.tasks, observed.snapshot.tasks);
            before = Some((pid, run));
        }
    }

    /// tmux 3.8 does not report the pid of a dead pane. As long as either the kernel or the
    /// terminal names show who was respawned while alive, the result is the same without it.
    #[test]
    fn the_order_of_deaths_replaces_their_pids(
        story in proptest::collection::vec(happens(), 1..40),
        by_kernel: bool,
    ) {
        let (mut reporting, mut silent) = (World::new(), World::new());
        let (mut pid, mut tty, mut exit, mut reaped, mut number) = (100, 1, None, None, 0);
        let mut records = [String::new(), String::new()];
        for happens in story {
            // A pane that is reaped dies at once.
            let dies = match happens {
                Happens::IsReaped(_) | Happens::IsSeen { .. } => None,
                Happens::Exits(code) => Some(code),
                Happens::IsRespawned => reaped,
            };
            let dies = dies.filter(|_| exit.is_none()).map(|code| reaped.take().unwrap_or(code));
            if let Some(code) = dies {
                number += 1;
                exit = Some(code);
                for (record, pid) in records.iter_mut().zip([pid.to_string(), String::new()]) {
                    *record += &format!("@1 %1 {pid} {code}  999 {number} {tty};");
                }
            }
            match (happens, exit) {
                (Happens::IsReaped(code), None) => reaped = Some(reaped.unwrap_or(code)),
                (Happens::Exits(_) | Happens::IsReaped(_), _) => {}
                (Happens::IsRespawned, _) => {
                    if exit.take().is_none() {
                        reporting.evidence.hung_up.insert(pid);
                        if by_kernel {
                            silent.evidence.hung_up.insert(pid);
                        } else {
                            tty += 1;
                        }
                    }
                    pid += 1;
                }
                (Happens::IsSeen { forgets }, _) => {
                    let end = exit.map_or(String::new(), |code| format!(" exit={code} died=999"));
                    let is_silent = exit.or(reaped.filter(|_| !by_kernel)).is_some();
                    let shown = if is_silent { String::new() } else { format!(" pid={pid}") };
                    let reported = [
                        reporting.see(&[&format!("@1 tty={tty} pid={pid}{end}")], &records[0]),
                        silent.see(&[&format!("@1 tty={tty}{shown}{end}")], &records[1]),
                    ];
                    let [one, other] = reported.map(|observed| {
                        let mut snapshot = observed.snapshot;
                        for task in snapshot.tasks.values_mut().map(Arc::make_mut).chain(&mut snapshot.ended) {
                            task.pid = None;
                        }
                        report(&snapshot)
                    });
                    prop_assert_eq!(one, other);
                    if forgets {
                        records = [String::new(), String::new()];
                    }
                }
            }
        }
    }
}

/// As tmux 3.8 records it.
#[test]
fn deaths_without_a_process_belong_to_runs_in_their_order() {
    let mut world = World::new();
    world.check(&["@1 pid=7 tty=1 run=1"], "", &["@1 run 1 pid 7 alive"]);
    // Its own death, also when the record is read again.
    let record = "@1 %1  3  999 1 1;";
    for _ in 0..2 {
        world.check(
            &["@1 tty=1 run=1 exit=3 died=999"],
            record,
            &["@1 run 1 pid 7 exit 3"],
        );
    }
    // A further death in another window keeps the record from being cleared.
    let record = format!("{record}@2 %2  0  999 2 4;@1 %1  3  999 3 1;@1 %1   9 999 4 1;");
    for (row, reported) in [
        (
            "@1 tty=1 run=1 signal=9 died=999",
            &["-@1 run 2 pid - exit 3", "@1 run 3 pid - SIGKILL"][..],
        ),
        ("@1 pid=8 tty=1 run=3", &["@1 run 4 pid 8 alive"]),
        ("@1 pid=8 tty=1 run=4", &["@1 run 4 pid 8 alive"]),
        ("@1 pid=9 tty=2 run=4", &["@1 run 5 pid 9 alive"]),
    ] {
        world.check(&[row], &record, reported);
    }
    // The death of the live run, two runs between the looks, and a live one.
    world.check(
        &["@1 pid=13 tty=2 run=8"],
        "@1 %1  0  1000 5 2;@1 %1  1  1000 6 2;@1 %1  2  1000 7 2;",
        &[
            "-@1 run 5 pid 9 exit 0",
            "-@1 run 6 pid - exit 1",
            "-@1 run 7 pid - exit 2",
            "@1 run 8 pid 13 alive",
        ],
    );
    world.check(
        &["@1 tty=2 run=8 exit=6"],
        "@1 %1  5  1000 8 2;@1 %1  6  1000 9 2;",
        &["-@1 run 8 pid 13 exit 5", "@1 run 9 pid - exit 6"],
    );
}

#[test]
fn a_process_may_be_forgotten_before_its_pane_is_dead() {
    let mut world = World::new();
    world.check(&["@1 tty=1"], "", &["@1 run 1 pid - alive"]);
    let record = "@1 %1 7 3  999 1 1;";
    let reported = ["@1 run 1 pid 7 exit 3"];
    world.check(&["@1 tty=1 exit=3"], record, &reported);
    let mut world = World::new();
    world.check(&["@1 tty=1"], "", &["@1 run 1 pid - alive"]);
    let reported = ["-@1 run 1 pid 7 exit 3", "@1 run 2 pid 8 alive"];
    world.check(&["@1 pid=8 tty=1"], record, &reported);
}

#[test]
fn what_speaks_against_it_makes_a_death_another_runs() {
    let hung_up = |world: &mut World| {
        world.evidence.hung_up.insert(7);
    };
    let ended_with_3 = |world: &mut World| {
        world.evidence.exits.insert(7, Exit::with_code(3));
    };
    let nothing = |_: &mut World| {};
    // The dead pane, its death in the record or none, and other evidence.
    type Knows = fn(&mut World);
    let another: [(&str, &str, Knows); 6] = [
        ("@1 tty=2 exit=4", "@1 %1  4  9 1 2;", nothing),
        ("@1 tty=1 exit=4", "@1 %1  4  9 1 1;", hung_up),
        ("@1 tty=1 exit=4", "@1 %1  4  9 1 1;", ended_with_3),
        ("@1 tty=1 exit=4 replaced=7", "@1 %1  4  9 1 1;", nothing),
        ("@1 tty=2 exit=4", "", nothing),
        ("@1 tty=1 exit=4", "", hung_up),
    ];
    for (row, record, knows) in another {
        let mut world = World::new();
        world.see(&["@1 pid=7 tty=1"], "");
        knows(&mut world);
        let reported = world.see(&[row], record).snapshot;
        let before = reported.ended.iter().map(|task| task.exit().unwrap().code);
        assert!(
            before.eq(world
                .evidence
                .exits
                .get(&7)
                .filter(|_| !row.contains("replaced"))
                .map(|exit| exit.code)),
            "{row}"
        );
        assert_eq!(
            report(&reported).last().unwrap(),
            "@1 run 2 pid - exit 4",
            "{row}"
        );
    }
    let its_own: [(&str, &str, Knows); 4] = [
        ("@1 tty=1 exit=3", "@1 %1  3  9 1 1;", nothing),
        ("@1 tty=1 exit=3", "@1 %1  3  9 1 1;", ended_with_3),
        ("@1 tty=1 signal=1", "@1 %1   1 9 1 1;", hung_up),
        ("@1 exit=3", "@1 %1  3  9;", nothing),
    ];
    for (row, record, knows) in its_own {
        let mut world = World::new();
        world.see(&["@1 pid=7 tty=1"], "");
        knows(&mut world);
        let reported = report(&world.see(&[row], record).snapshot);
        assert_eq!(reported.len(), 1, "{row}: {reported:?}");
        assert!(
            reported[0].starts_with("@1 run 1 pid 7 "),
            "{row}: {reported:?}"
        );
    }
}

#[test]
fn a_death_that_is_recorded_late_is_no_other() {
    let mut world = World::new();
    world.see(&["@1 pid=7 tty=1"], "");
    world.check(&["@1 tty=1 exit=3"], "", &["@1 run 1 pid 7 exit 3"]);
    world.check(
        &["@1 tty=1 exit=3"],
        "@1 %1  3  999 1 1;",
        &["@1 run 1 pid 7 exit 3"],
    );
    world.check(
        &["@1 tty=1 exit=3"],
        "@1 %1  3  999 1 1;@1 %1  3  999 2 1;",
        &["@1 run 2 pid - exit 3"],
    );
}

#[test]
fn a_record_left_by_an_earlier_daemon_is_not_reported_twice() {
    let record = "@1 %1  3  990 1 1;@1 %1  4  999 2 1;";
    let mut world = World::new();
    world.see(&["@1 pid=7 tty=1"], "");
    let saved = world.see(&["@1 tty=1 exit=4 died=999"], record).snapshot;
    assert_eq!(saved.ended.len(), 1);
    world.go_on_from(&saved);
    world.wait(5000);
    let present = "@1 run 2 pid - exit 4";
    world.check(&["@1 tty=1 run=2 exit=4 died=999"], record, &[present]);
    world.go_on_from(&saved);
    world.check(
        &["@1 tty=1 run=2 exit=4 died=1003"],
        &format!("{record}@1 %1  5  1003 3 1;@1 %1  4  1003 4 1;"),
        &["-@1 run 3 pid - exit 5", "@1 run 4 pid - exit 4"],
    );
    // A live run began after the reported deaths.
    let saved = world.see(&["@1 pid=9 tty=1 run=4"], "").snapshot;
    world.go_on_from(&saved);
    world.check(
        &["@1 tty=1 run=5 exit=6 died=1007"],
        &format!("{record}@1 %1  6  1007 3 1;"),
        &["@1 run 5 pid 9 exit 6"],
    );
}

#[test]
fn deaths_without_a_pid_are_reported_though_the_window_is_gone() {
    let mut world = World::new();
    world.see(&["@1 pid=7 tty=1", "@2 pid=17 tty=2"], "");
    world.check(
        &[],
        "@1 %1  5  999 1 1;@1 %1  6  999 2 1;@2 %2  6  999 3 5;",
        &[
            "-@1 run 1 pid 7 exit 5",
            "-@1 run 2 pid - exit 6",
            "-@2 run 2 pid - exit 6",
        ],
    );
}

/// What may happen to a window's process between two looks.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Exits(i32),
    /// tmux collects the status before the pane is dead.
    IsReaped(i32),
    IsRespawned,
    IsSeen {
        forgets: bool,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (0..3).prop_map(Happens::Exits),
        (0..3).prop_map(Happens::IsReaped),
        Just(Happens::IsRespawned),
        any::<bool>().prop_map(|forgets| Happens::IsSeen { forgets }),
    ]
}

#[test]
fn deaths_processed_by_an_earlier_daemon_are_not_reported_again() {
    // tmux 3.8 does not report pids: only the numbers are left.
    for [first, second] in [["7", "8"], ["", ""]] {
        let mut world = World::new();
        world.see(&["@1 pid=7 run=1"], "");
        let record = format!("@1 %1 {first} 3  1000 1 5;@1 %1 {second} 4  1000 2 6;");
        let observed = world.check(
            &["@1 pid=9 run=3"],
            &record,
            &[
                "-@1 run 1 pid 7 exit 3",
                if second.is_empty() {
                    "-@1 run 2 pid - exit 4"
                } else {
                    "-@1 run 2 pid 8 exit 4"
                },
                "@1 run 3 pid 9 alive",
            ],
        );
        // Killed before it could clear the record.
        let bookmark = world.observer.bookmark();
        assert_eq!(bookmark.deaths_read, Some(2));
        world.restart(&observed.snapshot, &bookmark);
        world.check(&["@1 pid=9 run=3"], &record, &["@1 run 3 pid 9 alive"]);
        let one_more = format!("{record}@1 %1 9 5  1000 3 7;");
        world.check(
            &["@1 pid=9 run=3 exit=5"],
            &one_more,
            &["@1 run 3 pid 9 exit 5"],
        );
    }
}
