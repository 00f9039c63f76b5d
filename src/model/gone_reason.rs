//! Why a task is gone.

/// Why a task is no longer in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoneReason {
    /// A user ended it with our commands.
    UserKilled,
    /// The agent that owns it ended it with our tools, or any agent if nobody owns it.
    AgentKilled,
    /// Another agent than its owner ended it with our tools.
    OtherAgentKilled,
    /// Its run lasted longer than its launch allowed.
    TimedOut,
    /// Its window was moved to another session.
    Moved,
}

impl GoneReason {
    /// The reasons of ends that we have caused, with their words.
    const ENDED: [(&str, Self); 4] = [
        ("userKilled", Self::UserKilled),
        ("agentKilled", Self::AgentKilled),
        ("otherAgentKilled", Self::OtherAgentKilled),
        ("timedOut", Self::TimedOut),
    ];

    /// Returns the word for a reason why a run is ended; `None` for one that ends nothing.
    pub fn word(self) -> Option<&'static str> {
        let mut ended = Self::ENDED.iter();
        ended.find_map(|(word, reason)| (*reason == self).then_some(*word))
    }

    /// Returns the word for it in what users read, where an agent is one of them.
    pub fn shown_word(self) -> Option<&'static str> {
        match self {
            Self::OtherAgentKilled => Self::AgentKilled.word(),
            Self::UserKilled | Self::AgentKilled | Self::TimedOut | Self::Moved => self.word(),
        }
    }

    /// Returns the reason with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        let mut ended = Self::ENDED.iter();
        ended.find_map(|(other, reason)| (*other == word).then_some(*reason))
    }

    /// Whether our commands have ended the run, and not something else.
    pub fn is_end(self) -> bool {
        self.word().is_some()
    }
}
