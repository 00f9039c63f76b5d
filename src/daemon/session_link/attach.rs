//! Finds the session, marks it as ours and attaches to it.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::control_clients::ControlClients;
use super::super::ownership::{self, Claim};
use super::{Attachment, SessionInfo, SessionLink, detached, take_traffic};
use crate::model::{SessionLife, text};
use crate::process;
use crate::protocol::rows::LookRows;
use crate::session::{is_list_needed, owners_of_names};
use crate::tmux::{self, Connection, LookKind, LookMemory, SessionIndex, Target, TmuxError};
use crate::wire::Whereabouts;

impl SessionLink {
    /// Finds the session with a new process, and attaches when it is time to. If that fails, looks
    /// with new processes.
    pub(super) async fn look_detached(&mut self) -> Result<Option<LookRows>, TmuxError> {
        if !self.server_listens() {
            return self.without_server().await;
        }
        let found = self.find().await?;
        self.other_start_name = None;
        let Some(index) = found else {
            // The server may have closed its socket just now.
            return match self.server_listens() {
                true => Ok(None),
                false => self.without_server().await,
            };
        };
        if !self.claim(&index.life).await? {
            return Ok(None);
        }
        if let Attachment::Detached {
            attach_at,
            mut pause,
        } = self.attachment
            && attach_at <= Instant::now()
        {
            match self.attach(&index).await {
                Ok(whole) => return Ok(whole),
                Err(error) => {
                    tracing::warn!(%error, "could not attach; looking with a process each time");
                    let attach_at = Instant::now() + pause.next_pause();
                    self.attachment = Attachment::Detached { attach_at, pause };
                }
            }
        }
        let mut connection = Connection::OneShot(&self.server);
        let target = Target::Id(index.life.id);
        tmux::look(&mut connection, &target, &mut self.memory, LookKind::Slice).await
    }

    /// Finds the session that we follow, or else the one that has its name.
    async fn find(&self) -> Result<Option<SessionIndex>, TmuxError> {
        let mut connection = Connection::OneShot(&self.server);
        if let Some(life) = &self.life {
            let found = tmux::list_index(&mut connection, &Target::Id(life.id)).await?;
            if let Some(index) = found.filter(|index| index.life == *life) {
                return Ok(Some(index));
            }
        }
        let target = Target::Name(self.name.clone());
        tmux::list_index(&mut connection, &target).await
    }

    /// Marks the session as ours. Returns whether it is: a session that another daemon follows or
    /// followed, by its former name, is not, because its state is elsewhere.
    async fn claim(&mut self, life: &SessionLife) -> Result<bool, TmuxError> {
        if self.claimed.as_ref() == Some(life) {
            return Ok(true);
        }
        if self.life.as_ref() != Some(life) {
            let kept = ownership::kept_as(&self.server, &self.paths, life);
            if let Some(start_name) = kept.filter(|start_name| *start_name != self.paths.start_name)
            {
                tracing::info!(
                    start_name,
                    "the state of the session is kept under another name"
                );
                self.other_start_name = Some(start_name);
                return Ok(false);
            }
        }
        match ownership::claim(&self.server, life, &self.paths.start_name).await? {
            Claim::Ours => {
                self.claimed = Some(life.clone());
                Ok(true)
            }
            Claim::Theirs(mark) => {
                tracing::info!(
                    by = mark.name,
                    pid = mark.pid,
                    "another daemon supervises the session"
                );
                self.other_start_name = Some(mark.name);
                Ok(false)
            }
        }
    }

    /// Attaches, sets the hooks and looks: from here on nothing is missed.
    async fn attach(&mut self, index: &SessionIndex) -> Result<Option<LookRows>, TmuxError> {
        let id = index.life.id;
        // Attaching clears the bell flag of the current window: bells are counted before it, and a
        // flag that was set is kept.
        let mut one_shot = Connection::OneShot(&self.server);
        let pid = std::process::id();
        let identity = process::identity(pid).unwrap_or_default();
        tmux::install(&mut one_shot, id, index.panes(), pid, &identity).await?;
        let rang = tmux::list_index(&mut one_shot, &Target::Id(id)).await?;
        let mut clients = ControlClients::attach(&self.server, &self.paths, id).await?;
        let mut connection = Connection::Attached(&mut clients.main);
        let target = Target::Own(id);
        // Nothing was reported since what is remembered: all windows are queried.
        self.memory = LookMemory::default();
        let memory = &mut self.memory;
        let mut whole = tmux::look(&mut connection, &target, memory, LookKind::Windows).await?;
        for row in whole.iter_mut().flat_map(|whole| &mut whole.windows) {
            if rang.as_ref().is_some_and(|rang| rang.has_bell(row.window)) {
                Arc::make_mut(row).bell = true;
            }
        }
        tracing::info!(session = %id, name = index.name, "attached");
        self.connections += 1;
        self.attachment = Attachment::Attached(Box::new(clients));
        Ok(whole)
    }

    /// Returns the whereabouts of this session, for a client that only knows a name.
    pub(in crate::daemon) async fn whereabouts(&mut self) -> Whereabouts {
        let mut name = self.about.name.clone();
        let mut other_start_name = self.other_start_name.clone();
        let asked = text::one_line(self.name.as_bytes(), 4096);
        let life = self.life.clone();
        if let Some(life) = life.filter(|_| is_list_needed(&asked, name.as_deref())) {
            match tmux::list_marks(&mut self.connection()).await {
                Ok(all) => {
                    // The last look may be older than a rename.
                    let (now, other) =
                        owners_of_names(&self.name, &life, &all, |one| &one.name, |one| &one.life);
                    name = now.or(name);
                    if let Some(other) = other {
                        other_start_name =
                            Some(ownership::start_name_of(&self.server, &self.paths, other));
                    }
                }
                Err(error) => tracing::warn!(%error, "could not ask who has the name"),
            }
        }
        Whereabouts {
            name,
            elsewhere: other_start_name,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }
    }

    pub(super) async fn forget_session(&mut self) {
        self.life = None;
        self.server_process = None;
        self.is_unreachable = false;
        self.claimed = None;
        self.options.clear();
        self.about = SessionInfo::default();
        self.former_traffic += take_traffic(&mut self.attachment);
        if let Attachment::Attached(clients) = std::mem::replace(&mut self.attachment, detached()) {
            clients.close().await;
        }
    }
}
