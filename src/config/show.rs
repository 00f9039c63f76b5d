//! Which settings apply, and where each is from; and the example of a file, which has the defaults.

use std::time::UNIX_EPOCH;

use toml::de::{DeTable, DeValue};

use super::Config;
use super::file::{ConfigFile, Env, find, read};
use super::value::line_of;
use crate::model::{Error, Millis, text};

/// A file with all settings: comments, and the defaults as comments that begin without a space.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");

/// Settings that have no default, each with the one that it follows in the example.
const WITHOUT_DEFAULT: [(&str, &str); 4] = [
    ("notices.tasks", "notices.events"),
    ("fleet", "agents.deliver"),
    ("hosts", "fleet"),
    ("sink", "hosts"),
];

const MAX_CHARS: usize = 400;
const MAX_PATH_CHARS: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its key with those of its tables, such as `logs.keep-runs`.
    pub key: String,
    /// Its value as in the file; `None` if it is not set and has no default. Of a sink only what kind
    /// of sink it is: addresses and arguments can be secret.
    pub value: Option<String>,
    /// The line of the file; `None` for a default.
    pub line: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct ShownConfig {
    pub config: Config,
    /// The file; `None` when this user has no home directory.
    pub file: Option<ConfigFile>,
    pub exists: bool,
    /// The settings, in the order of the example.
    pub settings: Vec<Setting>,
}

impl ShownConfig {
    /// Returns the absolute path of the file as one line.
    pub(crate) fn path(&self) -> Option<String> {
        let path = &self.file.as_ref()?.path;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let path = path.as_os_str().as_encoded_bytes();
        Some(text::one_line(path, MAX_PATH_CHARS))
    }

    /// Whether the file was changed after it was read at this time, when it `existed` or not.
    pub(crate) fn is_later_than(&self, existed: bool, read_at: Millis) -> bool {
        let written = self.file.as_ref().and_then(|file| {
            let at = file.path.metadata().ok()?.modified().ok()?;
            let since = at.duration_since(UNIX_EPOCH).ok()?;
            Millis::try_from(since.as_millis()).ok()
        });
        self.exists != existed || (self.exists && written.is_some_and(|at| at > read_at))
    }
}

/// Returns the settings that apply, with where they are from.
pub(crate) fn show(env: Env<'_>) -> Result<ShownConfig, Error> {
    let file = find(env);
    let (config, text) = read(file.as_ref())?;
    Ok(ShownConfig {
        config,
        exists: text.is_some(),
        settings: merge(&settings_in(&text.unwrap_or_default())),
        file,
    })
}

/// Returns the example as a file that sets everything to its default.
fn defaults() -> String {
    let set = |line: &str| {
        let rest = line.strip_prefix('#').unwrap_or(line);
        let is_set = rest.starts_with(|c: char| c == '[' || c.is_ascii_lowercase());
        is_set.then(|| format!("{rest}\n"))
    };
    EXAMPLE.lines().filter_map(set).collect()
}

/// Returns the settings in the order of the example: what is set, and for what is not its default.
fn merge(set: &[Setting]) -> Vec<Setting> {
    let mut defaults = settings_in(&defaults());
    for (key, before) in WITHOUT_DEFAULT {
        let place = defaults.iter().position(|default| default.key == before);
        let setting = Setting {
            key: key.to_owned(),
            ..Setting::default()
        };
        defaults.insert(place.map_or(defaults.len(), |place| place + 1), setting);
    }
    let is_below = |key: &str, table: &str| {
        let rest = key.strip_prefix(table);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut merged: Vec<Setting> = Vec::new();
    for mut default in defaults {
        default.line = None;
        // A table may be set as a whole (`notices = ["tmux"]`), and a table of any keys has several.
        let is_of_it =
            |one: &&Setting| is_below(&one.key, &default.key) || is_below(&default.key, &one.key);
        let own: Vec<Setting> = set.iter().filter(is_of_it).cloned().collect();
        merged.extend(if own.is_empty() { vec![default] } else { own });
    }
    // A table that is set as a whole is in the place of several.
    merged.dedup();
    merged
}

/// Returns what a valid file sets, in its order.
fn settings_in(text: &str) -> Vec<Setting> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut settings = Vec::new();
    collect(text, "", table.get_ref(), &mut settings);
    settings.sort_by_key(|setting| setting.line);
    settings
}

fn collect(text: &str, above: &str, table: &DeTable<'_>, settings: &mut Vec<Setting>) {
    for (name, value) in table {
        let key = format!("{above}{}", plain_key(name.get_ref()));
        let found = value.get_ref();
        if let Some(table) = found.as_table() {
            collect(text, &format!("{key}."), table, settings);
        } else if let ("sink", Some(items)) = (&*key, found.as_array()) {
            let sinks = items.iter().filter_map(|item| item.get_ref().as_table());
            settings.extend(sinks.filter_map(|sink| sink_in(text, sink)));
        } else {
            settings.push(Setting {
                value: Some(text::one_line(written(text, value).as_bytes(), MAX_CHARS)),
                line: Some(line_of(text.as_bytes(), name.span().start)),
                key,
            });
        }
    }
}

fn sink_in(text: &str, sink: &DeTable<'_>) -> Option<Setting> {
    let of = |key: &str| sink.iter().find(|(name, _)| name.get_ref() == key);
    let (at, name) = of("name")?;
    let mut kinds = ["exec", "shell", "webhook"].into_iter();
    let kind = kinds.find(|kind| of(kind).is_some())?;
    Some(Setting {
        key: format!("sink.{}", plain_key(name.get_ref().as_str()?)),
        value: Some(kind.to_owned()),
        line: Some(line_of(text.as_bytes(), at.span().start)),
    })
}

/// Returns a value as it is written in the file, lists without their comments.
fn written(text: &str, value: &toml::Spanned<DeValue<'_>>) -> String {
    match value.get_ref().as_array() {
        Some(items) => {
            let items: Vec<String> = items.iter().map(|item| written(text, item)).collect();
            format!("[{}]", items.join(", "))
        }
        None => text.get(value.span()).unwrap_or_default().to_owned(),
    }
}

fn plain_key(key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !key.is_empty() && key.chars().all(is_plain) {
        key.to_owned()
    } else {
        format!("\"{}\"", text::one_line(key.as_bytes(), MAX_CHARS))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    #[test]
    fn the_example_is_a_file_with_the_defaults() {
        let path = Path::new("c.toml");
        assert_eq!(parse(path, EXAMPLE).unwrap(), Config::default());
        let set = defaults();
        assert_eq!(parse(path, &set).unwrap(), Config::default(), "{set}");
        assert!(
            EXAMPLE.lines().all(|line| line.len() <= 110),
            "fits a terminal"
        );
    }

    #[test]
    fn the_example_has_every_key() {
        // The comment of each field ends with its key.
        let sources = [
            include_str!("settings.rs"),
            include_str!("../rules/alerts/wording.rs"),
        ]
        .concat();
        let sources = sources.replace("\n    /// ", " ");
        let comments = sources
            .lines()
            .filter(|line| line.contains("///") || line.contains(": key `"));
        let keys: Vec<&str> = comments
            .filter_map(|line| line.rsplit_once(": key `"))
            .filter_map(|(_, rest)| rest.strip_suffix("`.").or_else(|| rest.split('`').next()))
            .collect();
        assert!(keys.len() > 15, "{keys:?}");
        for key in keys {
            let is_there = EXAMPLE.lines().any(|line| {
                line.trim_start_matches(['#', ' '])
                    .starts_with(&format!("{key} = "))
            });
            assert!(is_there, "{key}");
        }
    }

    fn shown(text: &str) -> Vec<String> {
        let merged = merge(&settings_in(text)).into_iter();
        let lines = merged.map(|setting| {
            let value = setting.value.unwrap_or_else(|| "-".to_owned());
            let place = setting.line.map(|line| line.to_string());
            let place = place.unwrap_or_else(|| "default".to_owned());
            format!("{} = {value} {place}", setting.key)
        });
        lines.collect()
    }

    #[test]
    fn each_setting_is_shown_once_with_its_place() {
        let default = shown("");
        let first = [
            "env-withhold = [] default",
            "shells = \"notice\" default",
            "clean-after = \"1h\" default",
            "notices.places = [\"desktop\", \"tmux\"] default",
            "notices.events = [\"failed\", \"input\", \"notify\", \"output\", \"disappeared\"] default",
        ];
        assert_eq!(default[..5], first);
        assert_eq!(default.last().unwrap(), "sink = - default");
        let text = "shells = 'ignore'\n[notices]\nevents = [\n 'failed', # why\n 'input']\n\
            [notices.tasks]\n'@3' = []\n[logs]\nkeep-runs = 1_0\n\
            [[sink]]\nname = 'hook'\nwebhook = 'https://x/token'\n";
        let all = shown(text);
        assert_eq!(all.len(), default.len());
        let is_set = |line: &&String| !line.ends_with("default");
        let expected = [
            "shells = 'ignore' 1",
            "notices.events = ['failed', 'input'] 3",
            "notices.tasks.\"@3\" = [] 7",
            "logs.keep-runs = 1_0 9",
            "sink.hook = webhook 11",
        ];
        assert_eq!(all.iter().filter(is_set).collect::<Vec<_>>(), expected);
        let at = |key: &str| all.iter().position(|line| line.starts_with(key));
        assert!(at("notices.events ") < at("notices.tasks.\"@3\" "));
        assert!(at("notices.tasks.\"@3\" ") < at("input.ask "));
        // A list of displays is shown as it is.
        let set = shown("notices = ['tmux']");
        let notices = set.iter().filter(|line| line.starts_with("notices"));
        assert_eq!(notices.collect::<Vec<_>>(), ["notices = ['tmux'] 1"]);
    }
}
