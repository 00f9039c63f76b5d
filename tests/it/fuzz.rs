//! The fuzz targets as property tests: on their corpus, and on variants of it in which bytes are
//! changed, lines are cut, doubled and swapped, and files of different targets are joined.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[path = "../fuzz/targets.rs"]
mod targets;

/// How many changed inputs each target gets.
const CASES: u32 = 300;

/// The files of a target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Change {
    /// Put these bytes in the place of as many others.
    Overwrite(prop::sample::Index, Vec<u8>),
    Insert(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index),
    /// Put one line behind another.
    Move(prop::sample::Index, prop::sample::Index),
    RemoveLine(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    let bytes = || {
        let words = "\n|\"|{|}|[|null|-1|18446744073709551615|1e999|\\u0000|%begin 1 1 1\n|%end 1 1 1\n|\
                     %output %1 |\"more\":9|\"v\":2|\x1b]0;";
        let word = prop::sample::select(words.split('|').collect::<Vec<_>>());
        let word = word.prop_map(|word| word.as_bytes().to_vec());
        prop_oneof![word, prop::collection::vec(any::<u8>(), 1..4)]
    };
    prop_oneof![
        (place(), bytes()).prop_map(|(at, bytes)| Change::Overwrite(at, bytes)),
        (place(), bytes()).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        place().prop_map(Change::Cut),
        (place(), place()).prop_map(|(line, to)| Change::Move(line, to)),
        place().prop_map(Change::RemoveLine),
    ]
}

impl Change {
    fn apply(&self, input: &mut Vec<u8>) {
        let lines = |input: &[u8]| -> Vec<Vec<u8>> {
            input
                .split_inclusive(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect()
        };
        match self {
            Self::Overwrite(at, bytes) => {
                let at = at.index(input.len() + 1);
                let end = (at + bytes.len()).min(input.len());
                input.splice(at..end, bytes.iter().copied());
            }
            Self::Insert(at, bytes) => {
                let at = at.index(input.len() + 1);
                input.splice(at..at, bytes.iter().copied());
            }
            Self::Cut(at) => input.truncate(at.index(input.len() + 1)),
            Self::Move(line, to) => {
                let mut lines = lines(input);
                if !lines.is_empty() {
                    let moved = lines[line.index(lines.len())].clone();
                    lines.insert(to.index(lines.len() + 1), moved);
                    *input = lines.concat();
                }
            }
            Self::RemoveLine(line) => {
                let mut lines = lines(input);
                if !lines.is_empty() {
                    lines.remove(line.index(lines.len()));
                    *input = lines.concat();
                }
            }
        }
    }
}

/// Runs a target on its corpus as it is, and changed.
fn check((name, target): targets::Target) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|input| target(input));
    let inputs = (
        prop::sample::select(corpus),
        prop::collection::vec(change(), 1..6),
    );
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&inputs, |(mut input, changes)| {
        changes.iter().for_each(|change| change.apply(&mut input));
        target(&input);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn each_target_takes_any_bytes() {
    std::thread::scope(|scope| {
        for target in targets::TARGETS {
            scope.spawn(move || check(target));
        }
    });
}
