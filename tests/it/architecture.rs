//! Checks the architecture: which module may import which, and that the pure floors do no I/O.
//!
//! A module imports modules of lower floors only. Modules of one floor do not import each other,
//! except those listed in [`NEIGHBOURS`]. So no edge knows another edge: they are combined in
//! `daemon` or in `ops`. The edges may use the pure rules: `feed` asks `route` which events need a
//! delivery. All of them open files with `files`. `paths` and `clock` are edges too; paths and times
//! are passed to the modules that need them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::{Captures, Regex};

const RULES: [&str; 10] = [
    "protocol",
    "prompt",
    "observe",
    "diff",
    "input_episodes",
    "alerts",
    "restarts",
    "route",
    "terminal",
    "wait",
];

const EDGES: [&str; 7] = [
    "tmux", "process", "notice", "client", "config", "paths", "clock",
];

/// The modules that stand in a room together with others, and are modules all the same.
const IN_A_ROOM: &str = r"(rules|outlets)::|client::hosts\b|config::paths\b";

/// What may import only what is before it: the number of the floor in
/// `docs/design/architecture.md`, what it is, and its modules.
const FLOORS: [(u8, &str, &[&str]); 13] = [
    (0, "vocabulary", &["model"]),
    (1, "rules", &RULES),
    (1, "what composes the rules", &["engine"]),
    (2, "formats", &["wire"]),
    (2, "the state machine", &["session"]),
    (2, "files and variables", &["files", "env"]),
    (3, "edges", &EDGES),
    (4, "the disk", &["store"]),
    (4, "other machines", &["hosts"]),
    (4, "readers of the feed", &["sink"]),
    (4, "wiring", &["daemon"]),
    (5, "use cases", &["ops"]),
    (6, "faces", &["faces"]),
];

/// Who may import whom on the floor of the pure rules.
const NEIGHBOURS: [(&str, &str); 5] = [
    ("alerts", "restarts"),
    ("route", "restarts"),
    ("wait", "terminal"),
    ("observe", "protocol"),
    ("input_episodes", "prompt"),
];

/// The entries of [`FLOORS`] up to this one do no I/O: their modules get what they need as arguments.
const PURE: usize = 4;

const IMPURE: [&str; 10] = [
    "tokio",
    "rustix",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "::now()",
    ".elapsed()",
    "tracing",
];

/// Who may see the engine: its owner, and the command that is the pure path and nothing else.
const ENGINE_SEEN_BY: [&str; 4] = [
    "src/session/",
    "src/daemon/run.rs",
    "src/daemon/recovery.rs",
    "src/faces/cli/replay.rs",
];

/// What commands use of the edges themselves, beside the use cases: what is a key, which server is meant,
/// who does not answer, and the environment that a task's shell asks for.
const ASKED_BY_CLI: [(&str, &str); 4] = [
    ("src/faces/cli/context.rs", "tmux"),
    ("src/faces/cli/context.rs", "process"),
    ("src/faces/cli/run.rs", "tmux"),
    ("src/faces/cli/send.rs", "tmux"),
];

struct Source {
    /// From the project's folder on.
    name: String,
    /// The first name below `src`, or below a room.
    module: String,
    /// Without comments and without tests.
    code: String,
}

/// The files of the library and its program. Other programs are not made of its modules.
fn sources() -> Vec<Source> {
    let mut sources = all_sources();
    sources.retain(|source| source.module != "bin");
    sources
}

fn all_sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(&root.join("src"), &mut files);
    files.sort();
    assert!(files.len() > 50, "there are more files than that");
    files
        .iter()
        .map(|file| {
            let name = file.strip_prefix(root).unwrap().display().to_string();
            let module = module_of(&name).join("::");
            let module = without_rooms(&module);
            let module = module.split("::").next().unwrap().to_owned();
            let code = code_of(&fs::read_to_string(file).unwrap());
            Source { name, module, code }
        })
        .filter(|source| !source.name.ends_with("/tests.rs") && !source.name.contains("/tests/"))
        .collect()
}

/// `rules::wait::cursor` is `wait::cursor`, and `client::hosts` is `hosts`.
fn without_rooms(path: &str) -> String {
    static ROOMS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!(r"\b(?:{IN_A_ROOM})")).unwrap());
    let last = |found: &Captures| match found[0].split_once("::") {
        Some((_, name)) => name.to_owned(),
        None => String::new(),
    };
    ROOMS.replace_all(path, last).into_owned()
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

/// The code without comments and without what only tests compile. The code is formatted (CI checks
/// that first), so an item ends at the next line that is indented like its first and closes it.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let word = line.trim_start();
        if word.starts_with("//") {
            continue;
        }
        if !is_test_attribute(word) {
            code.push_str(line);
            code.push('\n');
            continue;
        }
        let indent = &line[..line.len() - word.len()];
        let is_of_item = |line: &&str| {
            let rest = line.strip_prefix(indent).unwrap_or_default();
            !rest.starts_with([' ', '}', ')', ']']) && !rest.is_empty()
        };
        // Other attributes may follow; what they are for begins where none does.
        let first = lines
            .by_ref()
            .find(|line| is_of_item(line) && !line.trim_start().starts_with(['#', '/']));
        let ends_at_once = first.is_none_or(|line| line.ends_with([';', '}', ',']));
        if !ends_at_once {
            lines
                .by_ref()
                .find(|line| {
                    let rest = line.strip_prefix(indent).unwrap_or_default();
                    rest.starts_with('}') || (is_of_item(line) && line.ends_with(';'))
                })
                .unwrap_or_default();
        }
    }
    code
}

fn is_test_attribute(line: &str) -> bool {
    ["#[cfg(test)]", "#[cfg(all(test", "#[test]"]
        .iter()
        .any(|attribute| line.starts_with(attribute))
}

/// The modules that a file names by `crate::`.
fn imports(source: &Source) -> BTreeSet<String> {
    let (imports, paths) = uses(&source.code);
    let paths = imports.into_iter().map(|it| it.path).chain(paths);
    let of_crate = paths.filter(|path| path[0] == "crate");
    let modules = of_crate.map(|path| without_rooms(&path[1..].join("::")));
    let mut modules: BTreeSet<String> = modules
        .filter_map(|path| path.split("::").next().map(str::to_owned))
        .collect();
    modules.remove(&source.module);
    modules
}

fn floor(module: &str) -> Option<usize> {
    FLOORS
        .iter()
        .position(|(_, _, modules)| modules.contains(&module))
}

fn describe(floor: usize) -> String {
    let (number, what, _) = FLOORS[floor];
    format!("floor {number}, {what}")
}

#[track_caller]
fn check(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Checks each file of the library: this says what is wrong with one.
#[track_caller]
fn check_each<T: IntoIterator<Item = String>>(faults: impl Fn(&Source) -> T) {
    let sources = sources();
    let faults = sources.iter().flat_map(|source| {
        let faults = faults(source).into_iter();
        faults.map(|fault| format!("{}: {fault}", source.name))
    });
    check(&faults.collect::<Vec<_>>());
}

#[test]
fn every_module_has_a_floor() {
    check_each(|Source { module, .. }| {
        let has_floor =
            floor(module).is_some() || ["", "main", "rules", "outlets"].contains(&module.as_str());
        let fault = || format!("say in tests/it/architecture.rs on which floor `{module}` is");
        (!has_floor).then(fault)
    });
}

#[test]
fn imports_go_down() {
    check_each(|source| {
        let own = floor(&source.module);
        let is_neighbour = |to: &str| NEIGHBOURS.contains(&(source.module.as_str(), to));
        let imports = imports(source).into_iter();
        let faults = imports.filter_map(|module| match (own, floor(&module)) {
            (None, _) => None,
            (Some(_), None) => Some(format!("imports `crate::{module}`, which is no module")),
            (Some(own), Some(other)) if other >= own && !is_neighbour(&module) => Some(format!(
                "is on {} and imports `crate::{module}` of {}: such code belongs on {}, or higher",
                describe(own),
                describe(other),
                describe((other + 1).min(FLOORS.len() - 1)),
            )),
            (Some(_), Some(_)) => None,
        });
        faults.collect::<Vec<_>>()
    });
}

/// The fleet's program knows this one by its public ways; it has the same words.
#[test]
fn another_program_imports_the_words_alone() {
    let path = Regex::new(r"\btmux_task::([a-z_]+)").unwrap();
    let mut faults = Vec::new();
    let others = all_sources();
    for source in others.iter().filter(|source| source.module == "bin") {
        let imports = path.captures_iter(&source.code);
        let others = imports.filter(|found| &found[1] != "model");
        faults.extend(others.map(|found| format!("{} imports `{}`", source.name, &found[1])));
    }
    check(&faults);
}

/// The last column of the table in `docs/design/architecture.md`, up to its explanations.
#[test]
fn the_table_of_modules_names_their_imports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/design/architecture.md")).unwrap();
    let row = Regex::new(r"(?m)^\| `(?:[a-z]+/)?([a-z_]+)` \|.*\| ([^|]*) \|$").unwrap();
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        let imports = imports(&source);
        used.entry(source.module).or_default().extend(imports);
    }
    let mut faults = Vec::new();
    let mut n_rows = 0;
    for row in row.captures_iter(&text) {
        let Some(used) = used.get(&row[1]) else {
            continue;
        };
        n_rows += 1;
        let words: BTreeSet<&str> = row[2]
            .split(|c: char| !(c.is_ascii_lowercase() || c == '_'))
            .collect();
        let is_named = |module: &str| {
            words.contains(module) || words.contains("edges") && EDGES.contains(&module)
        };
        let unnamed = used.iter().filter(|module| !is_named(module));
        let unnamed: Vec<String> = unnamed.cloned().collect();
        let unused = words
            .iter()
            .filter(|word| floor(word).is_some() && !used.contains(**word) && **word != &row[1]);
        let unused: Vec<&str> = unused.copied().collect();
        if !unnamed.is_empty() || !unused.is_empty() {
            let module = &row[1];
            faults.push(format!(
                "{module}: not named {unnamed:?}, not used {unused:?}"
            ));
        }
    }
    assert!(n_rows > 20, "{n_rows}");
    check(&faults);
}

#[test]
fn neighbours_use_each_other() {
    let sources = sources();
    let is_unused = |(from, to): &&(&str, &str)| {
        let mut of_module = sources.iter().filter(|source| source.module == *from);
        !of_module.any(|source| imports(source).contains(*to))
    };
    let unused = NEIGHBOURS.iter().filter(is_unused);
    let faults = unused
        .map(|(from, to)| format!("`{from}` does not import `{to}`: take it out of NEIGHBOURS"));
    check(&faults.collect::<Vec<_>>());
}

#[test]
fn the_pure_floors_touch_no_world() {
    let edges = describe(floor("tmux").unwrap());
    check_each(|source| {
        let own = floor(&source.module).filter(|own| *own <= PURE);
        let impure = IMPURE.iter().filter(|word| source.code.contains(**word));
        let faults = own.into_iter().flat_map(|own| {
            let own = describe(own);
            let fault = |word| {
                format!("is on {own} and has `{word}`: such code belongs on {edges}, or higher")
            };
            impure.clone().map(fault).collect::<Vec<_>>()
        });
        faults.collect::<Vec<_>>()
    });
}

/// A module: its path from `src` on, so that `crate::store::feed::Reader` is `["store", "feed", "Reader"]`.
type ModulePath = Vec<String>;

/// The files of the crate, by module, and what each of them re-exports.
struct Modules<'a> {
    files: BTreeMap<ModulePath, &'a Source>,
    exports: BTreeMap<(ModulePath, String), ModulePath>,
}

impl<'a> Modules<'a> {
    fn of(sources: &'a [Source]) -> Self {
        let files: BTreeMap<ModulePath, &Source> = sources
            .iter()
            .filter(|source| source.name != "src/main.rs")
            .map(|source| (module_of(&source.name), source))
            .collect();
        let mut modules = Self {
            files,
            exports: BTreeMap::new(),
        };
        for (module, source) in &modules.files {
            for import in uses(&source.code).0.into_iter().filter(|it| it.is_exported) {
                let Some(target) = modules.absolute(module, &import.path) else {
                    continue;
                };
                let all = target.strip_suffix(&["*".to_owned()]);
                let names = match all.and_then(|below| modules.files.get(below)) {
                    Some(below) => public_names(&below.code),
                    None => vec![import.name],
                };
                for name in names {
                    let target = match all {
                        Some(below) => [below, std::slice::from_ref(&name)].concat(),
                        None => target.clone(),
                    };
                    modules.exports.insert((module.clone(), name), target);
                }
            }
        }
        modules
    }

    /// Returns a path of this module from `src` on; `None` for other crates and what is no path.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<ModulePath> {
        let n_parents = path.iter().take_while(|name| *name == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&module[..0], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (
                &module[..module.len().checked_sub(n_parents)?],
                &path[n_parents..],
            ),
            first => {
                let child = [module, &[first.to_owned()]].concat();
                let is_export = self
                    .exports
                    .contains_key(&(module.to_owned(), first.to_owned()));
                (self.files.contains_key(&child) || is_export).then_some((module, path))?
            }
        };
        Some([base, rest].concat())
    }

    /// Returns the module that defines what a path names, through re-exports.
    fn defining(&self, path: &[String]) -> Option<&ModulePath> {
        let mut path = path.to_owned();
        // A limit, for re-exports of names by themselves.
        for _ in 0..10 {
            let length = (0..=path.len()).rfind(|n| self.files.contains_key(&path[..*n]))?;
            let (module, rest) = path.split_at(length);
            let export = rest
                .first()
                .and_then(|name| self.exports.get(&(module.to_owned(), name.clone())));
            match export {
                Some(target) if *target != path => path = [target, &rest[1..]].concat(),
                _ => return self.files.get_key_value(module).map(|(key, _)| key),
            }
        }
        None
    }

    /// The files that this one needs. What a file only re-exports from files below it, it does not
    /// need.
    fn needed_by(&self, module: &ModulePath) -> BTreeSet<&str> {
        let (imports, paths) = uses(&self.files[module].code);
        let imported = imports.into_iter().filter_map(|import| {
            let target = self.defining(&self.absolute(module, &import.path)?)?;
            let is_own_export = import.is_exported && target.starts_with(module);
            (!is_own_export).then_some(target)
        });
        let named = paths
            .iter()
            .filter_map(|path| self.defining(&self.absolute(module, path)?));
        imported
            .chain(named)
            .filter(|target| *target != module)
            .map(|target| self.files[target].name.as_str())
            .collect()
    }
}

/// What a file defines for others, or exports.
fn public_names(code: &str) -> Vec<String> {
    static ITEMS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)^pub(?:\(crate\))? (?:async |const )?(?:fn|struct|enum|trait|type|const|static) (\w+)").unwrap()
    });
    let defined = ITEMS.captures_iter(code).map(|item| item[1].to_owned());
    let exported = uses(code).0.into_iter().filter(|it| it.is_exported);
    defined.chain(exported.map(|it| it.name)).collect()
}

fn module_of(name: &str) -> ModulePath {
    let name = name.strip_prefix("src/").unwrap();
    let name = name.strip_suffix(".rs").unwrap();
    let name = name.strip_suffix("/mod").unwrap_or(name);
    let names = name.split('/').filter(|name| *name != "lib");
    names.map(str::to_owned).collect()
}

/// A name that a `use` brings into a file.
struct Import {
    path: ModulePath,
    name: String,
    is_exported: bool,
}

/// What the `use` lines of some code import, and the paths in the rest of it.
fn uses(code: &str) -> (Vec<Import>, Vec<ModulePath>) {
    static USES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap());
    static PATHS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b[A-Za-z_]\w*(?:::\w+)+").unwrap());
    let mut imports = Vec::new();
    for line in USES.captures_iter(code) {
        let mut paths = Vec::new();
        let tree: String = line[2].replace(" as ", "=").split_whitespace().collect();
        flatten("", &tree, &mut paths);
        for path in paths {
            let (path, alias) = path.split_once('=').unwrap_or((&path, ""));
            let path: ModulePath = path.split("::").map(str::to_owned).collect();
            let last = path.last().cloned().unwrap_or_default();
            imports.push(Import {
                name: if alias.is_empty() {
                    last
                } else {
                    alias.to_owned()
                },
                path,
                is_exported: line.get(1).is_some(),
            });
        }
    }
    let rest = USES.replace_all(code, "");
    let paths = PATHS.find_iter(&rest);
    let paths = paths.map(|path| path.as_str().split("::").map(str::to_owned).collect());
    (imports, paths.collect())
}

/// Adds the paths of a tree of imports, `a::{b, c::{self, d}}`.
fn flatten(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, list)) = tree.split_once('{') else {
        let path = format!("{prefix}{tree}");
        paths.push(path.strip_suffix("::self").unwrap_or(&path).to_owned());
        return;
    };
    let prefix = format!("{prefix}{head}");
    let list = list.strip_suffix('}').unwrap();
    let mut depth = 0;
    let items = list.split(|sign| {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        sign == ',' && depth == 0
    });
    for item in items.filter(|item| !item.is_empty()) {
        flatten(&prefix, item, paths);
    }
}

/// The files that need themselves by way of others, with all that are reached from each.
fn circles(sources: &[Source]) -> Vec<String> {
    let modules = Modules::of(sources);
    let below: BTreeMap<&str, BTreeSet<&str>> = modules
        .files
        .iter()
        .map(|(module, source)| (source.name.as_str(), modules.needed_by(module)))
        .collect();
    let n_needed: usize = below.values().map(BTreeSet::len).sum();
    assert!(n_needed > 2 * below.len(), "{n_needed} imports were found");
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in below.keys() {
        let from_here = reached.entry(file).or_default();
        let mut next = vec![*file];
        while let Some(name) = next.pop() {
            next.extend(below[name].iter().filter(|other| from_here.insert(**other)));
        }
    }
    let mut faults = Vec::new();
    for (file, below) in &reached {
        if below.contains(file) {
            let circle = below.iter().filter(|other| reached[*other].contains(file));
            let circle: Vec<&str> = circle.copied().collect();
            faults.push(format!("{file}: in a circle of {}", circle.join(", ")));
        }
    }
    faults
}

#[test]
fn files_do_not_import_in_circles() {
    check(&circles(&sources()));
}

#[test]
fn faces_ask_the_daemon_and_not_the_engine() {
    check_each(|source| {
        let is_allowed = |place: &&str| source.name.starts_with(place);
        let may = ENGINE_SEEN_BY.iter().any(is_allowed);
        let fault = || format!("only {ENGINE_SEEN_BY:?} may see the engine");
        (imports(source).contains("engine") && !may).then(fault)
    });
}

#[test]
fn the_command_line_asks_by_way_of_the_use_cases() {
    check_each(|source| {
        let is_named = |module: &str| ASKED_BY_CLI.contains(&(source.name.as_str(), module));
        let is_edge = |module: &str| ["tmux", "process", "observe"].contains(&module);
        let mut modules = imports(source);
        modules.retain(|module| {
            source.name.starts_with("src/faces/cli/") && is_edge(module) && !is_named(module)
        });
        let fault = |module| {
            format!("imports `crate::{module}`: what it does there is a use case, for `ops`")
        };
        modules.into_iter().map(fault).collect::<Vec<_>>()
    });
}

#[test]
fn what_few_files_may_do_no_other_does() {
    for (pattern, may, why) in [
        (
            r"process::(exit|abort)\b",
            // A daemon whose thread has panicked cannot end in order.
            &["src/main.rs", "src/daemon/log.rs"][..],
            "only src/main.rs may end the process, and a daemon's panic",
        ),
        (
            r#""/proc\b|target_os = "linux""#,
            // The place of `/proc`, the numbers of signals, and what is compiled for `cfg(linux)` alone.
            &[
                "src/files.rs",
                "src/model/reason.rs",
                "src/process/ending/table.rs",
                "src/process/facts.rs",
                "src/process/ports.rs",
                "src/process/tree.rs",
            ],
            "`/proc` is `files::PROC`, and Linux is `cfg(linux)`, for portable builds",
        ),
    ] {
        let pattern = Regex::new(pattern).unwrap();
        check_each(|source| {
            let does = pattern.is_match(&source.code) && !may.contains(&source.name.as_str());
            does.then(|| why.to_owned())
        });
    }
}

/// Those in backticks that end in `.rs` are the ends of paths.
#[test]
fn the_pages_for_maintainers_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        walk(&root.join(folder), &mut files);
    }
    files.push(root.join("build.rs"));
    let name = Regex::new(r"`([a-z_/-]+\.rs)`").unwrap();
    let mut faults = Vec::new();
    for page in fs::read_dir(root.join("docs/design")).unwrap() {
        let page = page.unwrap().path();
        let text = fs::read_to_string(&page).unwrap();
        let names = name.captures_iter(&text).map(|found| found[1].to_owned());
        let missing = names.filter(|name| !files.iter().any(|file| file.ends_with(name)));
        faults.extend(missing.map(|name| format!("{}: no file `{name}`", page.display())));
    }
    check(&faults);
}
