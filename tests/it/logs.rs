//! `logs` and `search`: a task's output, of its current run and of earlier ones.

use std::path::Path;

use regex::Regex;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{World, argv, begins, event, has, has_fields, lacks};

#[track_caller]
fn logs_json(world: &World, args: &[&str]) -> Value {
    world.task([&["logs", "--json"], args].concat()).json()
}

/// A text without its colours.
fn plain(text: &str) -> String {
    let colours = Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    colours.replace_all(text, "").into_owned()
}

#[test]
fn following_shows_old_and_new_output_and_every_line_of_a_burst_in_order() {
    let world = World::new();
    let gate = world.gate("go");
    let line =
        format!("printf 'one\\ntwo\\n'; {gate}; seq 20000; {gate}; printf 'bar 1%%\\rbar 2%%'");
    let window = world.run("api", &line);
    world.until_shows(&window, "two");
    let mut following = world.start(argv("logs api -f -n 1"));
    let mut interrupted = world.start(argv("logs api -f -n 1"));
    assert_eq!([following.line(), interrupted.line()], ["two", "two"]);
    // An interrupt ends the following and not the task.
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.wait(), 130);
    gate.open();
    for n in 1..=20000 {
        assert_eq!(following.line(), n.to_string());
    }
    gate.open();
    // The last line counts although nothing ended it.
    assert_eq!(following.line(), "bar 2%");
    assert_eq!(following.wait(), 0);
}

/// Lines of one row, and of so many that the rows read at first are too few.
#[test]
fn the_last_lines_are_those_of_the_whole_output_and_are_read_without_it() {
    let world = World::new();
    world.daemon();
    let line = "for n in $(seq 400); do printf '\\033[3%dm%d %0*d\\n' $((n % 8)) $n $((n % 100 * 30)) 0; done; \
                seq 401 900; echo all; sleep 1000";
    let window = world.run("api", line);
    world.until_shows(&window, "all");
    for style in [&[][..], &["--raw"]] {
        // Where a reading begins, the present colour is repeated.
        let lines = |args: &[&str]| -> Vec<String> {
            let output = world.task([&["logs", "api"], args, style].concat());
            plain(output.ok()).lines().map(str::to_owned).collect()
        };
        let whole = lines(&[]);
        for n in [1, 2, 30, 480, 520, 700, 901, 2000] {
            let last = lines(&["-n", &n.to_string()]);
            let n = n.min(whole.len());
            assert_eq!(last, whole[whole.len() - n..], "the last {n} {style:?}");
        }
    }
    world.tmux(argv("set-option -g history-limit 50000"));
    let window = world.run("long", "seq 20000; sleep 1000");
    world.until_shows(&window, "20000");
    let n_bytes = || {
        world.daemon_status()["counters"]["tmuxBytes"]
            .as_u64()
            .unwrap()
    };
    world.task(["ls"]).ok();
    let before = n_bytes();
    assert_eq!(world.call("logs long -n 2").ok(), "19999\n20000\n");
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
    let input = event(&records, "input", "api");
    assert_eq!(input["prompt"], "Next    step? [y/N]");
    let long = format!("{:081}       x", 0);
    let lines = format!("name    size\n{long}\n        Next    step? [y/N]");
    assert_eq!(world.task(["logs", "api"]).ok().trim_end(), lines);
    world.tmux(["send-keys", "-t", &window, "Enter"]);
    world.call("wait api --through-prompts").ok();
    // The stored output is complete.
    world.run("api", "sleep 1000");
    let logs = world.call("logs api --run 1");
    begins(logs.ok(), format!("name    size\n{long}\n"));
}

#[test]
fn raw_output_is_what_the_task_wrote() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!(
        "echo up; {gate}; printf '\\033[31mred\\033[m \\342'; {gate}; printf '\\202\\254\\n'"
    );
    let window = world.run("api", &line);
    world.until_shows(&window, "up");
    let mut following = world.start(argv("logs api -f --raw"));
    assert_eq!(following.line(), "up");
    gate.open();
    world.until_shows(&window, "red");
    gate.open();
    let mut said = String::new();
    while !said.contains('€') {
        said.push_str(&following.line());
    }
    has(&said, "red");
    lacks(&said, "\u{fffd}");
    assert_eq!(following.wait(), 0);
    // What comes next in the reader's terminal is not red, nor is it drawn as lines.
    for (name, line, begin, end) in [
        (
            "red",
            r"printf '\033[31mred\033[m\n'",
            "\u{1b}[31mred",
            "\u{1b}[m\n",
        ),
        ("box", r"printf '\033(0lqqk\n'", "\u{e}lqqk", "\u{f}\n"),
    ] {
        let window = world.run(name, line);
        world.until_ended(&window);
        let raw = world.task(["logs", name, "--raw"]);
        assert!(
            raw.ok().starts_with(begin) && raw.ok().ends_with(end),
            "{raw}"
        );
    }
    assert_eq!(world.task(["logs", "red"]).ok(), "red\n");
}

#[test]
fn several_tasks_are_followed_with_their_names_and_printed_under_them() {
    let world = World::new();
    let (one, two) = (world.gate("one"), world.gate("two"));
    let api = world.run("api", &format!("echo up; {one}; echo more"));
    let web = world.run("website", &format!("echo here; {two}"));
    world.until_shows(&api, "up");
    world.until_shows(&web, "here");
    let mut following = world.start(argv("logs -f api website"));
    let mut first = [following.line(), following.line()];
    first.sort();
    assert_eq!(first, ["api     | up", "website | here"]);
    one.open();
    assert_eq!(following.line(), "api     | more");
    two.open();
    assert_eq!(following.wait(), 0);
    let printed = world.call("logs api website");
    assert_eq!(
        printed.ok(),
        "==> api <==\nup\nmore\n\n==> website <==\nhere\n"
    );
    let why = "tmux-task: logs: --run is for one task: give one name";
    world.call("logs api website --run 1").fails(2, why);
    world.call("logs api typo").fails_with(3);
}

#[test]
fn all_tasks_are_followed_also_those_that_start_later() {
    let world = World::new();
    world.task(["logs", "--all"]).fails_with(3);
    let gate = world.gate("api");
    let api = world.run("api", &format!("seq 20; {gate}; echo more"));
    let old = world.run("old", "echo done");
    world.until_shows(&api, "20");
    world.until_ended(&old);
    world.tmux(argv("new-window -d -t work: -n shell"));
    let printed = world.call("logs --all -n 2");
    assert_eq!(printed.ok(), "==> api <==\n19\n20\n\n==> old <==\ndone\n");
    let last = world.task(["logs", "--all"]);
    assert!(last.ok().starts_with("==> api <==\n11\n12\n"), "{last}");
    world.call("logs --all --raw -f").fails_with(2);

    // Two tasks that follow all do not follow each other, and a terminal has colours.
    let program = World::program().display();
    for (name, before) in [("viewer", ""), ("plain", "NO_COLOR=1 ")] {
        let line = format!("{before}{program} logs --all -f -n 1");
        world.run(name, &line);
        world.until_shows(&format!("=work:{name}"), "api | 20");
    }
    let mut following = world.start(argv("logs --all -f -n 1"));
    let mut first = [following.line(), following.line()];
    first.sort();
    assert_eq!(first, ["api | 20", "old | done"]);
    gate.open();
    assert_eq!(following.line(), "api | more");
    for (name, has_colours) in [("viewer", true), ("plain", false)] {
        let target = format!("=work:{name}");
        world.until_shows(&target, "more");
        let screen = world.tmux(["capture-pane", "-p", "-e", "-t", &target]);
        let mut lines: Vec<String> = plain(&screen).lines().map(str::to_owned).collect();
        lines.retain(|line| !line.is_empty());
        lines.sort();
        assert_eq!(lines, ["api | 20", "api | more", "old | done"], "{name}");
        assert_eq!(
            screen.contains("\u{1b}[36mapi |"),
            has_colours,
            "{screen:?}"
        );
        world.task(["kill", name]).ok();
    }
    // A further run, and a new task. What is printed while it begins to be followed may come twice.
    for name in ["old", "later"] {
        let gate = world.gate(name);
        world.run(name, &format!("echo one; {gate}; echo two"));
        world.until_shows(&format!("=work:{name}"), "one");
        gate.open();
        let both = ["one", "two"].map(|word| format!("{name} | {word}"));
        let mut lines = vec![following.line()];
        while lines.last() != Some(&both[1]) {
            lines.push(following.line());
        }
        lines.retain(|line| line.starts_with(name));
        lines.dedup();
        assert_eq!(lines, both);
    }
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(following.wait(), 0);
}

#[test]
fn logs_go_on_from_a_cursor() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!("seq 100; printf '$ '; {gate}; printf 'a b   \\n\\n  c'");
    let window = world.run("api", &line);
    world.until_shows(&window, "$");
    let since = |cursor: &Value| logs_json(&world, &["api", "--since", cursor.as_str().unwrap()]);
    let cursor = &logs_json(&world, &["api"])["cursor"];
    begins(cursor.as_str().unwrap(), "c1.");
    assert_eq!(since(cursor)["lines"], json!([]));
    gate.open();
    world.until_ended(&window);
    let after = since(cursor);
    assert_eq!(after["lines"], json!(["a b", "", "  c"]));
    assert_eq!(since(&after["cursor"])["lines"], json!([]));
    let printed = world.task(["logs", "api", "--since", cursor.as_str().unwrap()]);
    assert_eq!(printed.ok(), "a b\n\n  c\n");
}

#[test]
fn earlier_runs_are_kept_and_read_with_or_without_the_task_and_the_session() {
    let world = World::new();
    let window = world.run("api", "echo first; seq 100; exit 3");
    world.until("its end", |records| codes(records, "api") == [(1, 3)]);
    // A live run that is replaced is kept as well, as far as it came.
    for word in ["second", "third"] {
        world.run("api", &format!("echo {word}; exec sleep 1000"));
        world.until_shows(&window, word);
    }
    let first = world.call("logs api --run 1");
    assert!(first.ok().starts_with("first\n1\n2\n"), "{first}");
    let last = world.task(["logs", &window, "--run", "1", "-n", "1"]);
    assert_eq!(last.ok(), "100\n");
    assert_eq!(world.call("logs api --run 2").ok(), "second\n");
    for present in ["logs api", "logs api --run 3"] {
        assert_eq!(world.call(present).ok(), "third\n");
    }
    assert_eq!(
        logs_json(&world, &["api", "--run", "2"]),
        json!({"windowId": window, "windowName": "api", "run": 2, "lines": ["second"], "cursor": null})
    );
    world.call("logs api --run 4").fails(
        3,
        "tmux-task: logs: no output of run 4 of task `api` was kept\n\
         hint: `tmux-task logs api --runs` lists the runs that are stored",
    );
    // Of one that is gone the last one is read.
    world.run("other", "sleep 1000");
    world.task(["kill", "api"]).ok();
    let said =
        |what: &str| format!("tmux-task: {what}: api is gone; this is its last stored run, 3\n");
    let check = || {
        let shown = world.task(["logs", "api"]);
        assert_eq!((shown.ok(), &shown.err), ("third\n", &said("logs")));
        let found = world.call("search thi api");
        assert!(found.ok().ends_with(" api:1: third\n"), "{found}");
        assert_eq!(found.err, said("search"));
        let none = world.call("search first api");
        assert_eq!((none.code, &none.err), (1, &said("search")));
        let json = logs_json(&world, &["api"]);
        has_fields(&json, "run gone", json!([3, true]));
    };
    check();
    let both = world.call("logs other api");
    assert!(both.ok().ends_with("==> api <==\nthird\n"), "{both}");
    // It does not follow what is not there, and knows no cursor of it.
    assert_eq!(world.call("logs -f api").ok(), "third\n");
    let cursor = &logs_json(&world, &["other"])["cursor"];
    let since = ["logs", "api", "--since", cursor.as_str().unwrap()];
    world.task(since).fails_with(3);
    world.task(["logs", "nothing"]).fails_with(3);
    world.call("search x nothing").fails_with(3);
    // The same without the session, and without a daemon.
    world.task(["kill-all", "--yes"]).ok();
    check();
    world.task(["daemon", "stop"]).ok();
    check();
    assert_eq!(world.call("logs api --run 2").ok(), "second\n");
}

#[test]
fn search_says_where_it_is_already() {
    let world = World::new();
    let api = world.run("api", "printf 'one\\nlistening on 80\\n'; exec sleep 1000");
    let web = world.run("web", "echo 'Listening on 81'");
    world.until_shows(&api, "listening");
    world.until_ended(&web);
    let in_api = format!("{api} api:2: listening on 80\n");
    assert_eq!(world.task(["search", "listening on"]).ok(), in_api);
    let both = world.call(r"search -i --regex 'listening on \d+$'");
    assert_eq!(both.ok(), format!("{in_api}{web} web:1: Listening on 81\n"));
    assert_eq!(
        world.call("search 81 web --json").json(),
        json!([{"windowId": web, "windowName": "web", "run": 1, "lineNumber": 1, "line": "Listening on 81"}])
    );
    world.call("search 81 api").fails(1, "");
    world.call("search --regex (").fails_with(2);
    world.call("search x nobody").fails_with(3);
    world.call("-s nobody search x").fails_with(3);
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
        for (m, end) in ["", "\nno end"].iter().enumerate() {
            let name = format!("t{n}{m}");
            let window = world.run(
                &name,
                &format!("echo 'one, over'; printf '{}'; exit 3", end.trim()),
            );
            let records = world.until("its end", |records| codes(records, &name) == [(1, 3)]);
            world.until_shows(&window, "code");
            let output = format!("one, over{end}");
            let task = &event(&records, "exited", &name)["task"];
            assert_eq!(task["outputPreview"].as_str().unwrap().trim_end(), output);
            for style in [&[][..], &["--raw"]] {
                let logs = world.task([&["logs", &name], style].concat());
                assert_eq!(logs.ok().trim_end(), output, "{format}");
            }
            let found = world.task(["search", "code|ended", "--regex", &name]);
            assert_eq!(found.out, "");
        }
    }
}

/// tmux keeps the last rows only: the first ones are read before it drops them.
#[test]
fn the_first_lines_of_a_long_output_are_kept() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!("echo ERROR first; seq 3000; {gate}; seq 4000 64000");
    let window = world.run("big", &line);
    world.until_shows(&window, "3000");
    // The look that this takes shows the long history.
    world.task(["ls"]).ok();
    gate.open();
    world.task(["wait", "big"]).ok();
    let missing =
        |what: &str| format!("tmux-task: {what}: output of `big` is missing after line 1999\n");
    let found = world.call("search ERROR big");
    assert_eq!(found.ok(), format!("{window} big:1: ERROR first\n"));
    assert_eq!(found.err, missing("search"));
    // What is missing may have matched.
    let found = world.call("search 3000 big --regex --json");
    assert!(found.out.contains("\"mayLackBeginning\":true"), "{found}");
    let none = world.call("search NOWHERE big --json");
    assert_eq!((none.code, none.out.as_str()), (5, "[]\n"), "{none}");
    assert_eq!(none.err, missing("search"));
    for run in [&[][..], &["--run", "1"]] {
        let logs = world.task([&["logs", "big"], run].concat());
        let lines: Vec<&str> = logs.ok().lines().collect();
        let some = (lines[0], lines[1998], lines[lines.len() - 1]);
        assert_eq!(some, ("ERROR first", "1998", "64000"));
        assert_eq!(logs.err, missing("logs"));
        let logs = logs_json(&world, &[&["big"], run].concat());
        has_fields(&logs, "mayLackBeginning gapAfter", json!([true, 1999]));
    }
    // Of the last lines none is missing.
    let last = world.call("logs big -n 3");
    assert_eq!(
        (last.ok(), last.err.as_str()),
        ("63998\n63999\n64000\n", "")
    );
    // A program may print more than tmux keeps within some hundredths of a second: that is said.
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
fn followers_that_begin_beside_a_flood_show_each_line_once_and_in_order() {
    let world = World::new();
    world.run("flood", "seq -w 300000; exec sleep 1000");
    let program = World::program().display();
    let followers: Vec<_> = (0..6)
        .map(|n| {
            let shown = world.path(&format!("shown-{n}"));
            let command = format!("exec {program} logs -f flood >{}", shown.display());
            let mut shell = world.command("sh");
            shell.args(["-c", &command]);
            (shell.spawn().unwrap(), shown)
        })
        .collect();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    world.until_true("the end of the flood", || {
        let mut shown = followers.iter().map(|(_, shown)| read(shown));
        shown.all(|shown| shown.ends_with("\n300000\n"))
    });
    for (mut follower, shown) in followers {
        follower.kill().unwrap();
        follower.wait().unwrap();
        // A line that is being printed where the follower begins may be shown twice.
        let shown = read(&shown);
        let lines = shown.lines().filter(|line| line.len() == 6);
        let lines: Vec<u32> = lines.map(|line| line.parse().unwrap()).collect();
        let pairs = lines.windows(2).filter(|pair| pair[0] + 1 != pair[1]);
        let twice: Vec<&[u32]> = pairs.collect();
        let are_twice = twice.iter().all(|pair| pair[0] == pair[1]);
        assert!(twice.len() <= 1 && are_twice, "{twice:?}");
    }
}
