//! `logs` and `search`: a task's output, of its current run and of earlier ones.

use std::ffi::OsStr;
use std::path::PathBuf;

use regex::Regex;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{SESSION, World, event};

#[track_caller]
fn logs_json(world: &World, args: &[&str]) -> Value {
    let output = world.task([&["logs", "--json"], args].concat());
    serde_json::from_str(output.ok()).unwrap()
}

#[test]
fn following_shows_old_and_new_output() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!(
        "printf 'one\\ntwo\\n'; {0}; printf 'three\\nfour\\n'; {0}; printf 'bar 1%%\\rbar 2%%'",
        gate.wait()
    );
    let window = world.run("api", &line);
    world.until_shows(&window, "two");
    let mut following = world.start(["logs", "api", "-f", "-n", "1"]);
    assert_eq!(following.line(), "two");
    gate.open();
    assert_eq!(following.line(), "three");
    assert_eq!(following.line(), "four");
    gate.open();
    // The last line counts although nothing ended it.
    assert_eq!(following.line(), "bar 2%");
    assert_eq!(following.wait(), 0);
}

/// Lines of one row, and of so many that the rows read at first are too few.
#[test]
fn the_last_lines_are_those_of_the_whole_output() {
    let world = World::new();
    world.daemon();
    let line = "for n in $(seq 400); do printf '\\033[3%dm%d %0*d\\n' $((n % 8)) $n $((n % 100 * 30)) 0; done; \
                seq 401 900; echo all; sleep 1000";
    let window = world.run("api", line);
    world.until_shows(&window, "all");
    let colours = Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    for style in [&[][..], &["--raw"]] {
        // Where a reading begins, the present colour is repeated.
        let lines = |args: &[&str]| -> Vec<String> {
            let output = world.task([&["logs", "api"], args, style].concat());
            let output = colours.replace_all(output.ok(), "");
            output.lines().map(str::to_owned).collect()
        };
        let whole = lines(&[]);
        for n in [1, 2, 30, 480, 520, 700, 901, 2000] {
            let n = n.to_string();
            let last = lines(&["-n", &n]);
            let n = n.parse().unwrap_or(0).min(whole.len());
            assert_eq!(last, whole[whole.len() - n..], "the last {n} {style:?}");
        }
    }
}

#[test]
fn the_last_lines_are_read_without_the_whole_output() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    world.tmux(["set-option", "-g", "history-limit", "50000"]);
    let window = world.run("api", "seq 20000; sleep 1000");
    world.until_shows(&window, "20000");
    let n_bytes = || {
        world.daemon_status()["counters"]["tmuxBytes"]
            .as_u64()
            .unwrap()
    };
    world.task(["ls"]).ok();
    let before = n_bytes();
    assert_eq!(
        world.task(["logs", "api", "-n", "2"]).ok(),
        "19999\n20000\n"
    );
    let read = n_bytes() - before;
    assert!(read < 20_000, "{read} bytes");
}

/// Some versions of tmux show the blanks in their place, others the tabs.
#[test]
fn tabs_take_their_columns() {
    let world = World::new();
    let line = r"printf 'name\tsize\n%081d\tx\n\tNext\tstep? [y/N] ' 0; read -r _";
    let window = world.run("api", line);
    let records = world.until("the question", |records| {
        records.iter().any(|record| record["type"] == "input")
    });
    let input = records.iter().find(|record| record["type"] == "input");
    assert_eq!(input.unwrap()["prompt"], "Next    step? [y/N]");
    let logs = world.task(["logs", "api"]);
    let long = format!("{:081}       x", 0);
    assert_eq!(
        logs.ok().lines().collect::<Vec<_>>(),
        ["name    size", &long, "        Next    step? [y/N]"]
    );
    world.tmux(["send-keys", "-t", &window, "Enter"]);
    world.task(["wait", "api"]).ok();
    // The stored output is complete.
    world.run("api", "sleep 1000");
    let logs = world.task(["logs", "api", "--run", "1"]);
    let kept: Vec<&str> = logs.ok().lines().collect();
    assert_eq!(kept[..2], ["name    size", &long]);
}

#[test]
fn following_raw_is_what_the_task_wrote() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!(
        "echo up; {0}; printf '\\033[31mred\\033[m \\342'; {0}; printf '\\202\\254\\n'",
        gate.wait()
    );
    let window = world.run("api", &line);
    world.until_shows(&window, "up");
    let mut following = world.start(["logs", "api", "-f", "--raw"]);
    assert_eq!(following.line(), "up");
    gate.open();
    world.until_shows(&window, "red");
    gate.open();
    let mut said = String::new();
    while !said.contains('€') {
        said.push_str(&following.line());
    }
    assert!(said.contains("red"), "{said:?}");
    assert!(!said.contains('\u{fffd}'), "{said:?}");
    assert_eq!(following.wait(), 0);
}

#[test]
fn a_follower_sees_every_line_of_a_burst_in_order() {
    let world = World::new();
    let gate = world.gate("go");
    let window = world.run("api", &format!("echo up; {}; seq 20000", gate.wait()));
    world.until_shows(&window, "up");
    let mut following = world.start(["logs", "api", "-f"]);
    assert_eq!(following.line(), "up");
    gate.open();
    for n in 1..=20000 {
        assert_eq!(following.line(), n.to_string());
    }
    assert_eq!(following.wait(), 0);
}

#[test]
fn several_tasks_are_followed_with_their_names_and_printed_under_them() {
    let world = World::new();
    let (one, two) = (world.gate("one"), world.gate("two"));
    let api = world.run("api", &format!("echo up; {}; echo more", one.wait()));
    let web = world.run("website", &format!("echo here; {}", two.wait()));
    world.until_shows(&api, "up");
    world.until_shows(&web, "here");
    let mut following = world.start(["logs", "-f", "api", "website"]);
    let mut first = [following.line(), following.line()];
    first.sort();
    assert_eq!(first, ["api     | up", "website | here"]);
    one.open();
    assert_eq!(following.line(), "api     | more");
    two.open();
    assert_eq!(following.wait(), 0);
    let printed = world.task(["logs", "api", "website"]);
    assert_eq!(
        printed.ok(),
        "==> api <==\nup\nmore\n\n==> website <==\nhere\n"
    );
    let refused = world.task(["logs", "api", "website", "--run", "1"]);
    refused.fails(2, "tmux-task: logs: --run is for one task: give one name");
    assert_eq!(world.task(["logs", "api", "typo"]).code, 3);
}

#[test]
fn all_tasks_are_followed_also_those_that_start_later() {
    let world = World::new();
    let none = world.task(["logs", "--all"]);
    assert_eq!(none.code, 3, "{none}");
    let gate = world.gate("api");
    let api = world.run("api", &format!("seq 20; {}; echo more", gate.wait()));
    let old = world.run("old", "echo done");
    world.until_shows(&api, "20");
    world.until_ended(&old);
    world.tmux(["new-window", "-d", "-t", "work:", "-n", "shell"]);
    let printed = world.task(["logs", "--all", "-n", "2"]);
    assert_eq!(printed.ok(), "==> api <==\n19\n20\n\n==> old <==\ndone\n");
    let last = world.task(["logs", "--all"]);
    assert!(last.ok().starts_with("==> api <==\n11\n12\n"), "{last}");
    let refused = world.task(["logs", "--all", "--raw", "-f"]);
    assert_eq!(refused.code, 2, "{refused}");

    let mut following = world.start(["logs", "--all", "-f", "-n", "1"]);
    let mut first = [following.line(), following.line()];
    first.sort();
    assert_eq!(first, ["api | 20", "old | done"]);
    gate.open();
    assert_eq!(following.line(), "api | more");
    // A further run, and a new task. What is printed while it begins to be followed may come twice.
    let lines_until = |name: &str, last: &str| {
        let mut lines = vec![following.line()];
        while lines.last().is_none_or(|line| line != last) {
            lines.push(following.line());
        }
        lines.retain(|line| line.starts_with(name));
        lines.dedup();
        lines
    };
    for name in ["old", "later"] {
        let gate = world.gate(name);
        world.run(name, &format!("echo one; {}; echo two", gate.wait()));
        let (one, two) = if name == "old" {
            ("old | one", "old | two")
        } else {
            ("later | one", "later | two")
        };
        world.until_shows(&format!("=work:{name}"), "one");
        gate.open();
        assert_eq!(lines_until(name, two), [one, two]);
    }
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(following.wait(), 0);
}

#[test]
fn a_task_that_follows_all_does_not_follow_itself_and_a_terminal_has_colours() {
    let world = World::new();
    let gate = world.gate("api");
    world.run(
        "api",
        &format!("echo one; {}; echo two; exec sleep 1000", gate.wait()),
    );
    world.until_shows("=work:api", "one");
    let program = World::program().display();
    world.run("viewer", &format!("{program} logs --all -f"));
    world.until_shows("=work:viewer", "one");
    gate.open();
    world.until_shows("=work:viewer", "two");
    let screen = world.tmux(["capture-pane", "-p", "-e", "-t", "=work:viewer"]);
    let plain = Regex::new("\u{1b}\\[[0-9;]*m")
        .unwrap()
        .replace_all(&screen, "");
    let lines: Vec<&str> = plain.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["api | one", "api | two"]);
    assert!(screen.contains("\u{1b}[36mapi |"), "{screen:?}");
    // Two that follow all do not follow each other.
    world.run("plain", &format!("NO_COLOR=1 {program} logs --all -f"));
    world.until_shows("=work:plain", "two");
    let screen = world.tmux(["capture-pane", "-p", "-e", "-t", "=work:plain"]);
    assert!(screen.contains("api | two"), "{screen:?}");
    assert!(!screen.contains("viewer"), "{screen:?}");
}

#[test]
fn an_interrupt_ends_the_following_and_not_the_task() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!("echo up; {}; echo more; exec sleep 1000", gate.wait());
    let window = world.run("api", &line);
    world.until_shows(&window, "up");
    let mut following = world.start(["logs", "api", "-f"]);
    assert_eq!(following.line(), "up");
    gate.open();
    assert_eq!(following.line(), "more");
    following.signal(Signal::INT);
    assert_eq!(following.wait(), 130);
    assert_eq!(world.look()["tasks"][0]["dead"], false);
}

#[test]
fn logs_go_on_from_a_cursor() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!("seq 100; printf '$ '; {}; printf 'x\\nlast'", gate.wait());
    let window = world.run("api", &line);
    world.until_shows(&window, "$");
    let before = logs_json(&world, &["api"]);
    let cursor = before["cursor"].as_str().unwrap();
    assert_eq!(
        logs_json(&world, &["api", "--since", cursor])["lines"],
        json!([])
    );
    gate.open();
    world.until_ended(&window);
    let after = logs_json(&world, &["api", "--since", cursor]);
    assert_eq!(after["lines"], json!(["x", "last"]));
    let end = after["cursor"].as_str().unwrap();
    assert_eq!(
        logs_json(&world, &["api", "--since", end])["lines"],
        json!([])
    );
    assert_eq!(
        world.task(["logs", "api", "--since", cursor]).ok(),
        "x\nlast\n"
    );
}

#[test]
fn raw_logs_have_their_colours() {
    let world = World::new();
    let window = world.run("api", r"printf '\033[31mred\033[m\n'");
    world.until_ended(&window);
    assert_eq!(world.task(["logs", "api"]).ok(), "red\n");
    let raw = world.task(["logs", "api", "--raw"]);
    assert!(raw.ok().contains("\u{1b}[31mred"), "{raw}");
    // What comes next in the reader's terminal is not red.
    assert!(raw.ok().ends_with("\u{1b}[m\n"), "{raw}");
    // Nor is it drawn as lines.
    let window = world.run("box", r"printf '\033(0lqqk\n'");
    world.until_ended(&window);
    let raw = world.task(["logs", "box", "--raw"]);
    assert_eq!(raw.ok(), "\u{e}lqqk\u{f}\n");
}

#[test]
fn earlier_runs_are_kept() {
    let world = World::new();
    let window = world.run("api", "echo first; seq 100; exit 3");
    world.until("its end", |records| codes(records, "api") == [(1, 3)]);
    // A live run that is replaced is kept as well, as far as it came.
    world.run("api", "echo second; exec sleep 1000");
    world.until_shows(&window, "second");
    world.run("api", "echo third; exec sleep 1000");
    world.until_shows(&window, "third");
    let first = world.task(["logs", "api", "--run", "1"]);
    assert!(first.ok().starts_with("first\n1\n2\n"), "{first}");
    assert_eq!(
        world.task(["logs", &window, "--run", "1", "-n", "1"]).ok(),
        "100\n"
    );
    assert_eq!(world.task(["logs", "api", "--run", "2"]).ok(), "second\n");
    assert_eq!(world.task(["logs", "api", "--run", "3"]).ok(), "third\n");
    let kept = logs_json(&world, &["api", "--run", "2"]);
    assert_eq!(
        kept,
        json!({"windowId": window, "windowName": "api", "run": 2, "lines": ["second"], "cursor": null})
    );
    world.task(["logs", "api", "--run", "4"]).fails(
        3,
        "tmux-task: logs: no output of run 4 of task `api` was kept\n\
         hint: `tmux-task logs api --runs` lists the runs that are stored",
    );
    // One that is gone has stored runs all the same.
    world.run("other", "exec sleep 1000");
    world.tmux(["kill-window", "-t", &window]);
    for more in [&["api"][..], &["-f", "api"], &["other", "api"]] {
        let shown = world.task([&["logs"], more].concat());
        assert!(shown.ok().ends_with("second\n"), "{shown}");
        let said = "tmux-task: logs: api is gone; this is its last stored run, 2\n";
        assert_eq!(shown.err, said);
    }
    // The window and the session may go.
    world.tmux(["kill-session", "-t", SESSION]);
    assert_eq!(world.task(["logs", "api", "--run", "2"]).ok(), "second\n");
}

#[test]
fn kept_runs_say_what_they_were_and_are_bounded() {
    let world = World::new();
    let window = world.run("api", "echo up; exit 3");
    world.until_ended(&window);
    let folder = world.state(SESSION).join("runs");
    // Each is written under another name at first.
    let runs = || -> Vec<PathBuf> {
        let files = folder.read_dir().into_iter().flatten();
        let paths = files.map(|file| file.unwrap().path());
        paths
            .filter(|path| path.extension() == Some(OsStr::new("log")))
            .collect()
    };
    world.until_true("it is kept", || runs().len() == 1);
    let only = runs().remove(0);
    let text = std::fs::read_to_string(&only).unwrap();
    let (about, lines) = text.split_once('\n').unwrap();
    let about: Value = serde_json::from_str(about).unwrap();
    assert_eq!(about["currentCommand"], "echo up; exit 3");
    assert_eq!(about["taskCwd"], world.project().display().to_string());
    assert_eq!((&about["exitCode"], &about["run"]), (&json!(3), &json!(1)));
    assert!(
        about["startedAt"].as_u64() <= about["endedAt"].as_u64(),
        "{about}"
    );
    assert_eq!(lines, "up\n");
    // As many as there may be, all older than the next.
    for n in 0..200 {
        let old = folder.join(format!("old-{n}-1.log"));
        std::fs::write(&old, "{}\n").unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::options()
            .write(true)
            .open(&old)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    world.run("long", "seq 12000");
    let kept = || {
        world
            .task(["logs", "long", "--run", "1"])
            .out
            .lines()
            .count()
    };
    world.until_true("it is kept", || runs().len() == 200 && kept() == 10_000);
    assert!(only.exists());
}

#[test]
fn search_says_where_it_is_already() {
    let world = World::new();
    let api = world.run("api", "printf 'one\\nlistening on 80\\n'; exec sleep 1000");
    let web = world.run("web", "echo 'Listening on 81'");
    world.until_shows(&api, "listening");
    world.until_ended(&web);
    assert_eq!(
        world.task(["search", "listening on"]).ok(),
        format!("{api} api:2: listening on 80\n")
    );
    assert_eq!(
        world
            .task(["search", "-i", "--regex", r"listening on \d+$"])
            .ok(),
        format!("{api} api:2: listening on 80\n{web} web:1: Listening on 81\n")
    );
    let output = world.task(["search", "81", "web", "--json"]);
    let found: Value = serde_json::from_str(output.ok()).unwrap();
    assert_eq!(
        found,
        json!([{"windowId": web, "windowName": "web", "run": 1, "lineNumber": 1, "line": "Listening on 81"}])
    );
    let output = world.task(["search", "81", "api"]);
    assert_eq!(
        (output.code, output.out.as_str(), output.err.as_str()),
        (1, "", "")
    );
    assert_eq!(world.task(["search", "--regex", "("]).code, 2);
    assert_eq!(world.task(["search", "x", "nobody"]).code, 3);
    assert_eq!(world.task(["-s", "nobody", "search", "x"]).code, 3);
}

#[test]
fn the_users_own_words_in_a_dead_pane_are_no_output() {
    let world = World::new();
    world.run("stays", "exec sleep 1000");
    let formats = [
        "[code ended: #{pane_dead_status}]",
        "#[align=centre]#[fg=red]code #{?pane_dead_status,#{pane_dead_status},none}, over#[align=right]##1",
    ];
    for (n, format) in formats.iter().enumerate() {
        world.tmux(["set-option", "-gw", "remain-on-exit-format", format]);
        for (m, end) in ["; ", "; printf 'no end'; "].iter().enumerate() {
            let name = format!("t{n}{m}");
            let window = world.run(&name, &format!("echo 'one, over'{end}exit 3"));
            let records = world.until("its end", |records| codes(records, &name) == [(1, 3)]);
            world.until_true("tmux writes it", || {
                world
                    .tmux(["capture-pane", "-p", "-t", &window])
                    .contains("code")
            });
            let output = if m == 0 {
                "one, over"
            } else {
                "one, over\nno end"
            };
            let task = &event(&records, "exited", &name)["task"];
            assert_eq!(task["outputPreview"].as_str().unwrap().trim_end(), output);
            let logs = world.task(["logs", &name]);
            assert_eq!(logs.ok().trim_end(), output, "{format}");
            let raw = world.task(["logs", &name, "--raw"]);
            assert_eq!(raw.ok().trim_end(), output, "{format}");
            assert_eq!(
                world.task(["search", "code|ended", "--regex", &name]).out,
                ""
            );
        }
    }
}

/// tmux keeps the last rows only: the first ones are read before it drops them.
#[test]
fn the_first_lines_of_a_long_output_are_kept() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!(
        "echo ERROR first; seq 3000; {}; seq 4000 64000",
        gate.wait()
    );
    let window = world.run("big", &line);
    world.until_shows(&window, "3000");
    // The look that this takes shows the long history.
    world.task(["ls"]).ok();
    gate.open();
    world.task(["wait", "big"]).ok();
    let missing = "output of `big` is missing after line 1999";
    let found = world.task(["search", "ERROR", "big"]);
    assert_eq!(found.ok(), format!("{window} big:1: ERROR first\n"));
    assert_eq!(found.err, format!("tmux-task: search: {missing}\n"));
    // What is missing may have matched.
    let found = world.task(["search", "3000", "big", "--regex", "--json"]);
    assert!(found.out.contains("\"mayLackBeginning\":true"), "{found}");
    let none = world.task(["search", "NOWHERE", "big", "--json"]);
    assert_eq!((none.code, none.out.as_str()), (5, "[]\n"), "{none}");
    assert_eq!(none.err, format!("tmux-task: search: {missing}\n"));
    for run in [&[][..], &["--run", "1"]] {
        let logs = world.task([&["logs", "big"], run].concat());
        let lines: Vec<&str> = logs.ok().lines().collect();
        assert_eq!((lines[0], lines[1998]), ("ERROR first", "1998"));
        assert_eq!(lines.last(), Some(&"64000"));
        assert_eq!(logs.err, format!("tmux-task: logs: {missing}\n"));
        let logs = logs_json(&world, &[&["big"], run].concat());
        assert_eq!(logs["mayLackBeginning"], true);
        assert_eq!(logs["gapAfter"], 1999);
    }
    // Of the last lines none is missing.
    let last = world.task(["logs", "big", "-n", "3"]);
    assert_eq!(
        (last.ok(), last.err.as_str()),
        ("63998\n63999\n64000\n", "")
    );
}

/// A program that prints more than tmux keeps within some hundredths of a second.
#[test]
fn what_a_burst_has_lost_is_said() {
    let world = World::new();
    for name in ["one", "two", "two"] {
        let line = "echo ERROR first; seq 60000";
        world.task(["run", name, "--wait", "--", line]).ok();
        let found = world.task(["search", "ERROR", name]);
        assert!([0, 5].contains(&found.code), "{found}");
        assert_eq!(found.out.contains("ERROR first"), found.code == 0);
        assert!(found.err.contains("missing"), "{found}");
    }
}

#[test]
fn the_last_run_of_a_task_that_is_gone_is_read() {
    let world = World::new();
    world.run("other", "sleep 1000");
    for word in ["first", "second"] {
        let window = world.run("api", &format!("echo {word}; exec sleep 1000"));
        world.until_shows(&window, word);
    }
    world.task(["kill", "api"]).ok();
    let said =
        |what: &str| format!("tmux-task: {what}: api is gone; this is its last stored run, 2\n");
    let check = || {
        let shown = world.task(["logs", "api"]);
        assert_eq!((shown.ok(), &shown.err), ("second\n", &said("logs")));
        let found = world.task(["search", "sec", "api"]);
        assert!(found.ok().ends_with(" api:1: second\n"), "{found}");
        assert_eq!(found.err, said("search"));
        let none = world.task(["search", "first", "api"]);
        assert_eq!((none.code, &none.err), (1, &said("search")));
        let json: Value = serde_json::from_str(world.task(["logs", "api", "--json"]).ok()).unwrap();
        assert_eq!((&json["run"], &json["gone"]), (&2.into(), &true.into()));
    };
    check();
    let both = world.task(["logs", "other", "api"]);
    assert!(both.ok().ends_with("==> api <==\nsecond\n"), "{both}");
    // It does not follow what is not there, and knows no cursor of it.
    assert_eq!(world.task(["logs", "-f", "api"]).ok(), "second\n");
    let cursor = json_cursor(&world);
    world
        .task(["logs", "api", "--since", &cursor])
        .fails_with(3);
    world.task(["logs", "nothing"]).fails_with(3);
    world.task(["search", "x", "nothing"]).fails_with(3);
    // The same without the session, and without a daemon.
    world.task(["kill-all", "--yes"]).ok();
    check();
    world.task(["daemon", "stop"]).ok();
    check();
}

/// A cursor in the output of the task `other`.
fn json_cursor(world: &World) -> String {
    let log = world.task(["logs", "other", "--json"]);
    let log: Value = serde_json::from_str(log.ok()).unwrap();
    log["cursor"].as_str().unwrap().to_owned()
}

#[test]
fn followers_that_begin_beside_a_flood_show_each_line_once_and_in_order() {
    let world = World::new();
    world.run("flood", "seq -w 300000; exec sleep 1000");
    let followers: Vec<_> = (0..6)
        .map(|n| {
            let shown = world.path(&format!("shown-{n}"));
            let command = format!(
                "exec {} logs -f flood >{}",
                World::program().display(),
                shown.display()
            );
            let mut shell = world.command("sh");
            shell.args(["-c", &command]);
            (shell.spawn().unwrap(), shown)
        })
        .collect();
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
    let all_are_at_the_end = || {
        let mut shown = followers.iter().map(|(_, shown)| read(shown));
        shown.all(|shown| shown.ends_with("\n300000\n"))
    };
    world.until_true("the end of the flood", all_are_at_the_end);
    for (mut follower, shown) in followers {
        follower.kill().unwrap();
        follower.wait().unwrap();
        // A line that is being printed where the follower begins may be shown twice.
        let shown = read(&shown);
        let lines = shown.lines().filter(|line| line.len() == 6);
        let lines: Vec<u32> = lines.map(|line| line.parse().unwrap()).collect();
        let pairs = lines.windows(2).filter(|pair| pair[0] + 1 != pair[1]);
        let twice: Vec<&[u32]> = pairs.collect();
        assert!(
            twice.len() <= 1 && twice.iter().all(|pair| pair[0] == pair[1]),
            "{twice:?}"
        );
    }
}
