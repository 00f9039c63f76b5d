//! What a project's file can say besides commands: files of variables, work that is done once. And
//! Procfiles.

use std::fs;
use std::os::unix::fs::chown;

use serde_json::Value;

use crate::support::{Output, World, lacks, sorted};

#[test]
fn a_file_of_variables_is_read_at_each_start_and_recorded_nowhere() {
    let world = World::new();
    let text = "env-file = '.env'\n\
                [tasks.api]\ncommand = 'echo \"${#KEY} $MODE ${USED-}\"; exec sleep 1000'\n\
                env.MODE = 'own'\n";
    let file = world.write("tmux-task.toml", text);
    let variables = |text: &str| world.write(".env", text);
    let all = "# of all\r\nexport KEY='hunter2 \n and more'\r\nMODE=file\r\nUSED=\"yes\" # so\r\n";
    let env = variables(all);
    assert_eq!(sorted(&world.task(["up"])), ["started (api)"]);
    world.until_shows("=work:api", "18 own yes");
    assert_eq!(sorted(&world.task(["up"])), ["runs already: (api)"]);
    // A change is said, and applied by a restart.
    variables("KEY=hunter3\n");
    assert_eq!(
        world.task(["up"]).err,
        "tmux-task: up: api runs with another `env` than in the file\n\
         hint: `tmux-task restart api` applies it\n"
    );
    variables("KEY=hunter4\nUSED='no'\n");
    world.task(["restart", "api"]).ok();
    world.until_shows("=work:api", "7 own no");
    assert_eq!(world.task(["up"]).err, "");

    // What is wrong in it is said without repeating it, and nothing is started or ended.
    variables("A=1\nhunter5\n");
    let (shown, file) = (env.display(), file.display());
    for args in [&["up"][..], &["restart", "api"]] {
        let why = format!("tmux-task: {}: {shown}:2: it is not `NAME=VALUE`", args[0]);
        world.task(args).fails(1, &why);
    }
    let cannot = |why: &str| {
        let said = format!("tmux-task: up: {file}:1: `env-file`: {why}");
        world.task(["up"]).fails(1, &said);
    };
    fs::remove_file(&env).unwrap();
    cannot(&format!("cannot read `{shown}`: No such file or directory"));
    variables("KEY=hunter6\n");
    if rustix::process::geteuid().is_root() {
        chown(&env, Some(12345), None).unwrap();
        cannot(&format!("{shown} belongs to uid 12345"));
    }
    assert_eq!(sorted(&world.task(["down"])), ["ended (api)"]);
    let records = world.finish();
    let records = records.iter().map(Value::to_string).collect::<String>();
    lacks(records, "hunter");
    let folders = ["state", "run"].map(|name| world.path(name));
    let mut grep = world.command("grep");
    grep.args(["-rs", "hunter"]).args(folders);
    assert_eq!(Output::of(grep).out, "");
}

#[test]
fn a_procfile_is_taken_where_there_is_no_other_file_and_it_is_said() {
    let world = World::new();
    let text = "# processes\r\nweb: echo \"on $PORT\"; exec sleep 1000\r\n\r\n\
                worker_1 : exec sleep 1000\r\n";
    let procfile = world.write("Procfile", text);
    world.write(".env", "PORT=3000\n");
    let path = procfile.display();
    let said = |what: &str| format!("tmux-task: {what}: the tasks are those of {path}\n");
    let up = world.task(["up"]);
    assert_eq!(sorted(&up), ["started (web)", "started (worker_1)"]);
    assert_eq!(up.err, said("up"));
    world.until_shows("=work:web", "on 3000");
    let json = world.task(["up", "web", "--json"]).json();
    assert_eq!(json["file"], procfile.display().to_string());
    assert_eq!(json["tasks"][0]["state"], "running");
    assert_eq!(json["tasks"].as_array().unwrap().len(), 1);
    // It is the project's file for `restart` as well.
    world.write("Procfile", "web: echo other; exec sleep 1000\n");
    let up = world.task(["up"]);
    let another = "web runs with another `command` than in the file";
    assert!(up.err.contains(another), "{up}");
    world.task(["restart", "web"]).ok();
    world.until_shows("=work:web", "other");
    let down = world.task(["down"]);
    assert_eq!(sorted(&down), ["ended (web)"]);
    assert_eq!(down.err, said("down"));
    world.write("Procfile", "a: exec sleep 1000\nweb server: x\n");
    let wrong = world.task(["up"]);
    wrong.fails_saying(1, &format!("tmux-task: up: {path}:2: `tasks.web server`: "));
    // One that is named needs no words, and the other file goes before it.
    world.write("Procfile.dev", "css: exec sleep 1000\n");
    let text = "[tasks.db]\ncommand = 'exec sleep 1000'\n";
    world.write("tmux-task.toml", text);
    for (args, started) in [(&["up", "Procfile.dev"][..], "css"), (&["up"], "db")] {
        let up = world.task(args);
        assert_eq!(sorted(&up), [format!("started ({started})")]);
        assert_eq!(up.err, "");
    }
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
    world.write("web/tmux-task.toml", text);
    assert_eq!(up_below(&[]).code, 1);
    assert_eq!(sorted(&up_below(&["./tmux-task.toml"])), ["started (web)"]);
    let text = "[tasks.db]\ncommand = 'echo $A; exec sleep 1000'\nenv-file = 'db.env'\n";
    world.write("tmux-task.toml", text);
    world.write("db.env", "A=above\n");
    assert_eq!(sorted(&up_below(&[])), ["started (db)"]);
    world.until_shows("=work:db", "above");
    world.finish();
}
