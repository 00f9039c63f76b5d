//! Launches in users' sessions: with their shells, their hooks, and unusual arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{
    Output, World, argv, events, has_ended, has_fields, lacks, pid, story, window_of,
};

fn launch(world: &World, args: &[&str]) -> Value {
    world.task([&["run", "--json"], args].concat()).json()
}

#[test]
fn a_shell_of_a_persons_is_no_slot() {
    let world = World::new();
    world.tmux(argv("new-session -d -s work -n node"));
    let window = world.says("work:", "#{window_id}");
    let shell = world.pane_pid(&window);
    let first = launch(&world, &["node", "--", "sleep 1000"]);
    assert_ne!(first["windowId"], *window);
    assert_eq!(first["replaced"], Value::Null);
    let again = launch(&world, &["node", "--", "sleep 1000"]);
    assert_eq!(again["windowId"], first["windowId"]);
    // The shell has counted as a run of that name.
    let next = first["run"].as_u64().unwrap() + 1;
    has_fields(&again, "run replaced", json!([next, "live"]));
    assert_eq!(world.pane_pid(&window), shell);
    // What was opened with a command, or what another launcher has marked, is one.
    world.new_window("opened", "exec sleep 1000");
    world.tmux(argv("new-window -d -t work: -n marked"));
    world.tmux(argv("set-option -w -t =work:marked @pi_task_command x"));
    for name in ["opened", "marked"] {
        let run = launch(&world, &[name, "--", "sleep 1000"]);
        has_fields(&run, "run replaced", json!([2, "live"]));
    }
}

#[test]
fn what_is_replaced_is_said_and_a_live_run_may_stay() {
    let world = World::new();
    let first = launch(&world, &["--if-absent", "api", "--", "sleep 1000"]);
    let cwd = world.project();
    has_fields(
        &first,
        "replaced sessionName windowName taskCwd",
        json!([null, "work", "api", cwd.to_str().unwrap()]),
    );
    let window = first["windowId"].as_str().unwrap();
    let why = format!(
        "tmux-task: run: task `api` is running in {window}\n\
         hint: without --if-absent, the live run is replaced"
    );
    world.call("run --if-absent api -- 'exit 0'").fails(1, &why);
    let second = launch(&world, &["api", "--", "exit 0"]);
    has_fields(&second, "run replaced", json!([2, "live"]));
    world.until_ended(window);
    let third = launch(&world, &["--if-absent", "api", "--", "sleep 1000"]);
    has_fields(&third, "run replaced windowId", json!([3, "dead", window]));
}

#[test]
fn a_server_or_a_hook_that_ends_a_task_at_once_is_said() {
    for (settings, has_session, why) in [
        ("set-option -s exit-unattached on", false, UNATTACHED),
        ("set-hook -g after-new-window kill-window", false, CLOSED),
        ("set-hook -g after-new-window kill-window", true, CLOSED),
    ] {
        let world = World::new();
        fs::write(world.path("home/.tmux.conf"), settings).unwrap();
        if has_session {
            world.tmux(argv("new-session -d -s work 'exec sleep 1000'"));
            world.tmux(argv(settings));
        }
        let run = world.call("run api -- 'sleep 1000'");
        run.fails(1, &format!("tmux-task: run: {why}"));
    }
}

const UNATTACHED: &str = "task `api` ends as soon as it was started: tmux's option exit-unattached is on, and no \
                          client is attached\n\
                          hint: `tmux set-option -s exit-unattached off` lets it run";

const CLOSED: &str = "the window of task `api` was gone right after it was made\n\
                      hint: a hook of tmux may have closed it: `tmux show-hooks -g` lists them";

/// Hooks as users have them. Each one once left a launch incomplete or doubled it.
const HOOKS: [&str; 11] = [
    "after-new-window 'rename-window x#I'",
    "window-linked 'rename-window x#I'",
    "after-new-session \"run-shell 'sleep 0.1'\"",
    "session-created \"run-shell 'sleep 0.1'\"",
    "after-new-window \"run-shell 'sleep 0.1'\"",
    "after-new-window \"run-shell 'echo new'\"",
    "after-new-window \"display-message -p 'made-1 %99'\"",
    "after-new-window \"new-window -d 'exec sleep 1000'\"",
    "after-new-window \"split-window -d -b 'exec sleep 1000'\"",
    "after-set-option \"run-shell 'sleep 0.01'\"",
    "after-set-option \"new-window -d -a -t ':{end}' 'exec sleep 1000'\"",
];

#[test]
fn a_launch_beside_hooks_of_the_users_is_made_once() {
    let world = World::new();
    world.tmux(argv("new-session -d -s other 'exec sleep 1000'"));
    for hook in HOOKS {
        world.tmux(argv(&format!("set-hook -g {hook}")));
        let line = "echo run >>runs; exit 3";
        let first = launch(&world, &["api", "--", line]);
        let window = first["windowId"].as_str().unwrap();
        world.until_ended(window);
        let shown = world.says(window, "#{window_name} #{pane_dead_status}");
        assert_eq!(shown, "api 3", "{hook}");
        let tasks = world.tmux(argv(
            "list-windows -a -f #{@tmux_task_launch} -F #{window_id}",
        ));
        assert_eq!(tasks, window, "{hook}");
        let second = launch(&world, &["api", "--", line]);
        assert_eq!(second["windowId"], first["windowId"], "{hook}");
        // Runs of a name are counted over sessions.
        let next = first["run"].as_u64().unwrap() + 1;
        assert_eq!(second["run"], next, "{hook}");
        world.until_ended(window);
        let other = launch(&world, &["web", "--", line]);
        world.until_ended(other["windowId"].as_str().unwrap());
        let file = world.project().join("runs");
        let n_runs = fs::read_to_string(&file).unwrap().lines().count();
        assert_eq!(n_runs, 3, "{hook}");
        fs::remove_file(file).unwrap();
        let (name, _) = hook.split_once(' ').unwrap();
        world.tmux(["set-hook", "-gu", name]);
        world.tmux(argv("kill-session -t =work"));
    }
}

#[test]
fn a_hook_of_the_session_or_of_its_group_does_not_rename_a_task() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    let check = |name: &str| {
        let window = world.run(name, "exec sleep 1000");
        assert_eq!(world.says(&window, "#{window_name}"), name);
    };
    let hook = "window-linked 'rename-window x#I'";
    world.tmux(argv(&format!("set-hook -t work: {hook}")));
    check("session");
    world.tmux(argv("set-hook -u -t work: window-linked"));
    world.tmux(argv("new-session -d -t work -s other"));
    world.tmux(argv(&format!("set-hook -t other: {hook}")));
    check("group");
}

#[test]
fn a_launch_that_a_hook_holds_up_is_one_run() {
    let world = World::new();
    world.run("other", "exec sleep 1000");
    let hooks = ["run-shell 'sleep 0.1'", "split-window -d 'exec sleep 1000'"];
    let names = ["api0", "api1"];
    for (name, command) in names.into_iter().zip(hooks) {
        world.tmux(["set-hook", "-g", "after-new-window", command]);
        let output = world.task(["run", name, "--wait", "--", "exit 3"]);
        assert_eq!(output.code, 3, "{command}: {output}");
        let output = world.task(["run", name, "--until", "READY", "--", "echo READY"]);
        assert_eq!(output.code, 0, "{command}: {output}");
    }
    let records = world.finish();
    let story = story(&records);
    lacks(story.concat(), "replaced");
    for event in events(&records) {
        let is_start = event["type"] == "started" && event["task"]["windowName"] != "other";
        let run = event["task"]["run"].as_u64().unwrap();
        assert!(!is_start || run <= 2, "{story:?}");
    }
}

#[test]
fn a_window_that_goes_with_its_run_leaves_the_record_and_one_clear_line() {
    let world = World::new();
    world.tmux(argv("new-session -d -s work -n stay 'exec sleep 1000'"));
    world.tmux(argv("set-hook -g pane-died kill-pane"));
    let gate = world.gate("gate");
    let line = format!("{gate}; exit 3");
    let run = world.start(["run", "--wait", "api", "--", &line]);
    world.until("it runs", |records| {
        story(records).contains(&"started api".to_owned())
    });
    gate.open();
    // The window is closed in the instant of the end: the code is known where the kernel was asked
    // for it before tmux was.
    let lines = |name: &str, code: u8| {
        ["exited with code", "disappeared"].map(|end| match end {
            "disappeared" => format!("tmux-task: run {name}: the task has disappeared"),
            _ => format!("tmux-task: run {name}: the task {end} {code}"),
        })
    };
    let complaint = run.complaint();
    assert!(lines("api", 3).contains(&complaint), "{complaint}");
    // It may also be closed before the wait begins.
    let output = world.call("run --wait web -- 'exit 4'");
    let reported = lines("web", 4);
    let mut said = output.err.lines();
    assert!(
        said.any(|line| reported.iter().any(|l| l == line)),
        "{output}"
    );
    world.until("its end", |records| {
        let mut ends = events(records);
        ends.retain(|event| event["type"] == "exited" || event["type"] == "disappeared");
        ends.retain(|event| event["task"]["windowName"] == "web");
        let codes: Vec<_> = ends.iter().map(|end| &end["task"]["exitCode"]).collect();
        codes == [&json!(4)] || codes == [&Value::Null]
    });
}

#[test]
fn a_first_task_that_ends_its_own_session_is_in_the_feed() {
    let world = World::new();
    // The second one has the same ids as the first one, and the same daemon.
    for n_runs in 1..=2 {
        let output = world.call("run --wait api -- 'tmux kill-server'");
        let complaint = "tmux-task: run api: the task has disappeared";
        assert!(output.err.lines().any(|line| line == complaint), "{output}");
        assert_eq!(output.code, 125, "{output}");
        world.until("its end", |records| {
            let gone = story(records).into_iter();
            gone.filter(|line| line.starts_with("disappeared")).count() == n_runs
        });
    }
    world.finish();
}

/// Words that someone may give to a task.
pub(crate) fn words() -> Vec<OsString> {
    let texts = "| |it's|\"|\\|a\\|two\nlines|\n|\t|;|x;|\\;|#{pid}|##|#[x]|##[x]|#(touch owned)|$(touch owned)|\
                 `touch owned`|$HOME|~|*|{a,b}|}|%1|-x|--|ünï→日本|A=b|#|&&";
    let every = (1..=255).map(|byte: u8| OsString::from_vec(vec![b'<', byte, b'>']));
    let all = OsString::from_vec((1..=255).collect());
    let end = OsString::from_vec(b"a\xff ; run-shell \"touch owned\" #".to_vec());
    let texts = texts.split('|').map(OsString::from);
    texts.chain(every).chain([all, end]).collect()
}

fn launcher(world: &World) -> Command {
    let mut command = world.command(World::program());
    command.arg("run");
    command
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
    for (n, name) in names.into_iter().enumerate() {
        let folder = world.project().join(OsStr::from_bytes(name));
        fs::create_dir_all(&folder).unwrap();
        let mut run = launcher(&world);
        if n % 2 == 0 {
            run.current_dir(&folder);
        } else {
            run.arg("--cwd").arg(&folder);
        }
        run.args(["api", "--", "pwd >seen.part; mv seen.part seen; sleep 1000"]);
        let output = Output::of(run);
        if folder.to_str().is_some() {
            window_of(output.ok());
            world.until_true("the directory is told", || folder.join("seen").exists());
            let told = fs::read_to_string(folder.join("seen")).unwrap();
            assert_eq!(told, format!("{}\n", folder.display()));
        } else {
            output.fails_saying(1, "its name is not UTF-8");
            assert_eq!(output.out, "", "{folder:?}");
        }
        assert!(!folder.join("owned").exists(), "{folder:?}");
    }
    // The name of a session has to be text as well.
    let mut run = launcher(&world);
    let name = OsStr::from_bytes(b"a\xff ; run-shell 'touch owned' #");
    run.args(["api", "--", "true"])
        .env("TMUX_TASK_SESSION", name);
    let output = Output::of(run);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
    assert_eq!(world.sessions(), ["work"]);
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
    world.run("api", ": >slow; sleep 1000");
    let project = world.project();
    world.until_true("the command starts", || project.join("forked").exists());
    let shell = world.pane_pid("work:");
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
    world.run("api", "trap ': >cleaned' EXIT; : >ready; sleep 1000");
    let project = world.project();
    world.until_true("the trap is set", || project.join("ready").exists());
    world.tmux(argv("kill-window -t =work:api"));
    world.until_true("the trap runs", || project.join("cleaned").exists());
}

#[test]
fn a_task_without_a_name_is_named_after_its_program() {
    let world = World::new();
    let name = |line: &str| launch(&world, &["--", line])["windowName"].clone();
    let first = launch(&world, &["--", "sleep", "1000"]);
    assert_eq!(first["windowName"], "sleep");
    let window = first["windowId"].as_str().unwrap();
    assert_eq!(name("X=1 exec sleep 1001"), "sleep-2");
    // Of many at once, each gets one of its own.
    let started = [(); 5].map(|()| world.start(argv("run --json -- sleep 1000")));
    let mut names = started.map(|run| run.record()["windowName"].clone());
    names.sort_by_key(Value::to_string);
    assert_eq!(
        names,
        ["sleep-3", "sleep-4", "sleep-5", "sleep-6", "sleep-7"]
    );
    // The first one that does not live.
    world.call("kill sleep-2 --grace 0").ok();
    assert_eq!(name("sleep 1003"), "sleep-2");
    world.call("run --wait -- true").prints("task=true\n");
    let again = launch(&world, &["--", "true"]);
    has_fields(&again, "windowName run", json!(["true", 2]));
    let why = format!(
        "tmux-task: run: task `sleep` is running in {window}\n\
         hint: without --if-absent, the live run is replaced"
    );
    world.call("run --if-absent -- sleep 1").fails(1, &why);
    for words in [&["run"][..], &["run", "--"]] {
        world.task(words).fails_with(2);
    }
}
