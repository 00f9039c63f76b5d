//! Whether tasks and daemon survive the end of the login, where systemd keeps logins.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::check::{ok, warn};
use crate::process;
use crate::wire::DoctorCheck;

/// It exists where systemd is the first process.
const SYSTEMD: &str = "/run/systemd/system";

/// The documentation of what survives a login.
const SERVICE: &str = "docs/service.md says how to run tmux-task as a service";

/// How long `loginctl` may take.
const LIMIT: Duration = Duration::from_secs(1);

/// To which part of a user's processes a process belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// One login.
    Login,
    /// The user's own systemd.
    UserManager,
    /// No login: a service of the system, or a container.
    System,
}

/// What the system does when a login ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    /// `KillUserProcesses` of logind.
    kills_processes: bool,
    /// Whether the user's systemd stays when the last login ends.
    lingers: bool,
}

/// Checks the given processes, or what would be started from here.
pub(super) async fn examine(server: Option<u32>, daemon: Option<u32>) -> Vec<DoctorCheck> {
    let mut processes = vec![
        ("the tmux server, with all tasks,", server),
        ("the daemon", daemon),
        ("what is started here", Some(std::process::id())),
    ];
    processes.retain(|(_, pid)| pid.is_some());
    if processes.len() > 1 {
        processes.pop();
    }
    let groups: Vec<(&str, Group)> = processes
        .into_iter()
        .filter_map(|(who, pid)| Some((who, group_of(&process::control_group_of(pid?)?))))
        .collect();
    let concerns_logins = groups.iter().any(|(_, group)| *group != Group::System);
    let mut ends = Vec::new();
    if concerns_logins
        && Path::new(SYSTEMD).exists()
        && let Some(policy) = policy().await
    {
        ends = judge(&groups, policy);
    }
    if ends.is_empty() {
        ends.push(ok("logout", "tasks survive the end of the login"));
    }
    ends
}

/// Returns which processes end with the login.
fn judge(groups: &[(&str, Group)], policy: Policy) -> Vec<DoctorCheck> {
    let judge_one = |(who, group): &(&str, Group)| match group {
        Group::Login if policy.kills_processes => Some(warn(
            "logout",
            format!("{who} ends with this login: systemd ends its processes (KillUserProcesses)"),
            format!("start tmux in a scope of its own; {SERVICE}"),
        )),
        Group::UserManager if !policy.lingers => Some(warn(
            "logout",
            format!("{who} ends with your last login"),
            format!("`loginctl enable-linger` keeps it; {SERVICE}"),
        )),
        Group::Login | Group::UserManager | Group::System => None,
    };
    groups.iter().filter_map(judge_one).collect()
}

/// Reads `/user.slice/user-1000.slice/session-3.scope` and
/// `/user.slice/user-1000.slice/user@1000.service/...`.
fn group_of(path: &str) -> Group {
    let mut parts = path.split('/');
    if parts.any(|part| part.starts_with("user@")) {
        return Group::UserManager;
    }
    let is_login = |part: &str| part.starts_with("session-") && part.ends_with(".scope");
    if path.split('/').any(is_login) {
        return Group::Login;
    }
    Group::System
}

async fn policy() -> Option<Policy> {
    let uid = rustix::process::getuid().as_raw().to_string();
    // Without an argument: the properties of logind itself.
    let of_manager = ["show-user", "--property=KillUserProcesses"];
    let of_user = ["show-user", &uid, "--property=Linger"];
    let (manager, user) = tokio::join!(show(&of_manager), show(&of_user));
    Some(Policy {
        kills_processes: manager?.contains("KillUserProcesses=yes"),
        lingers: user?.contains("Linger=yes"),
    })
}

async fn show(args: &[&str]) -> Option<String> {
    let asked = tokio::process::Command::new("loginctl")
        .args(args)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(LIMIT, asked).await.ok()?.ok()?;
    let is_success = output.status.success();
    is_success.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_a_login_a_manager_or_the_system() {
        let user = "/user.slice/user-1000.slice";
        let of = |rest: &str| group_of(&format!("{user}{rest}"));
        assert_eq!(of("/session-3.scope"), Group::Login);
        assert_eq!(
            of("/user@1000.service/app.slice/x.scope"),
            Group::UserManager
        );
        assert_eq!(group_of("/system.slice/cron.service"), Group::System);
        assert_eq!(group_of("/"), Group::System);
    }

    #[test]
    fn what_ends_with_the_login_is_reported() {
        let ends = |group, kills_processes, lingers| {
            let policy = Policy {
                kills_processes,
                lingers,
            };
            let found = judge(&[("the daemon", group)], policy);
            found.first().map(|found| found.message.clone())
        };
        let found = |group, kills, lingers, words: &str| {
            let ends = ends(group, kills, lingers);
            assert!(ends.is_some_and(|message| message.contains(words)));
        };
        assert_eq!(ends(Group::Login, false, false), None);
        // Lingering keeps the user's systemd only.
        found(Group::Login, true, true, "the daemon ends with this login");
        assert_eq!(ends(Group::UserManager, true, true), None);
        found(Group::UserManager, false, false, "with your last login");
        assert_eq!(ends(Group::System, true, false), None);
    }
}
