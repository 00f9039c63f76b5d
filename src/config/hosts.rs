//! Other machines with tmux-task: table `hosts`.

use std::collections::BTreeMap;

use super::reader::Value;
use super::value::{if_right, wrong};
use crate::model::is_host_name;

const DESTINATION_CHARS: usize = 255;

/// How a machine is reached, and what is there. Written as a table, or as its destination alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostConfig {
    /// The destination for ssh; `None` if it is the host's name: key `ssh`.
    pub ssh: Option<String>,
    /// The program there, an absolute path or one that begins with `~/`: key `program`.
    pub program: Option<String>,
    /// The words in front of the arguments, instead of ssh: key `command`.
    pub command: Option<Vec<String>>,
    /// The directory in which commands run there: key `cwd`.
    pub cwd: Option<String>,
}

impl HostConfig {
    fn read(value: &Value<'_>) -> Option<Self> {
        let expected = "a destination for ssh like \"user@gpu1\"";
        if value.as_str().is_some() {
            let ssh = Some(value.text(expected, destination)?);
            return Some(Self {
                ssh,
                ..Self::default()
            });
        }
        value.table(&format!("{expected}, or a table"), |table| {
            let words = |value: &Value<'_>| {
                let words = value.items("a sequence")?;
                words.map(|word| word.string()).collect()
            };
            let host = Self {
                ssh: table.read("ssh", |value| value.text(expected, destination)),
                program: table.read("program", |value| value.text("a path there", path)),
                command: table.read("command", words),
                cwd: table.read("cwd", |value| value.text("a path there", path)),
            };
            match &host.command {
                Some(command) if command.is_empty() => Err("`command` is empty".to_owned()),
                Some(_) if host.ssh.is_some() || host.program.is_some() => {
                    Err("`command` is instead of `ssh` and `program`".to_owned())
                }
                Some(_) | None => Ok(host),
            }
        })
    }
}

pub(super) fn read_hosts(value: &Value<'_>) -> Option<BTreeMap<String, HostConfig>> {
    let hosts = value.map(|_, host| HostConfig::read(host))?;
    let why =
        "is not a name of a host: 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit";
    match hosts.keys().find(|name| !is_host_name(name)) {
        None => Some(hosts),
        Some(name) => value.fail(&wrong(name, why)),
    }
}

/// Returns the word if ssh takes it as a destination, and nothing else does anything with it.
pub(crate) fn destination(word: &str) -> Result<String, String> {
    let is_usable = |c: char| c.is_ascii_alphanumeric() || "@._-:[]/+~".contains(c);
    let is_destination = (1..=DESTINATION_CHARS).contains(&word.len())
        && !word.starts_with('-')
        && word.chars().all(is_usable);
    let why = "is not a destination for ssh like `user@gpu1`";
    if_right(word, is_destination, why)
}

fn path(path: &str) -> Result<String, String> {
    // It is part of a command line that every login shell must read alike.
    let is_usable = |c: char| c.is_alphanumeric() || "/._-+@~:, ".contains(c);
    let is_path = path.starts_with('/') || path.starts_with("~/");
    let why =
        "is not a path there: `/...` or `~/...`, of letters, digits, blanks and `. _ - + @ ~ : ,`";
    if_right(path, is_path && path.chars().all(is_usable), why)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;
    use crate::model::test_notation::rows;

    fn hosts_in(text: &str) -> Result<BTreeMap<String, HostConfig>, String> {
        let parsed = parse(Path::new("c.toml"), text);
        parsed
            .map(|config| config.hosts)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_host_is_a_destination_or_a_table() {
        let hosts = hosts_in(
            "[hosts]\na = 'me@a'\nc = { cwd = '~/src' }\nd = { command = ['docker', 'exec'] }\n\
             [hosts.b]\nssh = 'b.lan'\nprogram = '/opt/tmux task'\n",
        );
        let shown = hosts.unwrap().into_iter().map(|(name, host)| {
            let command = host.command.map(|words| words.join(" "));
            let all = [host.ssh, host.program, command, host.cwd];
            let all = all.map(|text| text.unwrap_or("-".to_owned()));
            format!("{name}: {}", all.join(" | "))
        });
        let expected = [
            "a: me@a | - | - | -",
            "b: b.lan | /opt/tmux task | - | -",
            "c: - | - | - | ~/src",
            "d: - | - | docker exec | -",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert!(hosts_in("").unwrap().is_empty());
    }

    #[test]
    fn what_a_shell_or_ssh_could_misread_is_refused() {
        for [text, expected] in rows(
            "hosts.a = '-oProxyCommand=x' | c.toml:1: `hosts.a`: `-oProxyCommand=x` is not a
             hosts.a = 'a;b' | is not a destination
             hosts.a = 'a b' | is not a destination
             hosts.a = '' | is not a destination
             hosts.'a b' = 'x' | is not a name of a host
             hosts.-a = 'x' | is not a name of a host
             hosts.a = 3 | a destination for ssh like
             hosts.a.port = 3 | port
             hosts.a = { command = [] } | `command` is empty
             hosts.a = { ssh = 'a', command = ['b'] } | instead of `ssh`",
        ) {
            let error = hosts_in(&text).unwrap_err();
            assert!(error.contains(&expected), "{error}");
        }
        for path in r#"bin/x /it's /a\\b /a$(b) /a\nb /a!b /a\"b"#.split(' ') {
            let error = hosts_in(&format!("hosts.a.program = \"{path}\"")).unwrap_err();
            assert!(error.contains("is not a path there"), "{error}");
        }
    }
}
