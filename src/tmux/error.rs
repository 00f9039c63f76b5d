//! Errors of tmux commands.

use std::path::PathBuf;

use crate::model::{Error, ErrorKind};

/// Why tmux did not carry out a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TmuxError {
    /// Nothing listens on the socket, or the server has ended.
    #[error("no tmux server is running on `{}`", .socket.display())]
    NoServer { socket: PathBuf },
    /// A running server cannot be reached at its socket.
    #[error(
        "the tmux server (pid {pid}) runs, but nothing answers on `{}`; `kill -USR1 {pid}` makes it \
         listen there again",
        .socket.display()
    )]
    Unreachable {
        socket: PathBuf,
        /// The server's pid.
        pid: u32,
    },
    /// The server has no such session.
    #[error("tmux has no such session ({0})")]
    NoSuchSession(String),
    /// Another daemon supervises the session, and has its files elsewhere.
    #[error(
        "another daemon (pid {pid}) supervises the session and has its files in other folders: call \
         tmux-task with that daemon's XDG_STATE_HOME, XDG_RUNTIME_DIR, TMUX_TASK_STATE_DIR and \
         TMUX_TASK_RUNTIME_DIR, or end it with `kill {pid}`"
    )]
    OtherDaemon { pid: u32 },
    /// tmux refused a command.
    #[error("tmux rejected `{command}`: {reply}")]
    Rejected {
        /// The command's name.
        command: String,
        /// tmux's reply.
        reply: String,
    },
    /// The answer of tmux does not fit the question.
    #[error("could not read tmux's answer: {0}")]
    Confused(String),
    /// A client lost its connection to a server that still listens. Whether its commands were carried
    /// out is not known.
    #[error("the connection to the tmux server on `{}` was lost", .socket.display())]
    Lost { socket: PathBuf },
    /// The control connection was closed.
    #[error("tmux closed the control connection")]
    Closed,
    /// tmux did not answer in time. The client cannot be used any more.
    #[error("tmux did not answer within 10 seconds")]
    TimedOut,
    /// Input or output of the tmux program failed.
    #[error("could not talk to tmux")]
    Io(#[source] std::io::Error),
    /// It was not given to tmux, or undone: there is no such program or server to give it to, or what tmux
    /// would have made of it is not what was asked for.
    #[error(transparent)]
    Refused(#[from] Error),
}

impl From<TmuxError> for Error {
    fn from(error: TmuxError) -> Self {
        let is_missing = error.is_missing();
        let has_no_server = matches!(error, TmuxError::NoServer { .. });
        let mut error = error.of_launch();
        if is_missing {
            error.kind = ErrorKind::Missing;
            let starts = "`tmux-task run NAME -- COMMAND` starts one";
            error.hint = has_no_server.then(|| starts.to_owned());
        }
        error
    }
}

impl TmuxError {
    /// Returns an answer; `None` if its session or its whole server is missing.
    pub(super) fn if_there<T>(answer: Result<T, Self>) -> Result<Option<T>, Self> {
        match answer {
            Err(error) if error.is_missing() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Whether the error only means that the session or its whole server is missing.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::NoServer { .. } | Self::NoSuchSession { .. })
    }

    /// Whether the error only means that the target of a command, its session or its server is missing.
    pub(super) fn is_target_missing(&self) -> bool {
        let is_unknown =
            |reply: &str| reply.starts_with("can't find") || reply.starts_with("no such");
        self.is_missing() || matches!(self, Self::Rejected { reply, .. } if is_unknown(reply))
    }

    /// Returns the error of a launch. What is missing is no reason to start a task first.
    pub(crate) fn of_launch(self) -> Error {
        if let Self::Refused(error) = self {
            return error;
        }
        Error::of(self)
    }

    /// Returns the error for an answer that does not fit the question.
    pub(super) fn confused(detail: impl Into<String>) -> Self {
        Self::Confused(detail.into())
    }

    /// Parses tmux's reply when it refuses a command.
    pub(super) fn from_reply(command: &str, reply: &str) -> Self {
        let reply = crate::model::text::one_line(reply.as_bytes(), 300);
        // The last one is the reply of a server without any session.
        let signs = ["can't find session", "no sessions", "no current target"];
        if signs.iter().any(|sign| reply.starts_with(sign)) {
            return Self::NoSuchSession(reply);
        }
        Self::Rejected {
            command: command.to_owned(),
            reply,
        }
    }

    /// Whether this text, from stderr or as the reason of an exit, means that there is no server: the
    /// kernel has said so to a client that wanted to connect, or the server itself has said that it
    /// ends. A client that failed to connect for another reason, such as too many open files, does not
    /// know, nor does one that has lost its connection.
    pub(super) fn means_no_server(text: &str) -> bool {
        let could_not_connect = text.contains("error connecting to")
            && ["No such file", "Not a directory", "Connection refused"]
                .iter()
                .any(|reason| text.contains(reason));
        could_not_connect
            || text.contains("no server running on")
            || (text.contains("server exited") && !Self::means_lost(text))
    }

    /// Whether this text of a client means that it has lost its connection, which says nothing about
    /// the server.
    pub(super) fn means_lost(text: &str) -> bool {
        text.contains("server exited unexpectedly") || text.contains("lost server")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_without_a_listener_means_that_there_is_no_server() {
        for said in [
            "no server running on /tmp/tmux-0/default\n",
            "error connecting to /tmp/s (No such file or directory)",
            "error connecting to /tmp/s (Connection refused)",
            "[server exited]",
        ] {
            assert!(TmuxError::means_no_server(said), "{said}");
        }
        for said in [
            "server exited unexpectedly\n",
            "lost server\n",
            "error connecting to /tmp/s (Too many open files)",
            "error connecting to /tmp/s (Permission denied)",
            "error connecting to /tmp/s (Resource temporarily unavailable)",
        ] {
            assert!(!TmuxError::means_no_server(said), "{said}");
        }
    }
}
