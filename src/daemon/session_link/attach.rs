//! Finds the session, marks it as ours and attaches to it.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::control_clients::ControlClients;
use super::super::ownership::{self, Claim};
use super::{Attachment, SessionInfo, SessionLink, detached};
use crate::model::text;
use crate::process;
use crate::protocol::rows::LookRows;
use crate::session::NameOwner;
use crate::tmux::{
    self, Connection, LookKind, LookMemory, MarkedSession, SessionIndex, Target, TmuxError,
};

impl SessionLink {
    /// Finds the session with a new process, and attaches when it is time to. If that fails, looks
    /// with new processes.
    pub(super) async fn look_detached(&mut self) -> Result<Option<LookRows>, TmuxError> {
        if !self.server_listens() {
            return self.without_server().await;
        }
        let found = self.find().await?;
        let Some(index) = found else {
            // The server may have closed its socket just now.
            return match self.server_listens() {
                true => Ok(None),
                false => self.without_server().await,
            };
        };
        if !self.claim(&index).await? {
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

    /// Finds the session that we follow, or else one that has our files or is to get them.
    async fn find(&self) -> Result<Option<SessionIndex>, TmuxError> {
        let mut connection = Connection::OneShot(&self.server);
        if let Some(life) = &self.life {
            let found = tmux::list_index(&mut connection, &Target::Id(life.id)).await?;
            if let Some(index) = found.filter(|index| index.life == *life) {
                return Ok(Some(index));
            }
        }
        let sessions = ownership::list_sessions(&self.server).await?;
        let found = ownership::occupant(&sessions, self.server.socket(), &self.paths, &self.name);
        let Some(MarkedSession { life, .. }) = found else {
            return Ok(None);
        };
        let found = tmux::list_index(&mut connection, &Target::Id(life.id)).await?;
        Ok(found.filter(|index| index.life == *life))
    }

    async fn claim(&mut self, index: &SessionIndex) -> Result<bool, TmuxError> {
        let SessionIndex { life, name, .. } = index;
        if self.claimed.as_ref() == Some(life) {
            return Ok(true);
        }
        match ownership::claim(&self.server, life, &self.paths).await? {
            Claim::Ours { is_new } => {
                ownership::link_name(&self.server, &self.paths, name, is_new);
                self.claimed = Some(life.clone());
                self.name.clone_from(name);
                Ok(true)
            }
            Claim::Theirs(mark) => {
                tracing::info!(
                    folder = mark.folder,
                    pid = mark.pid,
                    "another daemon supervises the session"
                );
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
        let installed = tmux::install(&mut one_shot, id, index.panes(), pid, &identity);
        self.reports_respawns = installed.await?;
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

    /// Follows a rename: makes the session's present name lead to its files.
    pub(in crate::daemon) fn note_name(&mut self, name: &str) {
        if self.name == name {
            return;
        }
        ownership::link_name(&self.server, &self.paths, name, false);
        name.clone_into(&mut self.name);
    }

    /// Returns who has this name, which the session did not have in the last look.
    pub(in crate::daemon) async fn find_name(
        &mut self,
        name: &str,
    ) -> Result<NameOwner, TmuxError> {
        if !self.server_listens() {
            return Ok(NameOwner::Ours(self.about.name.clone()));
        }
        let sessions = tmux::list_marks(&mut self.connection()).await?;
        let shown = |session: &MarkedSession| text::one_line(session.name.as_bytes(), 4096);
        let is_ours = |session: &&MarkedSession| Some(&session.life) == self.life.as_ref();
        // The last look may be older than a rename.
        let ours = sessions.iter().find(is_ours);
        let mut others = sessions.iter().filter(|session| !is_ours(session));
        Ok(match others.any(|session| shown(session) == name) {
            true => NameOwner::Other,
            false => NameOwner::Ours(ours.map(shown)),
        })
    }

    pub(super) async fn forget_session(&mut self) {
        self.life = None;
        self.server_process = None;
        self.is_unreachable = false;
        self.claimed = None;
        self.options.clear();
        self.about = SessionInfo::default();
        if let Attachment::Attached(clients) = std::mem::replace(&mut self.attachment, detached()) {
            clients.close().await;
        }
    }
}
