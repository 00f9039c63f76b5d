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

#[test]
fn which_run_a_death_belongs_to() {
    check(
        "
        ## deaths without a process, as tmux 3.8 records them, belong to runs in their order
        @1 pid=7 tty=1 run=1 => @1 run 1 pid 7 alive
        # Its own death, also when the record is read again.
        @1 tty=1 run=1 exit=3 died=999 with @1 %1  3  999 1 1; => @1 run 1 pid 7 exit 3
        @1 tty=1 run=1 exit=3 died=999 with @1 %1  3  999 1 1; => @1 run 1 pid 7 exit 3
        # A further death in another window keeps the record from being cleared.
        @1 tty=1 run=1 signal=9 died=999
            with @1 %1  3  999 1 1;@2 %2  0  999 2 4;@1 %1  3  999 3 1;@1 %1   9 999 4 1;
            => -@1 run 2 pid - exit 3; @1 run 3 pid - SIGKILL
        @1 pid=8 tty=1 run=3
            with @1 %1  3  999 1 1;@2 %2  0  999 2 4;@1 %1  3  999 3 1;@1 %1   9 999 4 1;
            => @1 run 4 pid 8 alive
        @1 pid=8 tty=1 run=4
            with @1 %1  3  999 1 1;@2 %2  0  999 2 4;@1 %1  3  999 3 1;@1 %1   9 999 4 1;
            => @1 run 4 pid 8 alive
        @1 pid=9 tty=2 run=4
            with @1 %1  3  999 1 1;@2 %2  0  999 2 4;@1 %1  3  999 3 1;@1 %1   9 999 4 1;
            => @1 run 5 pid 9 alive
        # The death of the live run, two runs between the looks, and a live one.
        @1 pid=13 tty=2 run=8 with @1 %1  0  1000 5 2;@1 %1  1  1000 6 2;@1 %1  2  1000 7 2;
            => -@1 run 5 pid 9 exit 0; -@1 run 6 pid - exit 1; -@1 run 7 pid - exit 2;
            @1 run 8 pid 13 alive
        @1 tty=2 run=8 exit=6 with @1 %1  5  1000 8 2;@1 %1  6  1000 9 2;
            => -@1 run 8 pid 13 exit 5; @1 run 9 pid - exit 6

        ## a process may be forgotten before its pane is dead
        @1 tty=1 => @1 run 1 pid - alive
        @1 tty=1 exit=3 with @1 %1 7 3  999 1 1; => @1 run 1 pid 7 exit 3

        @1 tty=1 => @1 run 1 pid - alive
        @1 pid=8 tty=1 with @1 %1 7 3  999 1 1; => -@1 run 1 pid 7 exit 3; @1 run 2 pid 8 alive

        ## a death that is recorded late is no other
        @1 pid=7 tty=1
        @1 tty=1 exit=3 => @1 run 1 pid 7 exit 3
        @1 tty=1 exit=3 with @1 %1  3  999 1 1; => @1 run 1 pid 7 exit 3
        @1 tty=1 exit=3 with @1 %1  3  999 1 1;@1 %1  3  999 2 1; => @1 run 2 pid - exit 3

        ## a record left by an earlier daemon is not reported twice
        @1 pid=7 tty=1
        @1 tty=1 exit=4 died=999 with @1 %1  3  990 1 1;@1 %1  4  999 2 1;
            => -@1 run 1 pid 7 exit 3; @1 run 2 pid - exit 4
        restart without
        wait 5000
        @1 tty=1 run=2 exit=4 died=999 with @1 %1  3  990 1 1;@1 %1  4  999 2 1;
            => @1 run 2 pid - exit 4
        restart without
        @1 tty=1 run=2 exit=4 died=1003
            with @1 %1  3  990 1 1;@1 %1  4  999 2 1;@1 %1  5  1003 3 1;@1 %1  4  1003 4 1;
            => -@1 run 3 pid - exit 5; @1 run 4 pid - exit 4
        # A live run began after the reported deaths.
        @1 pid=9 tty=1 run=4
        restart without
        @1 tty=1 run=5 exit=6 died=1007
            with @1 %1  3  990 1 1;@1 %1  4  999 2 1;@1 %1  6  1007 3 1; => @1 run 5 pid 9 exit 6

        ## deaths without a pid are reported though the window is gone
        @1 pid=7 tty=1, @2 pid=17 tty=2
        with @1 %1  5  999 1 1;@1 %1  6  999 2 1;@2 %2  6  999 3 5;
            => -@1 run 1 pid 7 exit 5; -@1 run 2 pid - exit 6; -@2 run 2 pid - exit 6

        ## deaths processed by an earlier daemon are not reported again
        @1 pid=7 run=1
        @1 pid=9 run=3 with @1 %1 7 3  1000 1 5;@1 %1 8 4  1000 2 6;
            => -@1 run 1 pid 7 exit 3; -@1 run 2 pid 8 exit 4; @1 run 3 pid 9 alive
        # Killed before it could clear the record.
        restart
        @1 pid=9 run=3 with @1 %1 7 3  1000 1 5;@1 %1 8 4  1000 2 6; => @1 run 3 pid 9 alive
        @1 pid=9 run=3 exit=5 with @1 %1 7 3  1000 1 5;@1 %1 8 4  1000 2 6;@1 %1 9 5  1000 3 7;
            => @1 run 3 pid 9 exit 5

        # tmux 3.8 does not report pids: only the numbers are left.
        @1 pid=7 run=1
        @1 pid=9 run=3 with @1 %1  3  1000 1 5;@1 %1  4  1000 2 6;
            => -@1 run 1 pid 7 exit 3; -@1 run 2 pid - exit 4; @1 run 3 pid 9 alive
        restart
        @1 pid=9 run=3 with @1 %1  3  1000 1 5;@1 %1  4  1000 2 6; => @1 run 3 pid 9 alive
        @1 pid=9 run=3 exit=5 with @1 %1  3  1000 1 5;@1 %1  4  1000 2 6;@1 %1 9 5  1000 3 7;
            => @1 run 3 pid 9 exit 5
        ",
    );
}

#[test]
fn what_speaks_against_it_makes_a_death_another_runs() {
    for (knows, dead) in [
        ("wait 0", "@1 tty=2 exit=4 with @1 %1  4  9 1 2;"),
        ("hangs up 7", "@1 tty=1 exit=4 with @1 %1  4  9 1 1;"),
        ("wait 0", "@1 tty=1 exit=4 replaced=7 with @1 %1  4  9 1 1;"),
        ("wait 0", "@1 tty=2 exit=4"),
        ("hangs up 7", "@1 tty=1 exit=4"),
    ] {
        let reported = format!("{dead} => @1 run 2 pid - exit 4");
        check(&format!("@1 pid=7 tty=1\n{knows}\n{reported}"));
    }
    check(
        "
        @1 pid=7 tty=1
        exits 7 3
        @1 tty=1 exit=4 with @1 %1  4  9 1 1; => -@1 run 1 pid 7 exit 3; @1 run 2 pid - exit 4

        ## its own
        @1 pid=7 tty=1
        exits 7 3
        @1 tty=1 exit=3 with @1 %1  3  9 1 1; => @1 run 1 pid 7 exit 3

        @1 pid=7 tty=1
        hangs up 7
        @1 tty=1 signal=1 with @1 %1   1 9 1 1; => @1 run 1 pid 7 SIGHUP

        @1 pid=7 tty=1
        @1 exit=3 with @1 %1  3  9; => @1 run 1 pid 7 exit 3
        ",
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
