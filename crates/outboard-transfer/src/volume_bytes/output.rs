// SPDX-License-Identifier: GPL-2.0-only
//! The destination of a volume's bytes.

use super::end::{both, shown, Device};
use outboard::Fd;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::destination::Overwrite;
use outboard_volume::session::Session;
use outboard_volume::stream_output::StreamOutput;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Zeros that a file need not store.
const FILE_GRAIN: usize = 4 << 10;
/// Zeros for which a discard is worth its time.
const DEVICE_GRAIN: usize = 64 << 10;
static ZEROS: [u8; DEVICE_GRAIN] = [0; DEVICE_GRAIN];

enum Kind {
    /// Takes every byte in order.
    Stream(StreamOutput),
    /// An empty file: what is not written is zero.
    Empty,
    /// A block device: what is not written stays.
    Device,
}

impl Kind {
    fn stream(file: &Fd, interrupt: &Interrupt) -> io::Result<Self> {
        StreamOutput::new(file.duplicate()?, interrupt).map(Self::Stream)
    }
}

/// An open target.
pub struct BytesTarget {
    shown: String,
    file: Fd,
    kind: Kind,
    /// Bytes that have room.
    limit: Option<u64>,
    position: u64,
    /// A file that this has made, and that is no good before it is complete.
    incomplete: Option<PathBuf>,
}

impl Drop for BytesTarget {
    fn drop(&mut self) {
        if let Some(path) = self.incomplete.take() {
            // The error that ended the copy is reported.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl BytesTarget {
    fn new(shown: String, file: Fd, kind: Kind, limit: Option<u64>) -> Self {
        Self {
            shown,
            file,
            kind,
            limit,
            position: 0,
            incomplete: None,
        }
    }

    /// A volume of an image.
    pub(super) fn volume(device: &Device) -> Result<Self> {
        let shown = device.shown.clone();
        let opened = device.device.open_as(true);
        let file = opened.map_err(|error| Error::of_output(&shown, &error))?;
        Ok(Self::new(shown, file, Kind::Device, Some(device.size()?)))
    }

    pub fn standard(interrupt: &Interrupt) -> Result<Self> {
        let shown = "standard output".to_owned();
        let failed = |error| Error::of_output(&shown, &error);
        let file = Fd::standard(1).map_err(failed)?;
        let kind = Kind::stream(&file, interrupt).map_err(failed)?;
        Ok(Self::new(shown, file, kind, None))
    }

    /// A file of the host, new or overwritten. `interrupt` ends a write that waits for a reader.
    pub fn file(
        session: &Session,
        path: &Path,
        force: bool,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let shown = shown(path);
        let failed = |error| Error::of_output(&shown, &error);
        let mut new = File::options();
        let mode = 0o666 & !session.umask();
        let new = new.write(true).mode(mode).create_new(true).open(path);
        let (file, incomplete) = match new {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = session
                    .used()
                    .overwrite_path(path, Overwrite::forced(force));
                (file.map_err(failed)?, None)
            }
            other => (other.map_err(failed)?, Some(path.to_owned())),
        };
        let file = Fd::from(OwnedFd::from(file));
        let kind = match file.stat().map_err(failed)?.st_mode & libc::S_IFMT {
            libc::S_IFREG => Kind::Empty,
            libc::S_IFBLK => Kind::Device,
            _ => Kind::stream(&file, interrupt).map_err(failed)?,
        };
        let limit = match kind {
            Kind::Device => Some(file.seek(0, libc::SEEK_END).map_err(failed)?),
            _ => None,
        };
        let mut output = Self::new(shown, file, kind, limit);
        output.incomplete = incomplete;
        Ok(output)
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Bytes that have room; `None`: as many as there are.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    pub fn has_room(&self, length: usize) -> bool {
        let end = self.position.saturating_add(length as u64);
        self.limit.is_none_or(|limit| end <= limit)
    }

    /// The state of the target so far.
    pub fn state(&self) -> String {
        let bytes = both(self.position);
        match (&self.kind, &self.incomplete) {
            (_, Some(_)) => format!("{} is removed", self.shown),
            (Kind::Device, None) => format!("its first {bytes} are overwritten"),
            (_, None) => format!("{bytes} are written to {}", self.shown),
        }
    }

    /// Writes what comes next. All pieces but the last are multiples of what can be discarded.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let done = match &mut self.kind {
            Kind::Stream(stream) => stream.write_all(bytes),
            Kind::Empty => self.write_runs(bytes, FILE_GRAIN),
            Kind::Device => self.write_runs(bytes, DEVICE_GRAIN),
        };
        done.map_err(|error| Error::of_output(&self.shown, &error))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn write_runs(&self, bytes: &[u8], grain: usize) -> io::Result<()> {
        let mut start = 0;
        while start < bytes.len() {
            let zero = is_zero(&bytes[start..], grain);
            let mut end = (start + grain).min(bytes.len());
            while end < bytes.len() && is_zero(&bytes[end..], grain) == zero {
                end = (end + grain).min(bytes.len());
            }
            let run = &bytes[start..end];
            let offset = self.position + start as u64;
            if zero {
                self.write_zeros(run, offset)?;
            } else {
                self.file.write_all_at(run, offset)?;
            }
            start = end;
        }
        Ok(())
    }

    fn write_zeros(&self, zeros: &[u8], offset: u64) -> io::Result<()> {
        if matches!(self.kind, Kind::Empty) {
            return Ok(());
        }
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let discarded = self.file.allocate(hole, offset, zeros.len() as u64);
        // A device refuses where it cannot discard, or where a sector would be cut.
        discarded.or_else(|_| self.file.write_all_at(zeros, offset))
    }

    /// Ends the copy. Returns how many bytes were written.
    pub fn finish(&mut self) -> Result<u64> {
        let done = match &mut self.kind {
            Kind::Stream(stream) => stream.flush(),
            Kind::Empty => self.file.truncate(self.position),
            Kind::Device => self.file.sync(),
        };
        done.and_then(|()| self.file.flush()).map_err(|error| {
            let text = format!("{}: not everything was written", self.shown);
            Error::failed(text, &error)
        })?;
        self.incomplete = None;
        Ok(self.position)
    }
}

/// Whether the first `grain` bytes, or all that there are, are zeros.
fn is_zero(bytes: &[u8], grain: usize) -> bool {
    let length = bytes.len().min(grain);
    bytes[..length] == ZEROS[..length]
}
