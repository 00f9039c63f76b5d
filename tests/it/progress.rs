//! What programs say of their progress, with OSC 9;4.

use serde_json::{Value, json};

use crate::support::World;

/// The only task's progress, once it is this.
#[track_caller]
fn until(world: &World, expected: &Value) {
    world.until_true(&format!("progress {expected}"), || {
        let task = world.look()["tasks"][0].clone();
        *task.get("progress").unwrap_or(&Value::Null) == *expected
    });
}

#[test]
fn a_task_says_how_far_it_is() {
    let world = World::new();
    let gates = ["error", "busy", "hidden", "again", "end"].map(|name| world.gate(name));
    let says = [
        r"\e]9;4;1;42\e\\begun",
        r"\e]9;4;2;70\a",
        r"\e]9;4;3\a",
        r"\e]9;4;0\a",
        r"\e]9;4;4;100\a",
    ];
    let steps = says.iter().zip(&gates);
    let steps = steps.map(|(says, gate)| format!("printf '{says}'; {}", gate.wait()));
    world.run("build", &steps.collect::<Vec<_>>().join("; "));
    world.until_shows("=work:build", "begun");
    let keeps_it = world.tmux([
        "display-message",
        "-p",
        "-t",
        "=work:build",
        "#{pane_pb_state}",
    ]);
    if keeps_it.trim().is_empty() {
        eprintln!("not tested: this tmux keeps no progress");
        // Whoever sets a variable of that name reaches nothing.
        let of_others = "normal|>\n<@9|";
        world.tmux(["set-environment", "-g", "pane_pb_state", of_others]);
        for gate in gates {
            until(&world, &Value::Null);
            assert!(!world.task(["ls"]).ok().contains("PROGRESS"));
            gate.open();
        }
        return world.until_ended("=work:build");
    }
    let shown = |words: &str| {
        let table = world.task(["ls"]);
        assert!(table.ok().contains(words), "{words}: {table}");
    };
    let [error, busy, hidden, again, end] = gates;
    until(&world, &json!({"state": "normal", "percent": 42}));
    shown("███░░░░░ 42%  ");
    error.open();
    until(&world, &json!({"state": "error", "percent": 70}));
    shown("█████░░░ 70% error  ");
    busy.open();
    until(&world, &json!({"state": "indeterminate"}));
    shown("▒▒▒▒▒▒▒▒  ");
    hidden.open();
    until(&world, &Value::Null);
    assert!(!world.task(["ls"]).ok().contains("PROGRESS"));
    again.open();
    until(&world, &json!({"state": "paused", "percent": 100}));
    shown("████████ 100% paused  ");
    // It is the run's, not the window's.
    end.open();
    world.until_ended("=work:build");
    until(&world, &Value::Null);
    world.run("build", "echo again; exec sleep 1000");
    until(&world, &Value::Null);
}
