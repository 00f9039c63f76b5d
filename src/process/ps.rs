//! `ps`, which lists processes where there is no `/proc`. It is started only when somebody asks.

use std::process::{Command, Stdio};

/// Returns these columns of these processes, without headings.
pub(super) fn ps(which: &[&str], columns: &[&str]) -> String {
    let mut ps = Command::new("/bin/ps");
    ps.args(which).stdin(Stdio::null()).stderr(Stdio::null());
    for column in columns {
        ps.args(["-o", &format!("{column}=")]);
    }
    match ps.output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => {
            tracing::error!(%error, "could not start `/bin/ps`, which lists processes");
            String::new()
        }
    }
}

/// Returns a column of a process; `None` where it is gone.
pub(super) fn column(pid: u32, column: &str) -> Option<String> {
    let printed = ps(&["-p", &pid.to_string()], &[column]);
    Some(printed.trim().to_owned()).filter(|text| !text.is_empty())
}
