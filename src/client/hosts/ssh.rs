//! OpenSSH's client: its options and command lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::config::paths::{Env, create_links_folder, unusable};
use crate::files;
use crate::model::Error;

/// What the shell there prints in front of its system and machine if it finds no program.
pub(super) const MISSING: &str = "tmux-task: missing ";

/// The configuration, in which the user's own comes first: ssh takes the first value that it finds.
const CONFIG: &str = include_str!("../../../hooks/ssh_config");

/// Creates the folder of ssh's sockets, with its configuration.
pub(super) fn create_folder(env: Env<'_>) -> Result<PathBuf, Error> {
    let folder = create_links_folder(env)?;
    let config = folder.join("ssh_config");
    if fs::read(&config).ok().as_deref() != Some(CONFIG.as_bytes()) {
        let fresh = config.with_extension(std::process::id().to_string());
        files::replace(&config, &fresh, CONFIG.as_bytes())
            .map_err(|error| unusable(&config, &error))?;
    }
    Ok(folder)
}

/// Returns ssh with a command line for the login shell there. Sockets in the folder share connections.
pub(super) fn ssh(folder: &Path, destination: &str, options: &[&str], line: &str) -> Command {
    let mut command = Command::new("ssh");
    command.arg("-F").arg(folder.join("ssh_config"));
    // In a path, `%` begins what ssh fills in.
    let folder = folder.display().to_string().replace('%', "%%");
    command
        .args(["-oControlMaster=auto", "-oControlPersist=10m"])
        .arg(format!("-oControlPath=\"{folder}/%C\""))
        // What the user's configuration executes at a login without a command is not for us.
        .args(["-oRemoteCommand=none", "-oLogLevel=ERROR"])
        .args(options)
        .args(["--", destination, line]);
    command
}

/// Returns a command line that executes our program there with these words. Without a terminal its first line
/// is the first of its output, whatever start files of the login shell print: they may leave a line without
/// an end.
pub(super) fn far_line(program: Option<&str>, words: &str) -> String {
    let find = find_program(program);
    of_shell(&format!(
        "test -t 1 || echo; {find}; command -v \"$p\" >/dev/null || {{ test -t 1 || \
         echo \"{MISSING}$(uname -sm)\"; exit 127; }}; exec \"$p\" {words}"
    ))
}

/// Returns a line for `sh`. The script has no quote, backslash, or sign that some shell reads in single quotes.
pub(super) fn of_shell(script: &str) -> String {
    format!("exec sh -c '{script}'")
}

/// Returns what sets `$p` to our program there, or its path. It starts no process.
pub(super) fn find_program(program: Option<&str>) -> String {
    match program {
        Some(path) => format!("p=\"{}\"", in_home(path)),
        None => "p=tmux-task; command -v $p >/dev/null || { p=$HOME/.local/bin/tmux-task; \
                 test -x \"$p\" || p=$HOME/.cargo/bin/tmux-task; }"
            .to_owned(),
    }
}

/// Returns a path for a shell, with `~/` as the home directory there.
pub(super) fn in_home(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("$HOME/{rest}"),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shell_reads_anything_in_the_line() {
        for program in [None, Some("~/bin/tmux task"), Some("/opt/tmux-task")] {
            let line = far_line(program, "far-call");
            let inner = line.strip_prefix("exec sh -c '").unwrap();
            let inner = inner.strip_suffix('\'').unwrap();
            assert!(!inner.contains(['\'', '\\', '!', '\n']), "{line}");
        }
        let line = far_line(Some("~/bin/x"), "far-call");
        assert!(line.contains("p=\"$HOME/bin/x\""), "{line}");
    }

    #[test]
    fn options_of_ssh_cannot_be_smuggled_in() {
        let folder = Path::new("/run/50%/a b");
        let command = ssh(folder, "me@a", &["-n"], "line");
        let args = command.get_args().map(|arg| arg.to_str().unwrap());
        let expected = "-F,/run/50%/a b/ssh_config,-oControlMaster=auto,-oControlPersist=10m,\
                        -oControlPath=\"/run/50%%/a b/%C\",-oRemoteCommand=none,-oLogLevel=ERROR,-n,--,me@a,line";
        assert_eq!(args.collect::<Vec<_>>().join(","), expected);
    }
}
