// SPDX-License-Identifier: GPL-2.0-only
//! An overlay that a command has made: it goes again, unless the program starts. A copy of this
//! process, from before the sandbox, removes it: the sandbox lets nobody remove files.
//!
//! | the command | the overlay |
//! |---|---|
//! | has started the program (`NewOverlay::keep`) | stays |
//! | has failed before (`NewOverlay::remove`) | is removed, unless another command uses it |
//! | was killed | stays: nobody knows whether there are changes in it |

use crate::image_file::cannot_open;
use outboard::{ignore, HostTree};
use outboard_error::{Error, Result};
use outboard_worker::{CopyOptions, Descriptors, WorkerProcess};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Signals to the group of this process's terminal: this process decides.
const NOT_FOR_REMOVER: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The copy, which takes one request: whether to remove the overlay.
type Remover = WorkerProcess<bool, ()>;

/// An overlay that has no changes of programs yet. Copies of this value are of the same one.
#[derive(Clone)]
pub struct NewOverlay(Arc<Mutex<Option<Remover>>>);

impl NewOverlay {
    /// Watches a file that this process has just made. The process must have one thread.
    pub(crate) fn watch(path: &Path) -> Result<Self> {
        let made = fs::symlink_metadata(path).map_err(|error| cannot_open(path, &error))?;
        let options = CopyOptions {
            descriptors: Descriptors::Standard,
            ..CopyOptions::default()
        };
        let remover = WorkerProcess::copy(options, |parent| {
            NOT_FOR_REMOVER.into_iter().for_each(ignore);
            if let Ok(Some(true)) = parent.receive() {
                // It is in use, or another file by now.
                let _ = remove(path, &made);
            }
            Ok(())
        });
        let failed = |error| Error::failed(format!("cannot make {}", path.display()), &error);
        let remover = remover.map_err(failed)?;
        Ok(Self(Arc::new(Mutex::new(Some(remover)))))
    }

    /// The program runs.
    pub(crate) fn keep(&self) {
        self.end(false);
    }

    /// Removes the overlay, unless it is kept. To be called when its image is closed. Blocks until
    /// then.
    pub fn remove(&self) {
        self.end(true);
    }

    /// Ends the copy by a request.
    fn end(&self, remove: bool) {
        let mut remover = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut remover) = remover.take() {
            // A copy that has ended removes nothing.
            let sent = remover.send(&remove, None);
            let _ = sent.map(|()| remover.finish());
        }
    }
}

/// Removes a file that nobody has locked, if it is the one that was made.
fn remove(path: &Path, made: &Metadata) -> io::Result<()> {
    let _lock = HostTree.open_fd(path, libc::O_RDWR, 0)?.lock(true)?;
    let found = fs::symlink_metadata(path)?;
    if (found.dev(), found.ino()) == (made.dev(), made.ino()) {
        fs::remove_file(path)?;
    }
    Ok(())
}
