//! Puts this program onto another machine.

use std::fs::File;
use std::io;
use std::process::Stdio;

use tokio::process::Command;

use super::far_call::OURS;
use super::far_process::{FarProcess, Piece, SSH_FAILED, Said, authenticate};
use super::host::{Host, Way, not_started};
use super::ssh::{Questions, Ssh, find_program, in_home, of_shell_after_noise};
use crate::model::{Error, ErrorKind, text};
use crate::paths::Env;
use crate::tmux::program;

/// Where it is put, unless the configuration names a path.
const DEFAULT_PATH: &str = "~/.local/bin/tmux-task";

/// What is printed before the answers, behind what start files of the login shell print.
const ANSWERS: &str = "tmux-task: answers";

/// How long a line of an answer may be, in characters.
const MAX_CHARS: usize = 400;

/// The most that start files and our scripts may print, in bytes.
const MOST_PRINTED: usize = 1 << 20;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Installed {
    /// This version is there already, at this path.
    Already(String),
    /// It was copied to this path.
    Copied(String),
}

/// What the far side has.
#[derive(Debug, Default, PartialEq, Eq)]
struct FarProgram {
    /// Its system and kind of machine: `Linux x86_64`.
    system: String,
    home: String,
    /// The path of the program; `None` if there is none.
    path: Option<String>,
    /// What it prints for `--version`.
    version: String,
}

impl FarProgram {
    /// Reads the answers.
    fn of(printed: &str) -> Option<Self> {
        let mut far = Self::default();
        let mut lines = printed.lines().map(str::trim_end);
        lines.find(|line| *line == ANSWERS)?;
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = text::one_line(value.as_bytes(), MAX_CHARS);
            match key {
                "system" => far.system = value,
                "home" => far.home = value,
                "path" => far.path = Some(value),
                "version" => far.version = value,
                _ => {}
            }
        }
        (!far.system.is_empty()).then_some(far)
    }
}

/// Copies this program to a machine of the same kind that has no `tmux-task`, or one of another version in
/// the place where this is put.
///
/// # Errors
///
/// When the host is not reached, and when the program would not run there or not be found.
pub(crate) async fn install(
    host: &Host,
    env: Env<'_>,
    questions: Questions,
) -> Result<Installed, Error> {
    let name = &host.name;
    let Way::Ssh {
        destination,
        program: configured,
    } = &host.way
    else {
        let why = format!("{name} is not reached by ssh");
        let hint = format!("install tmux-task {OURS} there by other means");
        return Err(refused(why, hint));
    };
    let ssh = Ssh::prepare(env)?;
    let find = find_program(configured.as_deref());
    let script = format!(
        "{find}; echo \"{ANSWERS}\"; echo \"system $(uname -sm)\"; echo \"home $HOME\"; \
         if test -x \"$p\"; then echo \"path $p\"; echo \"version $(\"$p\" --version </dev/null)\"; fi"
    );
    let run = async |script: &str, stdin| execute(name, &ssh, destination, script, stdin).await;
    let mut printed = run(&script, Stdio::null()).await;
    let is_unreachable = |error: &Error| error.kind == ErrorKind::Unreachable;
    if questions == Questions::AtTerminal && printed.as_ref().is_err_and(is_unreachable) {
        authenticate(host, &ssh, destination).await?;
        printed = run(&script, Stdio::null()).await;
    }
    let printed = printed?;
    let far = FarProgram::of(&printed).ok_or_else(|| {
        refused(
            format!("{name} did not answer"),
            format!("look at `ssh {destination} true`"),
        )
    })?;
    let version = format!("tmux-task {OURS}");
    let target = configured.as_deref().unwrap_or(DEFAULT_PATH);
    let full = target.replacen('~', &far.home, usize::from(target.starts_with("~/")));
    if let Some(path) = far.path {
        if far.version == version {
            return Ok(Installed::Already(path));
        }
        if path != full {
            let has = match &*far.version {
                "" => "something else",
                version => version,
            };
            return Err(refused(
                format!("{name} has {has} at {path}, this is {version}"),
                format!(
                    "update it there, or name another place: `hosts.{name}.program = \"{DEFAULT_PATH}\"`"
                ),
            ));
        }
    }
    let uname = Command::new("uname").arg("-sm").output().await;
    let here = uname.map_err(|error| not_started("uname", &error))?;
    let here = text::one_line(here.stdout.trim_ascii(), MAX_CHARS);
    if far.system != here {
        return Err(refused(
            format!(
                "{name} is {}, this is {here}: this program does not run there",
                far.system
            ),
            format!("install {version} there, in {target}"),
        ));
    }
    let ours = program().ok_or(io::ErrorKind::NotFound.into());
    let program = ours
        .and_then(File::open)
        .map_err(|error| Error::io("could not read this program", &error))?;
    // It takes its place when it is whole and runs; one that runs goes on.
    let script = format!(
        "p=\"{}\"; n=\"$p.$$\"; mkdir -p \"$(dirname \"$p\")\" && cat >\"$n\" && chmod 755 \"$n\" && \
         \"$n\" --version </dev/null && mv \"$n\" \"$p\" || {{ rm -f \"$n\"; exit 1; }}",
        in_home(target)
    );
    run(&script, program.into()).await?;
    Ok(Installed::Copied(full))
}

/// Executes a script there, and returns what it prints.
async fn execute(
    name: &str,
    ssh: &Ssh,
    destination: &str,
    script: &str,
    stdin: Stdio,
) -> Result<String, Error> {
    let script = of_shell_after_noise(script);
    let command = ssh.command(destination, Questions::Never, &["-T"], &script);
    let mut process = FarProcess::spawn(name, command, stdin)?;
    let (mut printed, mut said) = (Vec::new(), Said::default());
    let code = loop {
        match process.piece().await {
            Piece::Stdout(_) if printed.len() >= MOST_PRINTED => process.kill(),
            Piece::Stdout(bytes) => {
                let room = MOST_PRINTED - printed.len();
                printed.extend(bytes.into_iter().take(room));
            }
            Piece::Stderr(bytes) => said.add(&bytes),
            Piece::End => break process.code_of_way().await,
        }
    };
    match code {
        Some(0) => Ok(String::from_utf8_lossy(&printed).into_owned()),
        Some(SSH_FAILED) => Err(said.unreachable(name, destination)),
        code => {
            // What a login is refused with is often no error.
            said.add(&printed);
            let hint = format!(
                "`ssh {destination} true` has to work; or install the same version there by other means"
            );
            let why = format!("could not install on {name}{}", said.end(code));
            Err(refused(why, hint))
        }
    }
}

fn refused(why: String, hint: impl Into<String>) -> Error {
    Error::failed(why).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_behind_what_start_files_print() {
        let printed = "Welcome\nsystem of mine\ntmux-task: answers\nsystem Linux x86_64\nhome /home/me\r\n\
                       path /usr/bin/tmux-task\nversion tmux-task 0.0.9\n";
        let far = FarProgram {
            system: "Linux x86_64".to_owned(),
            home: "/home/me".to_owned(),
            path: Some("/usr/bin/tmux-task".to_owned()),
            version: "tmux-task 0.0.9".to_owned(),
        };
        assert_eq!(FarProgram::of(printed), Some(far));
        for none in ["", "Welcome\nsystem x", "tmux-task: answers\n"] {
            assert_eq!(FarProgram::of(none), None, "{none}");
        }
    }
}
