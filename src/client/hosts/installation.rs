//! Puts this program onto another machine.

use std::fs::File;
use std::path::Path;

use super::far_process::{ANSWER_CHARS, MOST_NOISE, SSH_FAILED, try_reaching};
use super::host::{Host, start_way};
use super::ssh::{find_program, in_home, of_shell, ssh};
use crate::client::LineProcess;
use crate::model::{Error, OURS, text};
use crate::tmux::program;

/// Where it is put, unless the configuration names a path.
const DEFAULT_PATH: &str = "~/.local/bin/tmux-task";

/// What is copied instead where this program does not start: a program without libraries, beside this one.
const STATIC: &str = "tmux-task-static";

/// What does it there, a command a line.
const SCRIPT: &str = include_str!("../../../hooks/install-host.sh");

/// Copies this program to a machine of the same kind that has no `tmux-task`, or one of another version in the
/// place where this is put. Returns what was done. It is an error if it would not run there or not be found.
pub(crate) async fn install(host: &Host, may_ask: bool) -> Result<String, Error> {
    let name = &host.name;
    let configured = host.config.program.as_deref();
    let Some(destination) = host.ssh_to() else {
        let why = format!("{name} is not reached by ssh");
        let hint = format!("install tmux-task {OURS} there by other means");
        return Err(Error::failed(why).with_hint(hint));
    };
    let version = format!("tmux-task {OURS}");
    let target = configured.unwrap_or(DEFAULT_PATH);
    let here = rustix::system::uname();
    let here = [here.sysname(), here.machine()].map(|word| word.to_string_lossy());
    let here = here.join(" ");
    let commands = SCRIPT.lines().filter(|line| !line.starts_with('#'));
    // What start files print may have no line end.
    let line = of_shell(&format!(
        "echo; {}; ours=\"{version}\"; here=\"{here}\"; target=\"{}\"; {}",
        find_program(configured),
        in_home(target),
        commands.collect::<Vec<_>>().join("; ")
    ));
    let ours = program().unwrap_or_default();
    let attempt = async |file: &Path| {
        let file = File::open(file);
        let file = file.map_err(|error| Error::io("could not read this program", &error))?;
        let command = ssh(&host.links, destination, &["-oBatchMode=yes", "-T"], &line);
        answer(host, destination, start_way(command, file.into())?).await
    };
    let mut answer = try_reaching(host, may_ask, async || attempt(&ours).await).await?;
    let fixed = ours.with_file_name(STATIC);
    if answer.starts_with("stopped ") && fixed.exists() {
        answer = try_reaching(host, may_ask, async || attempt(&fixed).await).await?;
    }
    let (why, hint) = match answer.split_once(' ') {
        Some(("has", path)) => return Ok(format!("{name} has this version: {path}")),
        Some(("copied", path)) => return Ok(format!("copied this program to {name}: {path}")),
        Some(("other", found)) => {
            let place = format!("`hosts.{name}.program = \"{DEFAULT_PATH}\"`");
            (
                format!("{name} has {found}, this is {version}"),
                format!("update it there, or name another place: {place}"),
            )
        }
        Some(("system", system)) => (
            format!("{name} is {system}, this is {here}: this program does not run there"),
            format!("install {version} there, in {target}"),
        ),
        Some(("stopped", said)) => (
            format!("this program does not start on {name}: {said}"),
            format!("for older libraries, put {STATIC} beside it: `docs/package.sh static`"),
        ),
        Some(_) | None => (
            format!("{name} did not answer"),
            format!("look at `ssh {destination} true`"),
        ),
    };
    Err(Error::failed(why).with_hint(hint))
}

async fn answer(host: &Host, destination: &str, mut way: LineProcess) -> Result<String, Error> {
    let mut answer = String::new();
    // One that does not end is killed.
    let mut code = None;
    for _ in 0..MOST_NOISE {
        let Some(line) = way.line().await else {
            code = way.end().await;
            break;
        };
        match line.strip_prefix(b"tmux-task: ") {
            Some(words) => answer = text::one_line(words, ANSWER_CHARS),
            // What a login is refused with is often no error.
            None => way.said.add(&line),
        }
    }
    match code {
        Some(0) => Ok(answer),
        Some(SSH_FAILED) => Err(host.unreachable(destination, &way.said.words())),
        code => {
            let why = format!("could not install on {}{}", host.name, way.said.end(code));
            let hint = "has to work; or install the same version there by other means";
            Err(Error::failed(why).with_hint(format!("`ssh {destination} true` {hint}")))
        }
    }
}
