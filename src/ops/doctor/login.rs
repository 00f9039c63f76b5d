//! Whether tasks and daemon survive the end of the login, where systemd keeps logins.

use std::path::Path;
use std::time::Duration;

use super::time_limit::within;
use super::{EndsWith, Finding, Survivor};
use crate::process;

/// It exists where systemd is the first process.
const SYSTEMD: &str = "/run/systemd/system";

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
pub(super) async fn examine(server: Option<u32>, daemon: Option<u32>) -> Vec<Finding> {
    let mut survivors = vec![
        (Survivor::Server, server),
        (Survivor::Daemon, daemon),
        (Survivor::Next, Some(std::process::id())),
    ];
    survivors.retain(|(_, pid)| pid.is_some());
    if survivors.len() > 1 {
        survivors.pop();
    }
    let groups: Vec<(Survivor, Group)> = survivors
        .into_iter()
        .filter_map(|(survivor, pid)| Some((survivor, group_of(&process::control_group_of(pid?)?))))
        .collect();
    let concerns_logins = groups.iter().any(|(_, group)| *group != Group::System);
    if !concerns_logins || !Path::new(SYSTEMD).exists() {
        return vec![Finding::SurvivesLogout];
    }
    let Some(policy) = policy().await else {
        return vec![Finding::SurvivesLogout];
    };
    judge(&groups, policy)
}

fn judge(groups: &[(Survivor, Group)], policy: Policy) -> Vec<Finding> {
    let findings: Vec<Finding> = groups
        .iter()
        .filter_map(|(survivor, group)| {
            let with = match group {
                Group::Login => policy.kills_processes.then_some(EndsWith::Login),
                Group::UserManager => (!policy.lingers).then_some(EndsWith::LastLogin),
                Group::System => None,
            };
            with.map(|with| Finding::EndsWithLogin {
                survivor: *survivor,
                with,
            })
        })
        .collect();
    if findings.is_empty() {
        return vec![Finding::SurvivesLogout];
    }
    findings
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
    let output = within(LIMIT, asked).await.ok()?.ok()?;
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
        let findings = |group, kills_processes, lingers| {
            let policy = Policy {
                kills_processes,
                lingers,
            };
            judge(&[(Survivor::Server, group)], policy)
        };
        let ends = |with| {
            vec![Finding::EndsWithLogin {
                survivor: Survivor::Server,
                with,
            }]
        };
        let survives = vec![Finding::SurvivesLogout];
        assert_eq!(findings(Group::Login, false, false), survives);
        // Lingering keeps the user's systemd only.
        assert_eq!(findings(Group::Login, true, true), ends(EndsWith::Login));
        assert_eq!(findings(Group::UserManager, true, true), survives);
        let last = ends(EndsWith::LastLogin);
        assert_eq!(findings(Group::UserManager, false, false), last);
        assert_eq!(findings(Group::System, true, false), survives);
    }
}
