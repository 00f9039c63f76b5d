//! Appending, so that a crash leaves all of a write or nothing of it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::model::Record;
use crate::wire::{Context, DurableRecord};

/// Why the feed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The file cannot be opened, read or written.
    #[error("could not {what} the feed {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The feed's file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// The feed, open for appending. One daemon at a time has it, by its lock.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Where the last whole write ends, in bytes.
    end: u64,
    /// Lines that are still to be written because the disk refused them.
    unwritten: Vec<u8>,
    /// Whether part of a write may stand behind `end`, to be cut off before the next.
    torn: bool,
}

impl Journal {
    /// Opens the feed and cuts off what lies behind `end`, the torn tail of a crash.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened or cut.
    pub fn open(path: &Path, end: u64) -> Result<Self, FeedError> {
        let failed = |what| {
            let path = path.to_owned();
            move |source| FeedError::Io { what, path, source }
        };
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(failed("open"))?;
        let length = file.metadata().map_err(failed("open"))?.len();
        if length > end {
            file.set_len(end)
                .and_then(|()| file.sync_all())
                .map_err(failed("repair"))?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            end,
            unwritten: Vec::new(),
            torn: false,
        })
    }

    /// Returns where the last whole write ends, in bytes.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the feed's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes these records, and all that an earlier failure left unwritten, in one write, and
    /// waits until they are on the disk.
    ///
    /// # Errors
    ///
    /// When the disk refuses. Nothing is lost then: the records wait for the next call.
    pub fn append(&mut self, records: &[Record], context: &Context) -> Result<(), FeedError> {
        let mut more = u32::try_from(records.len()).unwrap_or(u32::MAX);
        for record in records {
            more = more.saturating_sub(1);
            let line = DurableRecord::new(record, more, context);
            serde_json::to_writer(&mut self.unwritten, &line)
                .expect("a record is plain data and a vector takes every write");
            self.unwritten.push(b'\n');
        }
        self.flush()
    }

    /// Whether an earlier failure left records unwritten.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Tries again to write what is unwritten.
    ///
    /// # Errors
    ///
    /// When the disk refuses again.
    pub fn flush(&mut self) -> Result<(), FeedError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.write() {
            // Half a line must not stay: the next write would be glued to it.
            if let Err(error) = self.cut() {
                tracing::error!(%error, "could not cut a half-written record off the feed");
            }
            return Err(FeedError::Io {
                what: "write",
                path: self.path.clone(),
                source,
            });
        }
        self.end += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.cut()?;
        self.torn = true;
        self.file.write_all(&self.unwritten)?;
        self.file.sync_data()?;
        self.torn = false;
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.end)?;
            self.torn = false;
        }
        Ok(())
    }
}
