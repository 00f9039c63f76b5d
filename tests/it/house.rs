//! The walls of the house: who may import whom, and what the pure floors never touch.
//!
//! The rule, from below: a room imports rooms of lower floors only. Rooms of one floor do not
//! import each other, but for the few that are named in [`NEIGHBOURS`]. So no edge knows another
//! edge: two of them meet in `daemon`, or in a command of `cli`. The edges may use the pure rules:
//! `feed` asks `route` which events are owed a delivery. All of them open files by `files`. `place` and `clock` are edges like the
//! others and are handed to those who need a path or the time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// The floors, from below.
const FLOORS: [(&str, &[&str]); 9] = [
    ("words", &["model"]),
    (
        "pure rules",
        &[
            "protocol",
            "prompt",
            "observe",
            "diff",
            "input_episodes",
            "route",
            "terminal",
            "wait",
        ],
    ),
    ("engine", &["engine"]),
    ("wire", &["wire"]),
    ("files", &["files"]),
    (
        "edges",
        &[
            "tmux", "process", "feed", "archive", "notice", "client", "config", "paths", "clock",
        ],
    ),
    ("daemon", &["daemon"]),
    ("faces", &["panel", "mcp"]),
    ("command line", &["cli"]),
];

/// Who may import whom on the floor of the pure rules.
const NEIGHBOURS: [(&str, &str); 5] = [
    ("wait", "terminal"),
    ("observe", "protocol"),
    ("observe", "prompt"),
    ("input_episodes", "prompt"),
    ("wait", "prompt"),
];

/// The floors up to this one touch no world: their rooms get what they need as arguments.
const PURE: usize = 2;

const IMPURE: [&str; 4] = ["tokio", "std::fs", "std::env", "::now()"];

/// Who may see the engine: its owner, and the command that is the pure path and nothing else.
const ENGINE_SEEN_BY: [&str; 2] = ["src/daemon/", "src/cli/replay.rs"];

struct Source {
    /// From the project's folder on.
    name: String,
    /// The first name below `src`.
    room: String,
    /// Without comments and without tests.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(&root.join("src"), &mut files);
    files.sort();
    assert!(files.len() > 50, "the house has more rooms than that");
    files
        .iter()
        .map(|file| {
            let name = file.strip_prefix(root).unwrap().display().to_string();
            let mut parts = name.strip_prefix("src/").unwrap().split(['/', '.']);
            let room = parts.next().unwrap().to_owned();
            let code = code_of(&fs::read_to_string(file).unwrap());
            Source { name, room, code }
        })
        .filter(|source| !source.name.ends_with("/tests.rs") && !source.name.contains("/tests/"))
        .collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The code without comments and without the tests, which stand at the end of a file.
fn code_of(text: &str) -> String {
    static TESTS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^#\[cfg\((all\()?test\b").unwrap());
    let end = TESTS.find(text).map_or(text.len(), |found| found.start());
    text[..end]
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The rooms that a file names by `crate::`.
fn imports(source: &Source) -> BTreeSet<String> {
    static PATHS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\bcrate::(?:([a-z_]+)|\{([^;]*)\})").unwrap());
    static FIRST_NAMES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|,)\s*([a-z_]+)").unwrap());
    let mut rooms = BTreeSet::new();
    for path in PATHS.captures_iter(&source.code) {
        if let Some(room) = path.get(1) {
            rooms.insert(room.as_str().to_owned());
        }
        if let Some(list) = path.get(2) {
            let mut flat = list.as_str().to_owned();
            while let Some(open) = flat.rfind('{') {
                let close = flat[open..]
                    .find('}')
                    .map_or(flat.len(), |at| open + at + 1);
                flat.replace_range(open..close, "");
            }
            let names = FIRST_NAMES.captures_iter(&flat);
            rooms.extend(names.map(|name| name[1].to_owned()));
        }
    }
    rooms.remove(&source.room);
    rooms
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|(_, rooms)| rooms.contains(&room))
}

fn describe(floor: usize) -> String {
    format!("floor {floor}, {}", FLOORS[floor].0)
}

#[track_caller]
fn check(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_room_has_a_floor() {
    let mut faults = Vec::new();
    for source in sources() {
        if floor(&source.room).is_none() && !["lib", "main"].contains(&source.room.as_str()) {
            faults.push(format!(
                "{}: say in tests/it/house.rs on which floor `{}` is",
                source.name, source.room
            ));
        }
    }
    check(&faults);
}

#[test]
fn imports_go_down() {
    let mut faults = Vec::new();
    for source in sources() {
        let Some(own) = floor(&source.room) else {
            continue;
        };
        for room in imports(&source) {
            let Some(other) = floor(&room) else {
                faults.push(format!(
                    "{}: imports `crate::{room}`, which is no room",
                    source.name
                ));
                continue;
            };
            let is_neighbour = NEIGHBOURS.contains(&(source.room.as_str(), room.as_str()));
            if other >= own && !is_neighbour {
                let lowest = describe((other + 1).min(FLOORS.len() - 1));
                faults.push(format!(
                    "{} is on {} and imports `crate::{room}` of {}: such code belongs on {lowest}, or higher",
                    source.name,
                    describe(own),
                    describe(other),
                ));
            }
        }
    }
    check(&faults);
}

#[test]
fn the_pure_floors_touch_no_world() {
    let mut faults = Vec::new();
    for source in sources() {
        let Some(own) = floor(&source.room).filter(|own| *own <= PURE) else {
            continue;
        };
        for impure in IMPURE {
            if source.code.contains(impure) {
                faults.push(format!(
                    "{} is on {} and has `{impure}`: such code belongs on {}, or higher",
                    source.name,
                    describe(own),
                    describe(floor("tmux").unwrap()),
                ));
            }
        }
    }
    check(&faults);
}

#[test]
fn faces_ask_the_daemon_and_not_the_engine() {
    let mut faults = Vec::new();
    for source in sources() {
        let may = ENGINE_SEEN_BY
            .iter()
            .any(|place| source.name.starts_with(place));
        if imports(&source).contains("engine") && !may {
            faults.push(format!(
                "{}: only {ENGINE_SEEN_BY:?} may see the engine",
                source.name
            ));
        }
    }
    check(&faults);
}

#[test]
fn only_main_ends_the_process() {
    let ends = Regex::new(r"process::(exit|abort)\b").unwrap();
    let mut faults = Vec::new();
    for source in sources() {
        if ends.is_match(&source.code) && source.name != "src/main.rs" {
            faults.push(format!(
                "{}: only src/main.rs may end the process",
                source.name
            ));
        }
    }
    check(&faults);
}

#[test]
fn the_walls_are_seen_by_those_who_watch_them() {
    let source = |code: &str| Source {
        name: "src/x/mod.rs".to_owned(),
        room: "x".to_owned(),
        code: code_of(code),
    };
    let found = |code: &str| imports(&source(code)).into_iter().collect::<Vec<_>>();
    assert_eq!(found("use crate::feed::Reader;"), ["feed"]);
    assert_eq!(found("let at = crate::clock::now();"), ["clock"]);
    assert_eq!(
        found("use crate::{\n    model::{Task, id::X},\n    tmux,\n};"),
        ["model", "tmux"]
    );
    assert_eq!(found("use crate::x::y;"), [""; 0]);
    assert_eq!(found("//! [`crate::feed`]\n/// crate::wire\n"), [""; 0]);
    assert_eq!(
        found("fn a() {}\n#[cfg(test)]\nmod tests { use crate::feed; }"),
        [""; 0]
    );
}
