//! Checks everything that tmux-task depends on.
//!
//! It is called when things are broken: each check has a time limit and is independent, and none
//! starts a tmux server or a daemon.

mod check;
mod machine;
mod readers;
mod supervision;

use super::lookup;
use super::session::{SessionChoice, TaskSession};
use crate::model::{Error, ErrorKind};
use crate::rules::wire::{CheckResult, DoctorReport};
use crate::tmux::Server;

/// Runs all checks.
pub(crate) async fn examine(choice: &SessionChoice) -> Result<DoctorReport, Error> {
    let session = match TaskSession::named(choice) {
        Err(error) if error.kind == ErrorKind::Usage => return Err(error),
        session => session,
    };
    let server = match &session {
        Ok(session) => Ok(session.server.clone()),
        // Everything but the server may be the cause.
        Err(_) => Server::locate(&choice.server, &lookup),
    };
    let (program, of_tmux, of_machine, of_session) = tokio::join!(
        check::on_disk("program", machine::examine_program),
        machine::examine_tmux(server),
        machine::examine(),
        supervision::examine(session)
    );
    let of_broker = readers::examine_broker().await;
    let checks = [vec![program], of_tmux, of_machine, of_session, of_broker].concat();
    let count = |result| checks.iter().filter(|check| check.result == result).count();
    Ok(DoctorReport {
        warnings: count(CheckResult::Warn),
        failures: count(CheckResult::Fail),
        checks,
    })
}
