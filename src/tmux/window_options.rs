//! The options of a window that describe its task.

use std::sync::LazyLock;

use super::notify_option::NOTIFY_ON;
use super::quoted::{Fields, Print, counter, join_fields, unless_plain};
use super::restart_option::RESTART;
use super::slot_option::SLOT;
use super::stop_option::STOP;
use crate::model::Millis;

/// The options that describe a task.
pub(super) const OPTION_NAMES: [&str; 12] = [
    "@tmux_task_run",
    "@tmux_task_started",
    "@tmux_task_replaced",
    "@tmux_task_owner",
    "@tmux_task_command",
    "@pi_task_command",
    "@tmux_task_cwd",
    "@pi_task_cwd",
    RESTART,
    STOP,
    NOTIFY_ON,
    SLOT,
];

/// Prints what [`WindowOptions::read`] reads.
pub(super) static OPTION_FIELDS: LazyLock<String> = LazyLock::new(|| {
    let [
        run,
        started,
        replaced,
        owner,
        command,
        of_pi,
        cwd,
        cwd_of_pi,
        restart,
        stop,
        notify_on,
        slot,
    ] = OPTION_NAMES;
    let fields = |print: Print| {
        join_fields(&[
            &print.bounded(owner),
            &print.first_of(command, of_pi),
            &print.first_of(cwd, cwd_of_pi),
            &print.bounded(restart),
            &print.bounded(stop),
            &print.bounded(notify_on),
            &print.bounded(slot),
        ])
    };
    let texts = [
        owner, command, of_pi, cwd, cwd_of_pi, restart, stop, notify_on, slot,
    ];
    let texts = texts.map(|option| format!("#{{{option}}}")).concat();
    join_fields(&[
        &counter(run),
        &counter(started),
        &counter(replaced),
        &unless_plain(&texts, &fields(Print::Quoted), &fields(Print::Plain)),
    ])
});

/// The values of these options, as in a `WindowRow`.
#[derive(Debug, Default)]
pub(super) struct WindowOptions {
    pub(super) run: Option<u32>,
    pub(super) started: Option<Millis>,
    pub(super) replaced: Option<u32>,
    pub(super) owner: Option<String>,
    pub(super) command: Option<String>,
    pub(super) cwd: Option<String>,
    /// As [`super::restart_option`] reads it.
    pub(super) restart: Option<String>,
    /// As [`super::stop_option`] reads it.
    pub(super) stop: Option<String>,
    /// As [`super::notify_option`] reads it.
    pub(super) notify_on: Option<String>,
    /// As [`super::slot_option`] reads it.
    pub(super) slot: Option<String>,
}

impl WindowOptions {
    pub(super) fn read(fields: &mut Fields) -> Option<Self> {
        Some(Self {
            run: fields.maybe()?,
            started: fields.maybe()?,
            replaced: fields.maybe()?,
            owner: fields.some_text()?,
            command: fields.some_text()?,
            cwd: fields.some_text()?,
            restart: fields.some_text()?,
            stop: fields.some_text()?,
            notify_on: fields.some_text()?,
            slot: fields.some_text()?,
        })
    }
}
