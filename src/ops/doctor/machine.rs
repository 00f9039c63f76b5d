//! What does not depend on a session: the program, the locale, the configuration, the folders, the
//! desktop, and tmux with its server.

use std::path::{Path, PathBuf};
use std::{env, io};

use rustix::fs::{Access, access, statvfs};
use tokio::time::timeout;

use super::check::{LIMIT, fail, fail_without_hint, no_answer, ok, on_disk, silent, warn};
use crate::config;
use crate::config::paths::{self, Env};
use crate::files;
use crate::model::{Error, text, with_causes};
use crate::ops::attach::is_same_file;
use crate::ops::lookup;
use crate::rules::alerts::Place;
use crate::rules::wire::DoctorCheck;
use crate::tmux::{Connection, Probe, Server, TmuxError, server_version};

/// Checks this machine and this environment.
pub(super) async fn examine() -> Vec<DoctorCheck> {
    let state = || examine_folder("state", paths::check_state(&lookup));
    let runtime = || examine_folder("runtime", paths::check_runtime(&lookup));
    let (configuration, state, runtime, desktop) = tokio::join!(
        on_disk("config", examine_configuration),
        on_disk("state", state),
        on_disk("runtime", runtime),
        examine_desktop(),
    );
    let locale = judge_locale(&lookup);
    vec![locale, configuration, state, runtime, desktop]
}

/// Checks the program that runs, and which one a shell finds.
pub(super) fn examine_program() -> DoctorCheck {
    const CHECK: &str = "program";
    let path = match env::current_exe() {
        Ok(path) => path,
        Err(error) => return fail_without_hint(CHECK, with_causes(&error)),
    };
    let found = lookup("PATH").and_then(|folders| {
        let mut candidates = env::split_paths(&folders).map(|folder| folder.join("tmux-task"));
        candidates.find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
    });
    let version = env!("CARGO_PKG_VERSION");
    let message = format!("tmux-task {version}, {}", path.display());
    let hint = match found {
        Some(found) if is_same_file(&found, &path) => return ok(CHECK, message),
        Some(found) => format!(
            "a shell finds {} first, and tmux-task-run calls that one; remove it, or change PATH",
            found.display()
        ),
        None => "it is not on PATH: tmux-task-run finds it only beside itself, in ~/.cargo/bin or \
                 ~/.local/bin, or by TMUX_TASK_PROGRAM"
            .to_owned(),
    };
    warn(CHECK, message, hint)
}

fn judge_locale(env: Env<'_>) -> DoctorCheck {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let mut set = variables.filter_map(|name| {
        let value = env(name)?.to_string_lossy().into_owned();
        (!value.is_empty()).then_some((name, value))
    });
    let message = match set.next() {
        None => "neither LC_ALL, LC_CTYPE nor LANG is set".to_owned(),
        Some((variable, value)) => {
            let upper = value.to_ascii_uppercase();
            if upper.contains("UTF-8") || upper.contains("UTF8") {
                return ok("locale", format!("{variable}={value}"));
            }
            format!("{variable}={value} is not UTF-8")
        }
    };
    warn(
        "locale",
        message,
        "set LANG to a locale of UTF-8, such as C.UTF-8: tasks inherit it, and many programs print \
         `?` or `_` without one",
    )
}

fn examine_configuration() -> DoctorCheck {
    let file = config::find(&lookup);
    if let Err(error) = config::load(&lookup) {
        return fail(
            "config",
            with_causes(&error),
            "correct the file: no daemon starts with it, and one that runs keeps its settings; \
             `tmux-task config example` describes the keys",
        );
    }
    match file.map(|file| file.path).filter(|path| path.exists()) {
        Some(path) => ok("config", path.display().to_string()),
        None => ok("config", "no file; the defaults apply"),
    }
}

async fn examine_desktop() -> DoctorCheck {
    // A configuration that cannot be read is another check's finding.
    let load = tokio::task::spawn_blocking(|| config::load(&lookup));
    if let Ok(Ok(Ok(config))) = timeout(LIMIT, load).await
        && !config.notices.places.contains(&Place::Desktop)
    {
        return ok("desktop", "notices are not shown on the desktop");
    }
    match notifier().await {
        Ok(service) => ok("desktop", format!("notices are shown by {service}")),
        Err(why) => warn(
            "desktop",
            why,
            "notices are shown by tmux only, where the configuration says so; events and \
             follow-ups do not depend on it",
        ),
    }
}

#[cfg(all(feature = "notice", not(target_os = "macos")))]
async fn notifier() -> Result<String, String> {
    let notifier = crate::outlets::notice::notifier().await;
    notifier.map_err(|error| with_causes(&error))
}

#[cfg(not(all(feature = "notice", not(target_os = "macos"))))]
async fn notifier() -> Result<String, String> {
    Err("this program was built without desktop notices".to_owned())
}

/// With less space left, a feed of the usual size may not fit.
const LITTLE: u64 = 64 << 20;

/// Checks a folder that commands create when they need it.
fn examine_folder(name: &'static str, path: Result<PathBuf, Error>) -> DoctorCheck {
    let path = match path {
        Ok(path) => path,
        // The error contains what to do.
        Err(error) => return fail_without_hint(name, error.message),
    };
    let nearest = files::nearest_folder(&path).map_or_else(|| path.clone(), |(nearest, _)| nearest);
    let free = || -> io::Result<u64> {
        if nearest.exists() && !nearest.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        access(&nearest, Access::WRITE_OK | Access::EXEC_OK)?;
        let disk = statvfs(&nearest)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    };
    match free() {
        Ok(free) => judge_space(name, &path, free),
        Err(error) => {
            let (shown, why) = (nearest.display(), with_causes(&error));
            let hint = "change its owner or mode, or name other folders with $TMUX_TASK_STATE_DIR and \
                        $TMUX_TASK_RUNTIME_DIR";
            fail(name, format!("cannot write to {shown}: {why}"), hint)
        }
    }
}

fn judge_space(name: &'static str, path: &Path, free: u64) -> DoctorCheck {
    let (path, shown) = (path.display(), text::size(free));
    if free >= LITTLE {
        return ok(name, format!("{path}, {shown} free"));
    }
    let grade = if free < 1 << 20 { fail } else { warn };
    grade(
        name,
        format!("{shown} free on the disk of {path}"),
        "make room: what cannot be written waits in memory, and its readers with it",
    )
}

// The tmux program and its server.

/// Checks the tmux program and its server.
pub(super) async fn examine_tmux(server: Result<Server, TmuxError>) -> Vec<DoctorCheck> {
    let server = match server {
        Ok(server) => server,
        Err(error) => return vec![unusable(&with_causes(&error))],
    };
    let (program, (running, of_server)) = tokio::join!(
        timeout(LIMIT, server.check_version()),
        examine_server(&server)
    );
    let program = match program {
        Ok(Ok(version)) => version,
        Ok(Err(error)) => {
            let Error { message, hint, .. } = error.into();
            return vec![fail("tmux", message, hint.unwrap_or_default()), running];
        }
        Err(_elapsed) => return vec![no_answer("tmux"), running],
    };
    let mut checks = vec![ok("tmux", format!("tmux {program}")), running];
    if let Some(server) = of_server.filter(|server| *server != program) {
        checks.push(warn(
            "server",
            format!("the server is tmux {server}, the program is tmux {program}"),
            "end the server when its sessions are done (`tmux kill-server`), or name the older \
             program with --tmux",
        ));
    }
    checks
}

/// Also returns the version of the server that runs.
async fn examine_server(server: &Server) -> (DoctorCheck, Option<String>) {
    let socket = server.socket().display();
    let absent = || {
        ok(
            "server",
            format!("none runs on {socket}; the first task starts one"),
        )
    };
    let does_not_answer = |pid| {
        let hint = "the cause is unknown; ask again when the machine is less busy";
        silent("server", "the tmux server", pid, |_| hint.to_owned())
    };
    match server.probe() {
        Probe::Absent => return (absent(), None),
        Probe::Stuck => return (does_not_answer(None), None),
        Probe::Unknown(errno) => {
            let why = format!("{socket}: {}", with_causes(&errno));
            return (unusable(&why), None);
        }
        Probe::Listening => {}
    }
    let pid = server.pid();
    let mut connection = Connection::OneShot(server);
    let check = match timeout(LIMIT, server_version(&mut connection)).await {
        Err(_) | Ok(Err(TmuxError::TimedOut)) => does_not_answer(pid),
        Ok(Ok(version)) => {
            let pid = pid.map_or_else(|| "running".to_owned(), |pid| format!("pid {pid}"));
            let Some(version) = version else {
                return (ok("server", pid), None);
            };
            let check = ok("server", format!("{pid}, version {version}"));
            return (check, Some(version));
        }
        // It has ended since.
        Ok(Err(error)) if error.is_missing() => absent(),
        Ok(Err(error)) => unusable(&with_causes(&error)),
    };
    (check, None)
}

fn unusable(why: &str) -> DoctorCheck {
    let hint = "-L and -S name a server, as in tmux";
    fail("server", format!("cannot be used: {why}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::env;
    use crate::rules::wire::CheckResult;

    #[track_caller]
    fn check_locale(variables: &str, expected: &str) {
        assert_eq!(judge_locale(&env(variables)).message, expected);
    }

    #[test]
    fn the_first_variable_that_is_set_decides_on_the_locale() {
        check_locale("LANG=de_DE.utf8", "LANG=de_DE.utf8");
        check_locale("LANG=de_DE.utf8 LC_ALL=", "LANG=de_DE.utf8");
        let refused = "LC_ALL=C is not UTF-8";
        check_locale("LANG=de_DE.utf8 LC_ALL=C", refused);
        check_locale("LANG=de_DE.utf8 LC_ALL=C LC_CTYPE=C.UTF-8", refused);
        check_locale("", "neither LC_ALL, LC_CTYPE nor LANG is set");
    }

    #[test]
    fn a_disk_is_full_without_space() {
        use CheckResult::{Ok, Warn};
        let found = |free| judge_space("state", Path::new("/state"), free).result;
        assert_eq!(found(LITTLE), Ok);
        assert_eq!(found(LITTLE - 1), Warn);
    }

    #[test]
    fn a_folder_is_checked_where_it_will_be_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let found = examine_folder("state", Ok(path.clone()));
        assert_eq!(found.result, CheckResult::Ok, "{found:?}");
        assert!(!path.exists());
        std::fs::write(dir.path().join("a"), "").unwrap();
        let message = examine_folder("state", Ok(path)).message;
        assert!(message.starts_with("cannot write to"), "{message}");
    }
}
