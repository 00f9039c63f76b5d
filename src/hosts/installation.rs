//! Puts this program onto another machine.

use std::fs::File;
use std::io;
use std::process::Stdio;

use super::far_call::OURS;
use super::far_process::{FarOutput, FarProcess, SSH_FAILED, Said, try_reaching};
use super::host::{Host, Way};
use super::ssh::{Questions, Ssh, find_program, in_home, of_shell_after_noise};
use crate::model::{Error, text};
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
        "{find}; echo \"{ANSWERS}\"; echo \"$(uname -sm)\"; echo \"$HOME\"; \
         if test -x \"$p\"; then echo \"$p\"; echo \"$(\"$p\" --version </dev/null)\"; fi"
    );
    let run = async |script: &str, stdin| execute(name, &ssh, destination, script, stdin).await;
    let way = (destination.as_str(), questions);
    let ask = async || run(&script, Stdio::null()).await;
    let printed = try_reaching(name, &ssh, way, ask).await?;
    // Its system and kind of machine, the home directory, and the path and version of a program.
    let mut answers = printed.lines().map(str::trim_end);
    answers.find(|line| *line == ANSWERS);
    let mut answers = answers.map(|line| text::one_line(line.as_bytes(), MAX_CHARS));
    let [system, home, path, found] = [(); 4].map(|()| answers.next().unwrap_or_default());
    if system.is_empty() {
        return Err(refused(
            format!("{name} did not answer"),
            format!("look at `ssh {destination} true`"),
        ));
    }
    let version = format!("tmux-task {OURS}");
    let target = configured.as_deref().unwrap_or(DEFAULT_PATH);
    let full = target.replacen('~', &home, usize::from(target.starts_with("~/")));
    if !path.is_empty() {
        if found == version {
            return Ok(Installed::Already(path));
        }
        if path != full {
            let has = match &*found {
                "" => "something else",
                found => found,
            };
            return Err(refused(
                format!("{name} has {has} at {path}, this is {version}"),
                format!(
                    "update it there, or name another place: `hosts.{name}.program = \"{DEFAULT_PATH}\"`"
                ),
            ));
        }
    }
    let here = rustix::system::uname();
    let here = [here.sysname(), here.machine()].map(|word| word.to_string_lossy());
    let here = here.join(" ");
    if system != here {
        return Err(refused(
            format!("{name} is {system}, this is {here}: this program does not run there"),
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
            Some(FarOutput::Stdout(_)) if printed.len() >= MOST_PRINTED => process.kill(),
            Some(FarOutput::Stdout(bytes)) => {
                let room = MOST_PRINTED - printed.len();
                printed.extend(bytes.into_iter().take(room));
            }
            Some(FarOutput::Stderr(bytes)) => said.add(&bytes),
            None => break process.code_of_way().await,
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
