//! Checks everything that tmux-task depends on.
//!
//! It is called when things are broken: each check has a time limit and is independent, and none
//! starts a tmux server or a daemon.

mod finding;
mod folders;
mod login;
mod machine;
mod readers;
mod supervision;
mod time_limit;
mod tmux;

pub(crate) use finding::{Behind, Check, EndsWith, Finding, OnPath, Severity, Subject, Survivor};

use super::error::{ErrorKind, OpsError};
use super::lookup;
use super::session::{Session, SessionChoice};
use crate::model::with_causes;
use crate::tmux::Server;

/// Runs all checks.
///
/// # Errors
///
/// Only when the choice is invalid, as a session name with a dot is.
pub(crate) async fn examine(choice: &SessionChoice) -> Result<Vec<Check>, OpsError> {
    let session = match Session::named(choice) {
        Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
        session => session,
    };
    let server = match &session {
        Ok(session) => Ok(session.server.clone()),
        // Everything but the server may be the cause.
        Err(_) => Server::locate(&choice.server, &lookup),
    };
    let (machine, of_tmux, of_session) = tokio::join!(
        machine::examine(),
        tmux::examine(server.as_ref().ok()),
        supervision::examine(session)
    );
    let mut checks = machine.before_tmux;
    checks.extend(of_tmux);
    if let Err(error) = server {
        let why = with_causes(&error);
        checks.push(Finding::ServerRefuses { why }.of(Subject::Server));
    }
    checks.extend(machine.after_tmux);
    checks.extend(of_session);
    Ok(checks)
}
