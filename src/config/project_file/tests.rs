use std::time::Duration;

use super::*;
use crate::config::Ready;
use crate::model::test_notation::rows;
use crate::model::{RestartPolicy, TaskRestarts, TaskSettings};

fn parse(text: &str) -> Result<Vec<TaskEntry>, String> {
    parse_tasks(Path::new("/p/t.toml"), text).map_err(|error| error.to_string())
}

/// Checks what is said of files: `TEXT | LINE: MESSAGE`.
#[track_caller]
fn check_errors(table: &str) {
    for [text, expected] in rows(table) {
        let error = parse(&text).expect_err(&text);
        assert_eq!(error, format!("/p/t.toml:{expected}"), "{text}");
    }
}

/// The variables of a task, those of its files included.
fn variables_of(task: &TaskEntry) -> Result<Vec<(String, String)>, String> {
    let resolved = task.clone().resolve();
    let resolved = resolved.map_err(|error| error.to_string())?;
    Ok(resolved.spec.env)
}

fn named(path: &str, line: u32, key: &str) -> NamedPath {
    NamedPath {
        path: path.into(),
        file: "/p/t.toml".into(),
        line,
        key: key.to_owned(),
    }
}

#[test]
fn a_folder_that_is_none_is_an_error_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    std::fs::write(&file, "").unwrap();
    let problem = |cwd: &str| {
        let text = format!("[tasks.a]\ncommand = 'x'\ncwd = '{cwd}'\n");
        let tasks = parse_tasks(&file, &text).unwrap();
        tasks[0].cwd.resolve().map_err(|error| error.to_string())
    };
    assert_eq!(problem("."), Ok(dir.path().canonicalize().unwrap()));
    let (file, dir) = (file.display(), dir.path().display());
    for [cwd, why] in rows(
        "t.toml | `DIR/t.toml` is not a directory
         nope | cannot run in `DIR/nope`: No such file or directory
         ~/a | cannot run in `DIR/~/a`: No such file or directory; `~` is not expanded",
    ) {
        let why = why.replace("DIR", &dir.to_string());
        assert_eq!(
            problem(&cwd),
            Err(format!("{file}:3: `tasks.a.cwd`: {why}"))
        );
    }
}

#[test]
fn a_procfile_is_taken_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let text = "\u{feff}# c\r\nweb: rails s -p 3000\r\n\n\
                worker_1:rake jobs:work # not a comment for us\n  css : yarn build --watch";
    let file = write("Procfile.dev", text);
    let tasks = read_tasks(&file).unwrap();
    let shown = tasks
        .iter()
        .map(|task| format!("{} {}: {}", task.cwd.line, task.name, task.spec.shown()));
    let expected = [
        "2 web: rails s -p 3000",
        "4 worker_1: rake jobs:work # not a comment for us",
        "5 css: yarn build --watch",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    let css = &tasks[2];
    assert_eq!(variables_of(css).unwrap(), []);
    assert_eq!(
        css.cwd.resolve().unwrap(),
        dir.path().canonicalize().unwrap()
    );

    let env = write(".env", "A=1\n");
    let variables = || variables_of(&read_tasks(&file).unwrap()[2]);
    assert_eq!(variables(), Ok(vec![("A".to_owned(), "1".to_owned())]));
    fs::remove_file(&env).unwrap();
    fs::create_dir(&env).unwrap();
    let (shown, folder) = (file.display(), env.display());
    let error = format!("{shown}:1: `env-file`: cannot read `{folder}`: Is a directory");
    assert_eq!(variables(), Err(error));
    for [text, problem] in rows(
        "# | 1: there is no task in it
         a: x⏎b | 2: it is not `NAME: COMMAND`
         web: | 1: it is not `NAME: COMMAND`
         web: a⏎⏎web: b | 3: an earlier line has this name
         web: a\0 | 1: a command must not contain a NUL
         web server: x
           | 1: `tasks.web server`: `web server` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit",
    ) {
        let path = write("Procfile", &text);
        let error = read_tasks(&path).unwrap_err().to_string();
        assert_eq!(error, format!("{}:{problem}", path.display()));
    }
    for (name, expected) in [
        ("Procfile", true),
        ("Procfile.dev", true),
        ("Procfile.toml", false),
        ("Procfiles", false),
        ("tmux-task.toml", false),
    ] {
        assert_eq!(is_procfile(Path::new(name)), expected, "{name}");
    }
}

#[test]
fn variables_are_read_from_files_and_what_a_task_has_itself_goes_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let file = path("t.toml");
    fs::write(path("one"), "A=1\nB=1\nC=1\n").unwrap();
    fs::write(path("two"), "B=2\nC=2\n").unwrap();
    fs::write(path("bad"), "A=1\nhunter2\n").unwrap();
    let (folder, mode) = (rustix::fs::CWD, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(folder, path("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let place = "DIR/t.toml:3: `tasks.a.env-file`:";
    for [line, expected] in rows(
        "env-file = ['one', 'two']⏎env.C = '3' | A=1 B=2 C=3
         env-file = 'none' | PLACE cannot read `DIR/none`: No such file or directory
         env-file = 'pipe' | PLACE DIR/pipe is not a regular file
         env-file = 'bad' | DIR/bad:2: it is not `NAME=VALUE`",
    ) {
        let text = format!("[tasks.a]\ncommand = 'x'\n{line}\n");
        let tasks = parse_tasks(&file, &text).unwrap();
        let found = variables_of(&tasks[0]).map(|variables| {
            let words = variables
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            words.collect::<Vec<_>>().join(" ")
        });
        let expected = expected.replace("PLACE", place);
        let expected = expected.replace("DIR", dir.path().to_str().unwrap());
        assert_eq!(found.unwrap_or_else(|error| error), expected, "{line}");
    }
}

#[test]
fn every_key_is_read() {
    let text = r#"
        env-file = ".env"
        [tasks.api]
        command = ["npm", "start"]
        cwd = "web"
        restart = "on-failure:3"
        backoff = "500ms"
        after = ["db"]
        ready = "listening"
        env-file = ["a.env", "/etc/b.env"]

        [tasks.db]
        command = "docker compose up db"
        env = { A = "1" }
    "#;
    let db = TaskEntry {
        name: "db".to_owned(),
        spec: TaskSpec {
            command: vec!["docker compose up db".into()],
            env: vec![("A".to_owned(), "1".to_owned())],
            ..TaskSpec::default()
        },
        cwd: named("/p/", 12, "tasks.db.cwd"),
        env_files: vec![named("/p/.env", 2, "env-file")],
        after: Vec::new(),
        ready: None,
        is_named: false,
    };
    let restarts = TaskRestarts::new(RestartPolicy {
        limit: 3,
        backoff: Duration::from_millis(500),
    });
    let api = TaskEntry {
        name: "api".to_owned(),
        spec: TaskSpec {
            command: vec!["npm".into(), "start".into()],
            settings: TaskSettings {
                restarts: Some(restarts),
                ..TaskSettings::default()
            },
            ..TaskSpec::default()
        },
        cwd: named("/p/web", 5, "tasks.api.cwd"),
        env_files: vec![
            named("/p/a.env", 10, "tasks.api.env-file"),
            named("/etc/b.env", 10, "tasks.api.env-file"),
        ],
        after: vec!["db".to_owned()],
        ready: Some(Ready::Text("listening".to_owned())),
        is_named: false,
    };
    assert_eq!(parse(text), Ok(vec![db, api]));
}

#[test]
fn tasks_come_after_those_before_them_and_else_as_in_the_file() {
    let tasks = parse(
        "[tasks.z]\ncommand = '1'\n[tasks.a]\ncommand = '2'\nafter = ['m']\n\
         [tasks.m]\ncommand = '3'\nafter = ['z']\n[tasks.b]\ncommand = '4'\n",
    );
    let names: Vec<String> = tasks.unwrap().into_iter().map(|task| task.name).collect();
    assert_eq!(names, ["z", "m", "a", "b"]);
}

#[test]
fn one_name_is_a_list_of_one() {
    for [text, expected] in rows(
        "after = 'a' | a
         after = ['a'] | a
         after = ['a', 'c'] | a c
         after = [] | ",
    ) {
        let others = "[tasks.a]\ncommand = 'x'\n[tasks.c]\ncommand = 'x'\n";
        let tasks = parse(&format!("{others}[tasks.b]\ncommand = 'y'\n{text}"));
        let tasks = tasks.unwrap();
        assert_eq!(tasks.last().unwrap().after.join(" "), expected, "{text}");
    }
}

#[test]
fn errors_name_the_line_and_the_key() {
    check_errors(
        r#"
        # | 1: there is no task in it
        [taks.a]⏎command = 'x' | 1: unknown key `taks`; did you mean `tasks`?
        [tasks.a]⏎comand = 'x' | 2: unknown key `tasks.a.comand`; did you mean `command`?
        ⏎[tasks.a] | 2: `tasks.a`: missing field `command`
        [tasks.a]⏎command = 7
          | 2: `tasks.a.command` must be a shell line, or a list of a program and its arguments, found an integer
        [tasks.a]⏎command = ' ' | 2: `tasks.a.command` must not be empty
        [tasks.a]⏎command = ["a", "b\u0000"] | 2: `tasks.a.command` must not contain a NUL
        [tasks.a]⏎command = 'x'⏎[tasks.'a b']⏎command = 'x'
          | 3: `tasks.a b`: `a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit
        [tasks.o]⏎command = 'x'⏎after = ['a']⏎[tasks.a]⏎command = 'x'⏎after = ['b']⏎[tasks.b]⏎command = 'x'⏎after = ['a']
          | 1: tasks that start after each other: a after b after a"#,
    );
    for [line, problem] in rows(
        r#"
        restart = 'always' | .restart`: `always` is not on-failure or on-failure:N, N from 1 to 1000
        backoff = '1s' | .backoff` needs `restart`
        ready = '' | .ready` must not be empty: an empty text matches everything
        ready = { https = 'x' } | .ready`: has the unknown key `https`, expected `port` or `http`
        ready = "a\nb"
          | .ready` must not contain a line break or another control character: it is searched in single lines of the output
        notify-on = 3 | .notify-on` must be a text, or a list of texts, found an integer
        env-file = 7 | .env-file` must be a file, or a list of files, found an integer
        cwd = "\u0000" | .cwd` must not contain a NUL
        env.A = "\u0000" | .env.A` must not contain a NUL
        after = 'b' | .after`: there is no task `b`
        after = ['a'] | .after`: it cannot start after itself
        after = 7 | .after` must be the name of a task, or a list of names, found an integer"#,
    ) {
        check_errors(&format!(
            "[tasks.a]⏎command = 'x'⏎{line} | 3: `tasks.a{problem}"
        ));
    }
    for name in ["A=B", "B C", ""] {
        check_errors(&format!(
            "[tasks.a]⏎command = 'x'⏎[tasks.a.env]⏎A = '1'⏎'{name}' = '1'
             | 5: `tasks.a.env`: `{name}` cannot be the name of a variable"
        ));
    }
}
