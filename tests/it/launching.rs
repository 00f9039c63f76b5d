//! Launches in users' sessions: with their shells, their hooks, and unusual arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Output, World, events, has_ended, pid, story, window_of};

fn launch(world: &World, args: &[&str]) -> Value {
    let output = world.task([&["run", "--json"], args].concat());
    serde_json::from_str(output.ok()).unwrap()
}

#[test]
fn a_shell_of_a_persons_is_no_slot() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "-n", "node"]);
    let shell = world.tmux([
        "display-message",
        "-p",
        "-t",
        "work:",
        "#{window_id} #{pane_pid}",
    ]);
    let (window, _) = shell.split_once(' ').unwrap();
    let first = launch(&world, &["node", "--", "sleep 1000"]);
    assert_ne!(first["windowId"], window);
    assert_eq!(first["replaced"], Value::Null);
    let again = launch(&world, &["node", "--", "sleep 1000"]);
    assert_eq!(again["windowId"], first["windowId"]);
    // The shell has counted as a run of that name.
    let next = first["run"].as_u64().unwrap() + 1;
    assert_eq!(
        (&again["run"], &again["replaced"]),
        (&next.into(), &"live".into())
    );
    let now = world.tmux([
        "display-message",
        "-p",
        "-t",
        window,
        "#{window_id} #{pane_pid}",
    ]);
    assert_eq!(now, shell);
    // What was opened with a command, or what another launcher has marked, is one.
    world.tmux([
        "new-window",
        "-d",
        "-t",
        "work:",
        "-n",
        "opened",
        "exec sleep 1000",
    ]);
    world.tmux(["new-window", "-d", "-t", "work:", "-n", "marked"]);
    world.tmux([
        "set-option",
        "-w",
        "-t",
        "=work:marked",
        "@pi_task_command",
        "x",
    ]);
    for name in ["opened", "marked"] {
        let run = launch(&world, &[name, "--", "sleep 1000"]);
        assert_eq!(
            (&run["run"], &run["replaced"]),
            (&2.into(), &"live".into()),
            "{name}"
        );
    }
}

#[test]
fn what_is_replaced_is_said_and_a_live_run_may_stay() {
    let world = World::new();
    let first = launch(&world, &["--if-absent", "api", "--", "sleep 1000"]);
    assert_eq!(first["replaced"], Value::Null);
    for (field, value) in [("sessionName", "work"), ("windowName", "api")] {
        assert_eq!(first[field], value);
    }
    assert_eq!(first["taskCwd"], world.project().to_str().unwrap());
    let window = first["windowId"].as_str().unwrap();
    world
        .task(["run", "--if-absent", "api", "--", "exit 0"])
        .fails(
            1,
            &format!(
                "tmux-task: run: task `api` is running in {window}\n\
                 hint: without --if-absent, the live run is replaced"
            ),
        );
    let second = launch(&world, &["api", "--", "exit 0"]);
    assert_eq!(
        (&second["run"], &second["replaced"]),
        (&2.into(), &"live".into())
    );
    world.until_ended(window);
    let third = launch(&world, &["--if-absent", "api", "--", "sleep 1000"]);
    assert_eq!(
        (&third["run"], &third["replaced"]),
        (&3.into(), &"dead".into())
    );
    assert_eq!(third["windowId"], window);
}

#[test]
fn a_window_that_tmux_has_named_is_no_slot() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "sleep", "1000"]);
    // tmux may look between fork and exec, and not again: what it shows then is its format.
    world.tmux(["set-option", "-g", "automatic-rename-format", "sleep"]);
    // This makes it look again.
    world.tmux(["set-option", "-g", "automatic-rename", "on"]);
    let format = "#{window_id} #{window_name} #{pane_pid}";
    let show = || world.tmux(["display-message", "-p", "-t", "work:", format]);
    world.until_true("tmux has named it", || show().contains(" sleep "));
    let before = show();
    let run = || {
        let mut run = launcher(&world);
        run.args(["sleep", "--", "exec sleep 1000"]);
        window_of(Output::of(run).ok())
    };
    let first = run();
    assert!(!before.starts_with(&format!("{first} ")), "{before}");
    assert_eq!(run(), first);
    assert_eq!(show(), before);
    // A name that somebody gives makes it a slot.
    world.tmux(["rename-window", "-t", "work:", "api"]);
    let mut run = launcher(&world);
    run.args(["api", "--", "exec sleep 1000"]);
    let window = window_of(Output::of(run).ok());
    assert!(before.starts_with(&format!("{window} ")), "{before}");
}

#[test]
fn a_hook_that_closes_new_windows_is_said() {
    for has_session in [true, false] {
        let world = World::new();
        let hook = "set-hook -g after-new-window kill-window";
        fs::write(world.path("home").join(".tmux.conf"), format!("{hook}\n")).unwrap();
        if has_session {
            world.tmux(["new-session", "-d", "-s", "work", "exec sleep 1000"]);
            world.tmux(["set-hook", "-g", "after-new-window", "kill-window"]);
        }
        world.task(["run", "api", "--", "sleep 1000"]).fails(
            1,
            "tmux-task: run: the window of task `api` was gone right after it was made\n\
             hint: a hook of tmux may have closed it: `tmux show-hooks -g` lists them",
        );
    }
}

#[test]
fn a_server_that_a_launch_starts_keeps_nothing_of_the_callers() {
    let world = World::new();
    let lock = world.project().join("lock");
    let mut run = world.command("sh");
    let line = "exec 9>lock; \"$0\" run api -- 'pwd >seen.part; mv seen.part seen; sleep 1000'";
    run.args(["-c", line]).arg(World::program());
    Output::of(run).ok();
    let server = world.tmux(["display-message", "-p", "#{pid}"]);
    let process = Path::new("/proc").join(server);
    assert_eq!(fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));
    let files = process.join("fd").read_dir().unwrap();
    let has_lock = |file: std::io::Result<fs::DirEntry>| {
        fs::read_link(file.unwrap().path()).is_ok_and(|to| to == lock)
    };
    assert!(!files.into_iter().any(has_lock));
    let seen = world.project().join("seen");
    world.until_true("the directory is told", || seen.exists());
    let told = fs::read_to_string(seen).unwrap();
    assert_eq!(told.trim_end(), world.project().to_str().unwrap());
}

/// Hooks as users have them. Each one once left a launch incomplete or doubled it.
const HOOKS: [(&str, &str); 11] = [
    ("after-new-window", "rename-window x#I"),
    ("window-linked", "rename-window x#I"),
    ("after-new-session", "run-shell 'sleep 0.1'"),
    ("session-created", "run-shell 'sleep 0.1'"),
    ("after-new-window", "run-shell 'sleep 0.1'"),
    ("after-new-window", "run-shell 'echo new'"),
    ("after-new-window", "display-message -p 'made-1 %99'"),
    ("after-new-window", "new-window -d 'exec sleep 1000'"),
    ("after-new-window", "split-window -d -b 'exec sleep 1000'"),
    ("after-set-option", "run-shell 'sleep 0.01'"),
    (
        "after-set-option",
        "new-window -d -a -t ':{end}' 'exec sleep 1000'",
    ),
];

#[test]
fn a_launch_beside_hooks_of_the_users_is_made_once() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "other", "exec sleep 1000"]);
    for (hook, command) in HOOKS {
        world.tmux(["set-hook", "-g", hook, command]);
        let line = "echo run >>runs; exit 3";
        let first = launch(&world, &["api", "--", line]);
        let window = first["windowId"].as_str().unwrap();
        world.until_ended(window);
        let format = "#{window_name} #{pane_dead_status}";
        assert_eq!(
            world.tmux(["display-message", "-p", "-t", window, format]),
            "api 3",
            "{hook} {command}"
        );
        let tasks = ["list-windows", "-a", "-f", "#{@tmux_task_launch}"];
        let tasks = world.tmux([&tasks[..], &["-F", "#{window_id}"]].concat());
        assert_eq!(tasks, window, "{hook} {command}");
        let second = launch(&world, &["api", "--", line]);
        assert_eq!(second["windowId"], first["windowId"], "{hook} {command}");
        // Runs of a name are counted over sessions.
        let next = first["run"].as_u64().unwrap() + 1;
        assert_eq!(second["run"], next, "{hook} {command}");
        world.until_ended(window);
        let other = launch(&world, &["web", "--", line]);
        world.until_ended(other["windowId"].as_str().unwrap());
        let file = world.project().join("runs");
        assert_eq!(
            fs::read_to_string(&file).unwrap().lines().count(),
            3,
            "{hook} {command}"
        );
        fs::remove_file(file).unwrap();
        world.tmux(["set-hook", "-gu", hook]);
        world.tmux(["kill-session", "-t", "=work"]);
    }
}

#[test]
fn a_hook_of_the_session_or_of_its_group_does_not_rename_a_task() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    let check = |name: &str| {
        let window = world.run(name, "exec sleep 1000");
        let shown = world.tmux(["display-message", "-p", "-t", &window, "#{window_name}"]);
        assert_eq!(shown, name);
    };
    check("plain");
    let hook = ["window-linked", "rename-window x#I"];
    world.tmux([&["set-hook", "-t", "work:"], &hook[..]].concat());
    check("session");
    world.tmux(["set-hook", "-u", "-t", "work:", hook[0]]);
    world.tmux(["new-session", "-d", "-t", "work", "-s", "other"]);
    world.tmux([&["set-hook", "-t", "other:"], &hook[..]].concat());
    check("group");
}

#[test]
fn a_launch_that_a_hook_holds_up_is_one_run() {
    let world = World::new();
    world.run("other", "exec sleep 1000");
    let hooks = ["run-shell 'sleep 0.1'", "split-window -d 'exec sleep 1000'"];
    for (index, command) in hooks.iter().enumerate() {
        world.tmux(["set-hook", "-g", "after-new-window", command]);
        let name = format!("api{index}");
        let output = world.task(["run", &name, "--wait", "--", "exit 3"]);
        assert_eq!(output.code, 3, "{command}: {output}");
        let output = world.task(["run", &name, "--until", "READY", "--", "echo READY"]);
        assert_eq!(output.code, 0, "{command}: {output}");
    }
    let records = world.finish();
    let story = story(&records);
    assert_eq!(
        story
            .iter()
            .filter(|line| line.contains("replaced"))
            .count(),
        0,
        "{story:?}"
    );
    let started = |name: &str| {
        let of_it = events(&records).into_iter();
        let of_it = of_it.filter(|event| event["task"]["windowName"] == name);
        of_it
            .filter(|event| event["type"] == "started")
            .map(|event| event["task"]["run"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    for name in ["api0", "api1"] {
        assert!(started(name).iter().all(|run| *run <= 2), "{story:?}");
    }
}

#[test]
fn a_server_that_ends_at_once_is_said() {
    let world = World::new();
    fs::write(
        world.path("home").join(".tmux.conf"),
        "set-option -s exit-unattached on\n",
    )
    .unwrap();
    world.task(["run", "api", "--", "sleep 1000"]).fails(
        1,
        "tmux-task: run: task `api` ends as soon as it was started: tmux's option exit-unattached \
         is on, and no client is attached\n\
         hint: `tmux set-option -s exit-unattached off` lets it run",
    );
}

#[test]
fn a_window_that_goes_with_its_run_leaves_the_record_and_one_clear_line() {
    let world = World::new();
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "stay",
        "exec sleep 1000",
    ]);
    world.tmux(["set-hook", "-g", "pane-died", "kill-pane"]);
    let gate = world.gate("gate");
    let run = world.start([
        "run",
        "--wait",
        "api",
        "--",
        &format!("{}; exit 3", gate.wait()),
    ]);
    world.until("it runs", has_started);
    gate.open();
    // The window is closed in the instant of the end: the code is known where the kernel was asked
    // for it before tmux was.
    let lines = |name: &str, code: u8| {
        [
            format!("tmux-task: run {name}: the task exited with code {code}"),
            format!("tmux-task: run {name}: the task has disappeared"),
        ]
    };
    let complaint = run.complaint();
    assert!(lines("api", 3).contains(&complaint), "{complaint}");
    // It may also be closed before the wait begins.
    let output = world.task(["run", "--wait", "web", "--", "exit 4"]);
    let reported = lines("web", 4);
    assert!(
        output
            .err
            .lines()
            .any(|line| reported.iter().any(|l| l == line)),
        "{output}"
    );
    world.until("its end", |records| {
        let is_end = |event: &&Value| event["type"] == "exited" || event["type"] == "disappeared";
        let of_web = |event: &&Value| event["task"]["windowName"] == "web";
        let ends = events(records).into_iter();
        let ends: Vec<_> = ends.filter(is_end).filter(of_web).collect();
        let code = ends.first().map(|end| end["task"]["exitCode"].clone());
        ends.len() == 1 && [Some(json!(4)), Some(Value::Null)].contains(&code)
    });
}

#[test]
fn a_first_task_that_ends_its_own_session_is_in_the_feed() {
    let world = World::new();
    // The second one has the same ids as the first one, and the same daemon.
    for n_runs in 1..=2 {
        let output = world.task(["run", "--wait", "api", "--", "tmux kill-server"]);
        let complaint = "tmux-task: run api: the task has disappeared";
        assert!(output.err.lines().any(|line| line == complaint), "{output}");
        assert_eq!(output.code, 125, "{output}");
        world.until("its end", |records| {
            let is_gone = |event: &&Value| event["type"] == "disappeared";
            events(records).into_iter().filter(is_gone).count() == n_runs
        });
    }
    world.finish();
}

fn has_started(records: &[Value]) -> bool {
    events(records)
        .iter()
        .any(|event| event["type"] == "started" && event["task"]["windowName"] == "api")
}

/// Words that someone may give to a task.
pub(crate) fn words() -> Vec<OsString> {
    let texts = [
        "",
        " ",
        "it's",
        "\"",
        "\\",
        "a\\",
        "two\nlines",
        "\n",
        "\t",
        ";",
        "x;",
        "\\;",
        "#{pid}",
        "##",
        "#[x]",
        "##[x]",
        "#(touch owned)",
        "$(touch owned)",
        "`touch owned`",
        "$HOME",
        "~",
        "*",
        "{a,b}",
        "}",
        "%1",
        "-x",
        "--",
        "ünï→日本",
        "A=b",
        "#",
        "&&",
    ];
    let every = (1..=255).map(|byte: u8| OsString::from_vec(vec![b'<', byte, b'>']));
    let all = OsString::from_vec((1..=255).collect());
    let end = OsString::from_vec(b"a\xff ; run-shell \"touch owned\" #".to_vec());
    texts
        .into_iter()
        .map(OsString::from)
        .chain(every)
        .chain([all, end])
        .collect()
}

fn launcher(world: &World) -> Command {
    let mut command = world.command(World::program());
    command.arg("run");
    command
}

#[test]
fn any_word_arrives_byte_for_byte() {
    let world = World::new();
    let show = world.script(
        "show",
        "#!/bin/sh\nprintf '%s\\0' \"$@\" >seen.part && mv seen.part seen\n",
    );
    let mut run = launcher(&world);
    run.args(["api", "--"]).arg(show).args(words());
    Output::of(run).ok();
    let seen = world.project().join("seen");
    world.until_true("the words are there", || seen.exists());
    let mut expected = Vec::new();
    for word in words() {
        expected.extend_from_slice(word.as_bytes());
        expected.push(0);
    }
    assert!(fs::read(seen).unwrap() == expected);
    assert!(!world.project().join("owned").exists());
}

#[test]
fn any_directory_is_the_one_or_is_refused() {
    let names: [&[u8]; 10] = [
        b"#{pid}",
        b"##{pid}",
        b"#[x]",
        b"##[x]#",
        b"#(touch owned)",
        b"a b;",
        b"it's",
        "日本".as_bytes(),
        b"a\xff ; run-shell 'touch owned' #",
        b"\xe9",
    ];
    let world = World::new();
    for name in names {
        let folder = world.project().join(OsStr::from_bytes(name));
        fs::create_dir_all(&folder).unwrap();
        let mut run = launcher(&world);
        run.args(["api", "--", "pwd >seen.part; mv seen.part seen; sleep 1000"])
            .current_dir(&folder);
        let output = Output::of(run);
        let what = format!("{folder:?}: {output}");
        if folder.to_str().is_some() {
            window_of(output.ok());
            world.until_true("the directory is told", || folder.join("seen").exists());
            let told = fs::read_to_string(folder.join("seen")).unwrap();
            assert_eq!(told, format!("{}\n", folder.display()), "{what}");
        } else {
            assert_eq!((output.code, output.out.as_str()), (1, ""), "{what}");
            assert!(output.err.contains("its name is not UTF-8"), "{what}");
        }
        assert!(!folder.join("owned").exists(), "{what}");
    }
}

#[test]
fn a_session_whose_name_is_not_text_is_refused() {
    let world = World::new();
    let mut run = launcher(&world);
    run.args(["api", "--", "true"]).env(
        "TMUX_TASK_SESSION",
        OsStr::from_bytes(b"a\xff ; run-shell 'touch owned' #"),
    );
    let output = Output::of(run);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
    assert!(!world.path("tmux").read_dir().unwrap().any(|_| true));
}

#[test]
fn a_wait_that_cannot_be_replaces_nothing() {
    let mut world = World::new();
    let window = world.run("api", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    let pid = world.tmux(["display-message", "-p", "-t", &window, "#{pane_pid}"]);
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    for condition in [&["--wait"][..], &["--follow"], &["--until", "up"]] {
        let output = world.task([&["run", "api"], condition, &["--", "true"]].concat());
        assert!(output.err.contains("no daemon runs"), "{output}");
        assert_eq!(output.out, "", "{output}");
    }
    let after = world.tmux(["display-message", "-p", "-t", &window, "#{pane_pid}"]);
    assert_eq!(after, pid);
}

/// Makes bash's `fork` take long in both processes, from when a task creates the file `slow` on.
const SLOW_FORK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
pid_t fork(void) {
    pid_t (*real)(void) = dlsym(RTLD_NEXT, "fork");
    /* The launcher's own shell, which may fork until it ends, is in no pane. */
    int is_slow = getenv("TMUX_PANE") != NULL && access("slow", F_OK) == 0
        && strcmp(program_invocation_short_name, "bash") == 0;
    pid_t pid = real();
    if (is_slow && pid == 0) close(open("forked", O_CREAT | O_WRONLY, 0600));
    while (is_slow && access("go on", F_OK) != 0) usleep(1000);
    return pid;
}
"#;

#[test]
#[cfg(target_os = "linux")]
fn a_pane_that_is_closed_while_its_command_starts_leaves_no_process() {
    let mut world = World::new();
    let library = world.c_library("fork", SLOW_FORK);
    world.set("LD_PRELOAD", library.to_str().unwrap());
    let mut run = launcher(&world);
    run.args(["api", "--", ": >slow; sleep 1000"]);
    Output::of(run).ok();
    let project = world.project();
    world.until_true("the command starts", || project.join("forked").exists());
    let shell = world.tmux(["display-message", "-p", "-t", "work:", "#{pane_pid}"]);
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let processes = [shell.as_str(), children.trim()].map(|found| pid(found.parse().unwrap()));
    let terminal = || {
        let stat = fs::read_to_string(format!("/proc/{shell}/stat")).ok()?;
        let fields = stat.rsplit_once(')')?.1.split_whitespace();
        fields.skip(4).map(str::to_owned).next()
    };
    assert!(terminal().is_some_and(|number| number != "0"));
    world.tmux(["kill-server"]);
    world.until_true("the terminal is gone", || {
        terminal().is_none_or(|number| number == "0")
    });
    fs::write(project.join("go on"), "").unwrap();
    world.until_true("both processes end", || {
        processes.iter().all(|process| has_ended(*process))
    });
}

#[test]
fn a_command_that_cleans_up_in_a_trap_does_so_when_its_pane_is_closed() {
    let world = World::new();
    let mut run = launcher(&world);
    run.args(["api", "--", "trap ': >cleaned' EXIT; : >ready; sleep 1000"]);
    Output::of(run).ok();
    let project = world.project();
    world.until_true("the trap is set", || project.join("ready").exists());
    world.tmux(["kill-window", "-t", "=work:api"]);
    world.until_true("the trap runs", || project.join("cleaned").exists());
}

#[test]
fn a_task_without_a_name_is_named_after_its_program() {
    let world = World::new();
    let name = |args: &[&str]| launch(&world, args)["windowName"].clone();
    let first = launch(&world, &["--", "sleep", "1000"]);
    assert_eq!(first["windowName"], "sleep");
    let window = first["windowId"].as_str().unwrap();
    assert_eq!(name(&["--", "X=1 exec sleep 1001"]), "sleep-2");
    assert_eq!(name(&["--", "sleep", "1002"]), "sleep-3");
    // The first one that does not live.
    world.task(["kill", "sleep-2", "--grace", "0"]).ok();
    assert_eq!(name(&["--", "sleep", "1003"]), "sleep-2");
    let first = world.task(["run", "--wait", "--", "true"]);
    assert!(first.ok().contains("task=true\n"), "{first}");
    let again = launch(&world, &["--", "true"]);
    assert_eq!(
        (&again["windowName"], &again["run"]),
        (&"true".into(), &2.into())
    );
    world
        .task(["run", "--if-absent", "--", "sleep", "1"])
        .fails(
            1,
            &format!(
                "tmux-task: run: task `sleep` is running in {}\n\
                 hint: without --if-absent, the live run is replaced",
                window
            ),
        );
    for words in [&["run"][..], &["run", "--"]] {
        assert_eq!(world.task(words).code, 2);
    }
}

#[test]
fn many_at_once_without_a_name_get_one_each() {
    let world = World::new();
    let started: Vec<_> = (0..5)
        .map(|_| world.start(["run", "--json", "--", "sleep", "1000"]))
        .collect();
    let mut names: Vec<String> = started
        .iter()
        .map(|run| run.record()["windowName"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["sleep", "sleep-2", "sleep-3", "sleep-4", "sleep-5"]);
}
