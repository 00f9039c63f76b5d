//! Stalled tasks, and prompts that a user has muted.

use super::*;

#[test]
fn who_begins_to_read_long_after_it_fell_silent_is_found() {
    let world = World::new();
    world.run("late", "mkfifo gate; read -r _ < gate; read x");
    let gate = world.dir.path().join("gate");
    world.until("it is seen at something else", |_| {
        // A shell that begins is at something else, too.
        gate.exists() && {
            let explained = world.json(&["explain", "late", "--json"]);
            explained["terminal"]["reader"] == "elsewhere"
        }
    });
    assert_eq!(world.prompt_events(), []);
    std::fs::write(gate, "\n").unwrap();
    let told = world.until("it is found", |told| !told.is_empty());
    assert_eq!(told[0].task, "late");
}

#[test]
fn a_silent_task_without_evidence_is_stalled_and_not_reported() {
    if !is_installed("python3") {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    world.configure("stalled-after = '300ms'\nmute-tasks = ['muted']\n");
    // It polls for lines, and has shown nothing that asks.
    let open = "echo the line is up; \
                python3 -c 'import select; select.select([0], [], [])'; read -r _; \
                echo more; read -r -p 'Go on? ' _";
    world.run("open", open);
    world.run("muted", open);
    world.run("busy", "echo the line is up; sleep 1000");
    world.run("shell", "exec bash --norc");
    world.run("ask", "read -p 'Go on? ' x");
    let stalled = || -> Vec<String> {
        let listed = world.json(&["ls", "--json"]);
        let tasks = listed["tasks"].as_array().unwrap();
        tasks
            .iter()
            .filter(|task| task["stalledMs"].as_u64().is_some_and(|ms| ms >= 300))
            .map(|task| task["windowName"].as_str().unwrap().to_owned())
            .collect()
    };
    // The others have been silent for as long, and are what they were.
    for (name, state) in [
        ("open", "stalled"),
        ("busy", "working"),
        ("shell", "working"),
        ("muted", "working"),
    ] {
        world.until(&format!("{name} is silent and {state}"), |_| {
            let explained = world.json(&["explain", name, "--json"]);
            explained["state"] == state
                && explained["quietMs"].as_u64().is_some_and(|ms| ms > 300)
                && explained["line"] != Value::Null
        });
    }
    let told = world.until("one asks", |told| !told.is_empty());
    assert!(told.iter().all(|told| told.task == "ask"), "{told:?}");
    assert_eq!(stalled(), ["open"]);
    assert_eq!(world.json(&["status", "--json"])["stalled"], 1);
    let listed = world.call(&["ls"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let states = |state| listed.matches(&format!(" {state} ")).count();
    assert_eq!((states("stalled"), states("waiting")), (1, 1), "{listed}");

    // Any output ends it, and prompts are reported as before.
    let sent = world.call(&["send", "open", "x"]);
    assert!(sent.status.success(), "{sent:?}");
    world.until("it asks", |told| {
        told.iter().any(|told| told.task == "open")
    });
    assert_eq!(stalled(), Vec::<String>::new());
    let feed = world.call(&["feed"]);
    assert!(!String::from_utf8_lossy(&feed.stdout).contains("stalled"));
}

#[test]
fn muted_prompts_are_not_reported() {
    let world = World::new();
    world.configure("ignore = ['^beta']\nmute-tasks = ['quiet']\n");
    world.run("quiet", "read -p 'Go on? ' x");
    world.run("beta", "read -p 'beta? ' x");
    world.until("they ask", |_| {
        let explain = |name: &str| world.json(&["explain", name, "--json"]);
        explain("quiet")["state"] == "muted" && explain("beta")["rule"] == "muted by a pattern"
    });
    // Who asks later is reported later.
    world.run("loud", "read -p 'gamma? ' x");
    let told = world.until("one asks", |told| !told.is_empty());
    assert!(told.iter().all(|told| told.task == "loud"), "{told:?}");
}
