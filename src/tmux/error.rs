//! Why tmux did not do what it was asked.

use std::path::PathBuf;

use super::version::Version;

/// Why tmux did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum TmuxError {
    /// There is no such program, or it may not be run.
    #[error("could not start `{}`", .program.display())]
    ProgramMissing {
        /// The program.
        program: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The program is older than what we can work with.
    #[error("tmux {version} is too old, 3.2 or newer is needed")]
    TooOld {
        /// What it says of itself.
        version: Version,
    },
    /// Nothing listens on the socket, or the server went away.
    #[error("no tmux server is running on `{}`", .socket.display())]
    NoServer {
        /// The socket.
        socket: PathBuf,
    },
    /// A server that runs cannot be reached by the socket that it had.
    #[error(
        "the tmux server (pid {pid}) runs, but nothing answers on `{}`; `kill -USR1 {pid}` makes it \
         listen there again",
        .socket.display()
    )]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// The server's process.
        pid: u32,
    },
    /// The socket's path is a file of another sort, which tmux would delete to make its own.
    #[error("{} is not a tmux socket but something else", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket would be in a folder that is not there.
    #[error("there is no folder {} for the tmux server's socket", .folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The server has no such session.
    #[error("tmux has no such session ({reply})")]
    NoSuchSession {
        /// What tmux said.
        reply: String,
    },
    /// tmux refused a command.
    #[error("tmux rejected `{command}`: {reply}")]
    Rejected {
        /// The command's name.
        command: String,
        /// What tmux said.
        reply: String,
    },
    /// tmux answered something that cannot be the answer to what was asked.
    #[error("could not read tmux's answer: {detail}")]
    Confused {
        /// What is wrong with it.
        detail: String,
    },
    /// The control connection has gone.
    #[error("tmux closed the control connection")]
    Closed,
    /// tmux did not answer in time. A client that this happened to is of no more use.
    #[error("tmux did not answer within 10 seconds")]
    TimedOut,
    /// Talking to the tmux program failed.
    #[error("could not talk to tmux")]
    Io(#[source] std::io::Error),
}

impl TmuxError {
    /// Whether it only says that the session, or its whole server, is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            Self::NoServer { .. } | Self::NoSuchSession { .. } => true,
            Self::ProgramMissing { .. }
            | Self::Unreachable { .. }
            | Self::NotASocket { .. }
            | Self::NoFolder { .. }
            | Self::TooOld { .. }
            | Self::Rejected { .. }
            | Self::Confused { .. }
            | Self::Closed
            | Self::TimedOut
            | Self::Io(_) => false,
        }
    }

    /// Reads what tmux says when it refuses a command.
    pub(super) fn from_reply(command: &str, reply: &str) -> Self {
        let reply = crate::model::text::one_line(reply.as_bytes(), 300);
        // The last is what a server says that has no session at all, or none yet.
        let signs = ["can't find session", "no sessions", "no current target"];
        if signs.iter().any(|sign| reply.starts_with(sign)) {
            return Self::NoSuchSession { reply };
        }
        Self::Rejected {
            command: command.to_owned(),
            reply,
        }
    }

    /// Whether this text, from stderr or as the reason of an end, says that there is no server. A
    /// client that could not connect for another reason, such as too many open files, does not know.
    pub(super) fn tells_no_server(text: &str) -> bool {
        let could_not_connect = text.contains("error connecting to")
            && ["No such file", "Not a directory", "Connection refused"]
                .iter()
                .any(|reason| text.contains(reason));
        let signs = ["no server running on", "server exited", "lost server"];
        could_not_connect || signs.iter().any(|sign| text.contains(sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_without_a_listener_tells_that_there_is_no_server() {
        let tells = TmuxError::tells_no_server;
        assert!(tells("no server running on /tmp/tmux-0/default\n"));
        assert!(tells(
            "error connecting to /tmp/s (No such file or directory)"
        ));
        assert!(tells("error connecting to /tmp/s (Connection refused)"));
        assert!(tells("[server exited]"));
        for reason in [
            "Too many open files",
            "Permission denied",
            "Resource temporarily unavailable",
        ] {
            assert!(
                !tells(&format!("error connecting to /tmp/s ({reason})")),
                "{reason}"
            );
        }
    }
}
