//! The examples of the documentation: its settings are valid, and its recipes do what they say, with
//! programs in the place of those that reach elsewhere.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

#[cfg(feature = "webhook")]
use crate::support::HttpServer;
use crate::support::{Output, World, blocks};

/// A world that has the program and these shell scripts on `PATH`.
pub(crate) fn world_with(programs: &[(&str, &str)]) -> World {
    let mut world = World::new();
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    symlink(World::program(), bin.join("tmux-task")).unwrap();
    for (name, script) in programs {
        world.script(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
    }
    world.prepend_path(&bin);
    world
}

/// The recipe in this language that contains a word.
#[track_caller]
fn recipe(language: &str, word: &str) -> String {
    let found = blocks("recipes.md", language)
        .into_iter()
        .find(|block| block.contains(word));
    found.unwrap_or_else(|| panic!("recipes.md has no `{word}`"))
}

/// Is ready at once, and says that it is asked to stop.
const DOCKER: (&str, &str) = (
    "docker",
    "trap 'echo stopping; exit 0' TERM\n\
     echo ready to accept connections\n\
     sleep 1000 & wait",
);

const NPM: (&str, &str) = (
    "npm",
    "case $1 in\n\
     test) echo 1 test failed; exit 7 ;;\n\
     start) echo listening on 8080; exec sleep 1000 ;;\n\
     esac",
);

#[test]
fn settings_in_the_documentation_are_valid() {
    let world = World::new();
    let pages = ["settings.md", "input.md", "notifications.md", "recipes.md"];
    let mut n_blocks = 0;
    for page in pages {
        for block in blocks(page, "toml") {
            if !block.starts_with("[tasks.") {
                world.configure(&block);
                world.task(["config", "show"]).ok();
                n_blocks += 1;
            }
        }
    }
    assert!(n_blocks >= pages.len(), "{n_blocks}");
}

#[cfg(feature = "webhook")]
#[test]
fn a_phone_and_chats_get_what_failed() {
    for (word, address) in [
        ("ntfy", "https://ntfy.sh"),
        ("slack", "https://hooks.slack.com"),
        ("discord", "https://discord.com"),
    ] {
        let world = World::new();
        let server = HttpServer::start([]);
        let sink = recipe("toml", word).replace(address, &server.address());
        assert!(sink.contains("http://127."), "{sink}");
        world.configure(&format!("notices = []\n{sink}"));
        world.task(["run", "fine", "--wait", "--", "true"]).ok();
        // Or both are in one message.
        world.until_delivered("exited", "fine");
        world.run("tests", "echo '<!channel> & \"@everyone\"'; exit 3");
        let sent = server.next();
        let exit = "tmux task @2 (tests) exited with code 3\nrecent output:\n  ";
        let output = "<!channel> & \"@everyone\"";
        if word == "ntfy" {
            assert_eq!(sent.headers["title"], "tests (work)");
            assert_eq!(sent.body, format!("{exit}{output}"));
            continue;
        }
        let body: Value = serde_json::from_str(&sent.body).unwrap();
        if word == "slack" {
            let output = "&lt;!channel&gt; &amp; \"@everyone\"";
            assert_eq!(body["text"], format!("*tests (work)*\n{exit}{output}"));
        } else {
            assert_eq!(body["content"], format!("**tests (work)**\n{exit}{output}"));
            assert_eq!(body["allowed_mentions"]["parse"], json!([]));
        }
    }
}

#[test]
fn a_ci_job_ends_with_the_code_of_its_tests() {
    let world = world_with(&[DOCKER, NPM]);
    let job = world.shell(&recipe("sh", "npm test"));
    assert_eq!(job.code, 7, "{job}");
    assert!(job.err.contains("1 test failed"), "{job}");
    let log = fs::read_to_string(world.project().join("db.log")).unwrap();
    assert_eq!(log.trim_end(), "ready to accept connections");
    assert_eq!(world.task(["-s", "ci", "ls"]).code, 3);
}

#[test]
fn a_stop_hook_shows_what_the_conversation_waits_for() {
    let mut world = world_with(&[]);
    let project = world.project().display().to_string();
    world.set("CLAUDE_PROJECT_DIR", &project);
    let script = world.path("home/.claude/waiting.sh");
    fs::create_dir_all(script.parent().unwrap()).unwrap();
    fs::write(&script, recipe("sh", "session_id")).unwrap();
    let settings: Value = serde_json::from_str(&recipe("json", "Stop")).unwrap();
    let hook = settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str();
    let stop = || {
        let mut command = world.command("bash");
        command.args(["-c", hook.unwrap()]);
        let output = Output::with_input(command, "{\"session_id\":\"c1\"}");
        serde_json::from_str::<Value>(output.ok()).ok()
    };
    world.task_as("claude:c1", ["run", "build", "--", "sleep 1000"]);
    world.task_as("claude:c2", ["run", "other", "--", "sleep 1000"]);
    let shown = stop().unwrap();
    assert_eq!(shown, json!({"systemMessage": "waits for 1 task: build"}));
    world.task(["kill", "build"]).ok();
    assert_eq!(stop(), None);
}

#[test]
fn a_status_line_and_a_prompt_show_what_is_waited_for() {
    let world = world_with(&[]);
    let asks = "read -p 'Take #{pid} [y/N] ' answer";
    world.task(["run", "api", "--", asks]).ok();
    world.until_event("input", "api");
    let line = "waits for 1 task: api (asks: Take *{pid} [y/N])";
    let conf = world.path("bar.conf");
    fs::write(&conf, recipe("text", "status-right")).unwrap();
    let conf = conf.to_str().unwrap();
    world.tmux(["source-file", conf]);
    for (name, value) in [
        ("SESSION", "work".into()),
        ("STATE_DIR", world.path("state")),
        ("RUNTIME_DIR", world.path("run")),
    ] {
        let (name, value) = (format!("TMUX_TASK_{name}"), value.display().to_string());
        world.tmux(["set-environment", "-g", &name, &value]);
    }
    world.tmux(["set-option", "-g", "status-interval", "1"]);
    world.attach_terminal("120x20", "work");
    world.until_true("the status line", || {
        world
            .tmux(["-L", "terminal", "capture-pane", "-p"])
            .contains(line)
    });
    world.end_terminal();

    let prompt: toml::Table = recipe("text", "custom.tasks").parse().unwrap();
    let command = prompt["custom"]["tasks"]["command"].as_str().unwrap();
    let shown = world.shell(command).ok().to_owned();
    assert_eq!(shown.trim_end().replace('#', "*"), line);
    world.task(["kill", "api"]).ok();
    // Of a command that fails, starship shows nothing.
    assert_eq!(world.shell(command).ok(), "");
}

#[test]
fn tasks_of_compose_start_and_end_in_order() {
    let world = world_with(&[DOCKER, NPM]);
    let file = recipe("toml", "[tasks.db]");
    fs::write(world.project().join("tmux-task.toml"), file).unwrap();
    let up = world.task(["up", "--wait"]);
    assert!(up.ok().ends_with("ready @2 (api)\n"), "{up}");
    let down = world.task(["down"]);
    assert_eq!(down.ok(), "ended @2 (api)\nended @1 (db)\n");
    let log = world.task(["logs", "db", "--run", "1"]);
    assert_eq!(log.ok(), "ready to accept connections\nstopping\n");
}

#[test]
fn each_working_tree_has_a_url_and_ports_of_its_own() {
    let portless = "echo \"$1:$PORTLESS_PORT $PORTLESS_HTTPS\"; shift; exec \"$@\"";
    let postgres = ("postgres", "echo \"$@\"");
    let world = world_with(&[("portless", portless), postgres, NPM]);
    let file = recipe("toml", "portless");
    fs::write(world.project().join("tmux-task.toml"), file).unwrap();
    world.task(["up", "--wait"]).ok();
    let web = world.task(["logs", "web"]);
    assert_eq!(web.ok(), "web.work:1355 0\nlistening on 8080\n");
    let mut code = include_str!("../../docs/recipes.md").split('`');
    let line = code.find(|code| code.starts_with("postgres -D"));
    let command = ["run", "db", "--wait", "--", line.unwrap()];
    world.task(command).ok();
    let db = world.task(["logs", "db"]);
    // This number is `work` and `db`.
    assert_eq!(db.ok(), "-D data -p 28402\n");
}

#[test]
fn what_needs_too_much_memory_is_killed_by_the_kernel_or_gets_none() {
    const HINT: &str = "killed by SIGKILL (not by tmux-task; out of memory?)";
    let mut world = world_with(&[("make", "ulimit -v 1000000 2>/dev/null; exec tail /dev/zero")]);
    let scope = recipe("sh", "systemd-run").replace("MemoryMax=2G", "MemoryMax=64M");
    let mut real = world.command("systemd-run");
    real.args(["--user", "--scope", "--quiet", "true"]);
    if !real.output().is_ok_and(|output| output.status.success()) {
        eprintln!("not tested: the limit of a scope, as no systemd of this user runs");
        fs::create_dir(world.path("scope")).unwrap();
        let path = world.script(
            "scope/systemd-run",
            "#!/bin/sh\n\
             test \"$*\" = '--user --scope -p MemoryMax=64M -p MemorySwapMax=0 -- make -j8' || exit\n\
             kill -KILL $$\n",
        );
        world.prepend_path(path.parent().unwrap());
    }
    let build = world.shell(&scope);
    assert_eq!(build.code, 137, "{build}");
    assert!(build.err.contains(HINT), "{build}");
    let limit = recipe("sh", "ulimit").replace("-v 4000000", "-v 100000");
    let build = world.shell(&limit);
    assert_eq!(build.code, 1, "{build}");
    assert!(build.err.contains("memory exhausted"), "{build}");
}

#[test]
fn a_remote_job_is_asked_until_it_has_ended() {
    let world = world_with(&[(
        "ssh",
        "n=$(cat ~/asked 2>/dev/null || echo 0); echo $((n + 1)) >~/asked\n\
         case $n in 0) exit 255 ;; 1) echo running ;; *) echo failed ;; esac",
    )]);
    let recipe = recipe("sh", "ssh -o");
    let quick = recipe.replace("sleep 30", "sleep 0");
    assert_ne!(quick, recipe);
    world.shell(&quick).ok();
    let wait = world.task(["wait", "train"]);
    assert_eq!((wait.code, wait.out.as_str()), (1, "exited: code 1\n"));
    assert!(wait.err.contains("job 42: failed"), "{wait}");
}

#[test]
fn a_loop_handles_each_task_when_it_has_ended() {
    let world = world_with(&[]);
    for name in ["lint", "tests", "build"] {
        world.run(name, "true");
    }
    let loop_ = world.shell(&recipe("sh", "--any"));
    let mut lines: Vec<&str> = loop_.ok().lines().collect();
    lines.sort_unstable();
    let names = ["build", "lint", "tests"];
    assert_eq!(lines, names.map(|name| format!("next: {name} exited")));
}
