//! What a project's file can say besides commands: files of variables, work that is done once. And
//! Procfiles.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Output, World};

fn write(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.project().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The lines without the windows' ids, in order.
#[track_caller]
fn sorted(output: &Output) -> Vec<String> {
    let line = |line: &str| {
        let words = line.split(' ').filter(|word| !word.starts_with('@'));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = output.ok().lines().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_file_of_variables_is_read_at_each_start_and_recorded_nowhere() {
    let world = World::new();
    write(
        &world,
        "tmux-task.toml",
        "env-file = '.env'\n\
         [tasks.api]\ncommand = 'echo \"${#KEY} $MODE ${USED-}\"; exec sleep 1000'\n\
         env.MODE = 'own'\n",
    );
    let env = write(
        &world,
        ".env",
        "# of all\r\nexport KEY='hunter2 \n and more'\r\nMODE=file\r\nUSED=\"yes\" # so\r\n",
    );
    assert_eq!(sorted(&world.task(["up"])), ["started (api)"]);
    world.until_shows("=work:api", "18 own yes");
    assert_eq!(sorted(&world.task(["up"])), ["runs already: (api)"]);
    // A change is said, and applied by a restart.
    fs::write(&env, "KEY=hunter3\n").unwrap();
    let up = world.task(["up"]);
    assert_eq!(
        up.err,
        "tmux-task: up: api runs with another `env` than in the file\n\
         hint: `tmux-task restart api` applies it\n"
    );
    fs::write(&env, "KEY=hunter4\nUSED='no'\n").unwrap();
    world.task(["restart", "api"]).ok();
    world.until_shows("=work:api", "7 own no");
    assert_eq!(world.task(["up"]).err, "");

    // What is wrong in it is said without repeating it, and nothing is started or ended.
    fs::write(&env, "A=1\nhunter5\n").unwrap();
    let shown = env.display();
    let why = format!("{shown}:2: it is not `NAME=VALUE`");
    for args in [&["up"][..], &["restart", "api"]] {
        world
            .task(args)
            .fails(1, &format!("tmux-task: {}: {why}", args[0]));
    }
    fs::remove_file(&env).unwrap();
    let file = world.project().join("tmux-task.toml");
    let file = file.display();
    let missing = format!("{file}:1: `env-file`: cannot read `{shown}`: No such file or directory");
    let up = world.task(["up"]);
    up.fails(1, &format!("tmux-task: up: {missing}"));
    fs::write(&env, "KEY=hunter6\n").unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&env, Some(12345), None).unwrap();
        let foreign = format!("{file}:1: `env-file`: {shown} belongs to uid 12345");
        let up = world.task(["up"]);
        up.fails(1, &format!("tmux-task: up: {foreign}"));
    }
    assert_eq!(sorted(&world.task(["down"])), ["ended (api)"]);
    let records = world.finish();
    let records = records.iter().map(Value::to_string).collect::<String>();
    let mut kept = vec![records, world.logs()];
    let mut folders = vec![world.path("state"), world.path("run")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                kept.push(String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
            }
        }
    }
    for text in kept {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn a_procfile_is_taken_where_there_is_no_other_file_and_it_is_said() {
    let world = World::new();
    let procfile = write(
        &world,
        "Procfile",
        "# processes\r\nweb: echo \"on $PORT\"; exec sleep 1000\r\n\r\n\
         worker_1 : exec sleep 1000\r\n",
    );
    write(&world, ".env", "PORT=3000\n");
    let said = |what: &str| {
        let path = procfile.display();
        format!("tmux-task: {what}: the tasks are those of {path}\n")
    };
    let up = world.task(["up"]);
    assert_eq!(sorted(&up), ["started (web)", "started (worker_1)"]);
    assert_eq!(up.err, said("up"));
    world.until_shows("=work:web", "on 3000");
    let json = world.task(["up", "web", "--json"]);
    let json: Value = serde_json::from_str(json.ok()).unwrap();
    assert_eq!(json["file"], procfile.display().to_string());
    assert_eq!(json["tasks"][0]["state"], "running");
    assert_eq!(json["tasks"].as_array().unwrap().len(), 1);
    // It is the project's file for `restart` as well.
    write(&world, "Procfile", "web: echo other; exec sleep 1000\n");
    let up = world.task(["up"]);
    let another = "web runs with another `command` than in the file";
    assert!(up.err.contains(another), "{up}");
    world.task(["restart", "web"]).ok();
    world.until_shows("=work:web", "other");
    let down = world.task(["down"]);
    assert_eq!(sorted(&down), ["ended (web)"]);
    assert_eq!(down.err, said("down"));
    // One that is named needs no words.
    write(&world, "Procfile.dev", "css: exec sleep 1000\n");
    let up = world.task(["up", "Procfile.dev"]);
    assert_eq!(sorted(&up), ["started (css)"]);
    assert_eq!(up.err, "");
    write(&world, "Procfile", "a: exec sleep 1000\nweb server: x\n");
    let wrong = world.task(["up"]);
    assert_eq!(wrong.code, 1, "{wrong}");
    let path = procfile.display();
    let place =
        format!("tmux-task: up: {path}:2: `tasks.web server`: `web server` is not a task name");
    assert!(wrong.err.contains(&place), "{wrong}");
    // The other file goes before it.
    let text = "[tasks.db]\ncommand = 'exec sleep 1000'\n";
    write(&world, "tmux-task.toml", text);
    let up = world.task(["up"]);
    assert_eq!(sorted(&up), ["started (db)"]);
    assert_eq!(up.err, "");
    world.finish();
}

#[test]
fn the_file_of_the_work_tree_is_taken_in_all_of_its_folders() {
    let world = World::new();
    fs::create_dir_all(world.project().join(".git")).unwrap();
    let below = world.project().join("web");
    fs::create_dir(&below).unwrap();
    let up_below = |args: &[&str]| {
        let mut command = world.command(World::program());
        command.current_dir(&below).arg("up").args(args);
        Output::of(command)
    };
    let text = "[tasks.web]\ncommand = 'exec sleep 1000'\n";
    write(&world, "web/tmux-task.toml", text);
    assert_eq!(up_below(&[]).code, 1);
    assert_eq!(sorted(&up_below(&["./tmux-task.toml"])), ["started (web)"]);
    write(
        &world,
        "tmux-task.toml",
        "[tasks.db]\ncommand = 'echo $A; exec sleep 1000'\nenv-file = 'db.env'\n",
    );
    write(&world, "db.env", "A=above\n");
    assert_eq!(sorted(&up_below(&[])), ["started (db)"]);
    world.until_shows("=work:db", "above");
    world.finish();
}
