//! Real programs that wait for input, and others that do not, in a real tmux.

mod answers;
mod background;
mod drawn;
mod programs;
mod redraws;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{self, Output, argv, parse_lines};

/// Far longer than any program here takes to ask on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A world whose tasks are ended with it, also those that block the signal that their terminal is gone.
struct World(support::World);

impl World {
    fn new() -> Self {
        Self(support::World::new())
    }

    /// A session whose daemon may not see the calls of its tasks' programs, as with Yama's
    /// `ptrace_scope`.
    fn with_hidden_calls() -> Self {
        let mut world = Self::new();
        let library = world.c_library("hide", HIDES_CALLS);
        world.set("LD_PRELOAD", library.to_str().unwrap());
        let mut cat = world.command("cat");
        cat.arg("/proc/self/syscall");
        assert_ne!(Output::of(cat).code, 0, "it is hidden");
        world.daemon();
        world.set("LD_PRELOAD", "");
        world
    }

    fn file(&self, name: &str) -> PathBuf {
        self.project().join(name)
    }

    /// The `input` and `inputResolved` events of the feed.
    fn prompt_events(&self) -> Vec<PromptEvent> {
        let output = self.task(argv("feed --type input --type inputResolved"));
        let event = |record: Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            PromptEvent {
                task: text(&record["task"]["windowName"]),
                what: text(&record["type"]),
                kind: text(&record["promptKind"]),
                prompt: text(&record["prompt"]),
                secret: record["secret"].as_bool().unwrap_or(false),
            }
        };
        parse_lines(&output.out).into_iter().map(event).collect()
    }

    /// Waits until the feed satisfies this.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&[PromptEvent]) -> bool) -> Vec<PromptEvent> {
        let start = Instant::now();
        loop {
            let told = self.prompt_events();
            if is_so(&told) {
                return told;
            }
            assert!(start.elapsed() < DEADLINE, "{what}: {told:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a prompt of each of these tasks has been reported.
    #[track_caller]
    fn until_told<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<PromptEvent> {
        let names: Vec<&str> = names.collect();
        self.until("every prompt is told", |told| {
            let tasks: BTreeSet<&str> = told.iter().map(|told| told.task.as_str()).collect();
            names.iter().all(|name| tasks.contains(name))
        })
    }
}

impl Deref for World {
    type Target = support::World;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let mut end = self.command(support::World::program());
        drop(end.args(argv("kill-all --yes --grace 0")).output());
    }
}

/// A library that refuses to open the files in which the kernel shows what a thread is blocked in.
const HIDES_CALLS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

static int is_hidden(const char *path) {
    size_t length = strlen(path);
    return strncmp(path, "/proc/", 6) == 0 && length > 8
        && strcmp(path + length - 8, "/syscall") == 0;
}

#define HIDE(name, parameters, arguments)                                 \
    int name parameters {                                                 \
        int (*next) parameters = dlsym(RTLD_NEXT, #name);                 \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = va_arg(rest, mode_t);                               \
        va_end(rest);                                                     \
        if (is_hidden(path)) {                                            \
            errno = EPERM;                                                \
            return -1;                                                    \
        }                                                                 \
        return next arguments;                                            \
    }
HIDE(open, (const char *path, int flags, ...), (path, flags, mode))
HIDE(open64, (const char *path, int flags, ...), (path, flags, mode))
HIDE(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
HIDE(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
"#;

#[derive(Debug, Clone, PartialEq, Eq)]
struct PromptEvent {
    task: String,
    what: String,
    kind: String,
    prompt: String,
    secret: bool,
}

/// What was reported of a task, in order.
fn events_of<'a>(told: &'a [PromptEvent], task: &str) -> Vec<&'a str> {
    let of_task = told.iter().filter(|told| told.task == task);
    of_task.map(|told| told.what.as_str()).collect()
}

/// Checks what was reported of these tasks, in order.
#[track_caller]
fn are_told<'a>(told: &[PromptEvent], tasks: impl IntoIterator<Item = &'a str>, expected: &[&str]) {
    for task in tasks {
        assert_eq!(events_of(told, task), expected, "{task}: {told:#?}");
    }
}

/// A question that is asked and answered.
const ONCE: [&str; 2] = ["input", "inputResolved"];

fn is_installed(program: &str) -> bool {
    let is_there = support::is_installed(program);
    if !is_there {
        eprintln!("not tested: there is no {program}");
    }
    is_there
}

/// The rows of a table whose program is installed, as `name program what: line`, where `what` has the
/// other columns. Rows that begin with blanks go on with the line.
fn rows(table: &'static str) -> Vec<(&'static str, &'static str, String)> {
    let mut rows: Vec<(&str, &str, &str, String)> = Vec::new();
    for text in table.lines().filter(|text| !text.is_empty()) {
        if let Some(more) = text.strip_prefix("    ") {
            let (.., line) = rows.last_mut().expect("a row begins with its name");
            *line = format!("{line}\n{more}");
            continue;
        }
        let (columns, line) = text.split_once(": ").expect("a row has a line");
        let (name, columns) = columns.split_once(' ').expect("a row has a program");
        let (program, what) = columns.split_once(' ').unwrap_or((columns, ""));
        rows.push((name, program, what, line.to_owned()));
    }
    let rows = rows
        .into_iter()
        .filter(|(_, program, ..)| is_installed(program));
    rows.map(|(name, _, what, line)| (name, what, line))
        .collect()
}
