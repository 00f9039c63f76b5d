//! Tasks that fall silent, and prompts that a user has muted.

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
