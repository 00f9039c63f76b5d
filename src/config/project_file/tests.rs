use std::time::Duration;

use super::*;
use crate::config::Ready;
use crate::model::{RestartPolicy, TaskRestarts, TaskSettings};

fn parse(text: &str) -> Result<Vec<TaskEntry>, String> {
    parse_tasks(Path::new("/p/t.toml"), text).map_err(|error| error.to_string())
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = parse(text).expect_err(text);
    assert_eq!(error, format!("/p/t.toml:{expected}"));
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
    let missing = "No such file or directory";
    for (cwd, why) in [
        ("t.toml", format!("`{dir}/t.toml` is not a directory")),
        ("nope", format!("cannot run in `{dir}/nope`: {missing}")),
        (
            "~/a",
            format!("cannot run in `{dir}/~/a`: {missing}; `~` is not expanded"),
        ),
    ] {
        assert_eq!(problem(cwd), Err(format!("{file}:3: `tasks.a.cwd`: {why}")));
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
    let file = write("Procfile.dev", "web: rails s\r\n# c\r\ncss: yarn build\r\n");
    let tasks = read_tasks(&file).unwrap();
    let shown: Vec<(&str, String)> = tasks
        .iter()
        .map(|task| (task.name.as_str(), task.spec.shown()))
        .collect();
    let commands = ["rails s", "yarn build"].map(str::to_owned);
    let [web, css] = commands;
    assert_eq!(shown, [("web", web), ("css", css)]);
    assert_eq!(variables_of(&tasks[1]).unwrap(), []);
    assert_eq!(
        tasks[1].cwd.resolve().unwrap(),
        dir.path().canonicalize().unwrap()
    );

    let env = write(".env", "A=1\n");
    let variables = variables_of(&read_tasks(&file).unwrap()[1]).unwrap();
    assert_eq!(variables, [("A".to_owned(), "1".to_owned())]);
    fs::remove_file(&env).unwrap();
    fs::create_dir(&env).unwrap();
    let error = variables_of(&read_tasks(&file).unwrap()[1]).unwrap_err();
    let (shown, folder) = (file.display(), env.display());
    assert_eq!(
        error,
        format!("{shown}:1: `env-file`: cannot read `{folder}`: Is a directory")
    );
    for (text, problem) in [
        ("", "1: there is no task in it"),
        ("a: x\nb\n", "2: it is not `NAME: COMMAND`"),
        (
            "web server: x\n",
            "1: `tasks.web server`: `web server` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a \
             letter or digit",
        ),
    ] {
        let error = read_tasks(&write("Procfile", text))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!("{}:{problem}", dir.path().join("Procfile").display())
        );
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
    let file = dir.path().join("t.toml");
    let variables = |line: &str| {
        let text = format!("[tasks.a]\ncommand = 'x'\n{line}\n");
        let tasks = parse_tasks(&file, &text).unwrap();
        variables_of(&tasks[0])
    };
    fs::write(dir.path().join("one"), "A=1\nB=1\nC=1\n").unwrap();
    fs::write(dir.path().join("two"), "B=2\nC=2\n").unwrap();
    let expected = [("A", "1"), ("B", "2"), ("C", "3")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(
        variables("env-file = ['one', 'two']\nenv.C = '3'"),
        Ok(expected.to_vec())
    );
    let (shown, folder) = (file.display(), dir.path().display());
    assert_eq!(
        variables("env-file = 'none'"),
        Err(format!(
            "{shown}:3: `tasks.a.env-file`: cannot read `{folder}/none`: No such file or \
             directory"
        ))
    );
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert_eq!(
        variables("env-file = 'pipe'"),
        Err(format!(
            "{shown}:3: `tasks.a.env-file`: {folder}/pipe is not a regular file"
        ))
    );
    fs::write(dir.path().join("bad"), "A=1\nhunter2\n").unwrap();
    assert_eq!(
        variables("env-file = 'bad'"),
        Err(format!("{folder}/bad:2: it is not `NAME=VALUE`"))
    );
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
    let [db, api] = <[TaskEntry; 2]>::try_from(parse(text).unwrap()).unwrap();
    assert_eq!(
        db,
        TaskEntry {
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
        }
    );
    assert_eq!(
        api,
        TaskEntry {
            name: "api".to_owned(),
            spec: TaskSpec {
                command: vec!["npm".into(), "start".into()],
                settings: TaskSettings {
                    restarts: Some(TaskRestarts::new(RestartPolicy {
                        limit: 3,
                        backoff: Duration::from_millis(500),
                    })),
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
        }
    );
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
    let before = |text: &str| {
        let tasks = parse(&format!(
            "[tasks.a]\ncommand = 'x'\n[tasks.b]\ncommand = 'y'\n{text}"
        ));
        tasks.map(|tasks| tasks.last().unwrap().after.clone())
    };
    for text in ["after = 'a'", "after = ['a']"] {
        assert_eq!(before(text), Ok(vec!["a".to_owned()]), "{text}");
    }
    assert_eq!(before("after = []"), Ok(Vec::new()));
    for (text, problem) in [
        ("after = 'c'", "`tasks.b.after`: there is no task `c`"),
        (
            "after = 'b'",
            "`tasks.b.after`: it cannot start after itself",
        ),
    ] {
        assert_eq!(before(text), Err(format!("/p/t.toml:5: {problem}")));
    }
    let error = before("after = 7").unwrap_err();
    assert!(
        error.contains("the name of a task, or a list of names"),
        "{error}"
    );
}

#[test]
fn errors_name_the_line_and_the_key() {
    check_error("", "1: there is no task in it");
    check_error(
        "[taks.a]\ncommand = 'x'\n",
        "1: unknown key `taks`; did you mean `tasks`?",
    );
    check_error(
        "[tasks.a]\ncomand = 'x'\n",
        "2: unknown key `tasks.a.comand`; did you mean `command`?",
    );
    check_error("\n[tasks.a]\n", "2: `tasks.a`: missing field `command`");
    check_error(
        "[tasks.a]\ncommand = 7\n",
        "2: `tasks.a.command` must be a shell line, or a list of a program and its \
         arguments, found an integer",
    );
    check_error(
        "[tasks.a]\ncommand = ' '\n",
        "2: `tasks.a.command` must not be empty",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nrestart = 'always'\n",
        "3: `tasks.a.restart`: `always` is not on-failure or on-failure:N, N from 1 to 1000",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nbackoff = '1s'\n",
        "3: `tasks.a.backoff` needs `restart`",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nready = ''\n",
        "3: `tasks.a.ready` must not be empty: an empty text matches everything",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nready = { https = 'x' }\n",
        "3: `tasks.a.ready`: has the unknown key `https`, expected `port` or `http`",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nnotify-on = 3\n",
        "3: `tasks.a.notify-on` must be a text, or a list of texts, found an integer",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\n[tasks.'a b']\ncommand = 'x'\n",
        "3: `tasks.a b`: `a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a \
         letter or digit",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nenv-file = 7\n",
        "3: `tasks.a.env-file` must be a file, or a list of files, found an integer",
    );
    for name in ["A=B", "B C", ""] {
        check_error(
            &format!("[tasks.a]\ncommand = 'x'\n[tasks.a.env]\nA = '1'\n'{name}' = '1'\n"),
            &format!("5: `tasks.a.env`: `{name}` cannot be the name of a variable"),
        );
    }
    for (key, line, text) in [
        ("command", 2, "command = [\"a\", \"b\\u0000\"]"),
        ("cwd", 3, "command = 'x'\ncwd = \"\\u0000\""),
        ("env.A", 3, "command = 'x'\nenv.A = \"\\u0000\""),
    ] {
        check_error(
            &format!("[tasks.a]\n{text}\n"),
            &format!("{line}: `tasks.a.{key}` must not contain a NUL"),
        );
    }
    check_error(
        "[tasks.a]\ncommand = 'x'\nready = \"a\\nb\"\n",
        "3: `tasks.a.ready` must not contain a line break or another control character: it is \
         searched in single lines of the output",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nafter = ['b']\n",
        "3: `tasks.a.after`: there is no task `b`",
    );
    check_error(
        "[tasks.a]\ncommand = 'x'\nafter = ['a']\n",
        "3: `tasks.a.after`: it cannot start after itself",
    );
    check_error(
        "[tasks.o]\ncommand = 'x'\nafter = ['a']\n[tasks.a]\ncommand = 'x'\nafter = ['b']\n\
         [tasks.b]\ncommand = 'x'\nafter = ['a']\n",
        "1: tasks that start after each other: a after b after a",
    );
}
