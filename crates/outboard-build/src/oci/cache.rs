// SPDX-License-Identifier: GPL-2.0-only
//! The file systems of images, in the user's cache directory, by the digests of the images'
//! configurations. Each file is complete: it is made under another name. All of them may be deleted
//! at any time.

use super::digest::BlobDigest;
use outboard_error::{Error, Result};
use outboard_volume::snapshots;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// Below the directory of snapshots.
const DIRECTORY: &str = "oci";
/// Of the form in which images are written: another one does not find older files.
const VERSION: &str = "1";
const ENDING: &str = ".erofs";
/// Bytes that all images may have on disk; those that were not used for the longest time go.
const MOST: u64 = 16 << 30;
/// A file that was being made for so long is left from a process that was killed.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
const NEW: &str = ".new-";

/// The directory of the file systems.
pub(super) struct ImageCache {
    /// `None`: there is no cache, and a file system is used once.
    directory: Option<PathBuf>,
}

fn failed(error: &io::Error) -> Error {
    Error::failed("cannot make a file in the cache of images", error)
}

impl ImageCache {
    pub(super) fn open() -> Self {
        let directory = snapshots::directory().map(|above| above.join(DIRECTORY));
        let usable = |path: &PathBuf| {
            let _ = DirBuilder::new().mode(0o700).create(path);
            path.is_dir()
        };
        Self {
            directory: directory.filter(usable),
        }
    }

    fn place(&self, identity: BlobDigest) -> Option<PathBuf> {
        let name = format!("{VERSION}-{}{ENDING}", identity.digits());
        self.directory.as_ref().map(|above| above.join(name))
    }

    /// The file system of an image, if it was made before.
    pub(super) fn find(&self, identity: BlobDigest) -> Option<File> {
        let path = self.place(identity)?;
        let mut options = File::options();
        let file = options.read(true).custom_flags(libc::O_NOFOLLOW).open(path);
        let file = file.ok()?;
        let metadata = file.metadata().ok()?;
        let own = fs::metadata("/proc/self").ok()?.uid();
        if !metadata.is_file() || metadata.uid() != own {
            return None;
        }
        // The file used last stays longest.
        let _ = file.set_modified(SystemTime::now());
        Some(file)
    }

    /// Makes the file system of an image by `fill`, which gets an empty file.
    pub(super) fn make(
        &self,
        identity: BlobDigest,
        fill: impl FnOnce(&File) -> Result<()>,
    ) -> Result<File> {
        let (Some(directory), Some(path)) = (&self.directory, self.place(identity)) else {
            let file = tempfile::tempfile().map_err(|error| failed(&error))?;
            fill(&file)?;
            return Ok(file);
        };
        remove_stale(directory);
        let mut builder = tempfile::Builder::new();
        let new = builder.prefix(NEW).tempfile_in(directory);
        let new: NamedTempFile = new.map_err(|error| failed(&error))?;
        fill(new.as_file())?;
        let opened = File::open(new.path()).map_err(|error| failed(&error))?;
        new.persist(&path).map_err(|error| failed(&error.error))?;
        keep_small(directory, &path);
        Ok(opened)
    }
}

/// The files of a directory whose names are so, with their metadata.
fn files(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<(PathBuf, fs::Metadata)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_wanted));
    wanted
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .filter(|(_, metadata)| metadata.is_file())
        .collect()
}

fn age(metadata: &fs::Metadata) -> Duration {
    let modified = metadata.modified().ok();
    let age = modified.and_then(|time| SystemTime::now().duration_since(time).ok());
    age.unwrap_or_default()
}

fn remove_stale(directory: &Path) {
    for (path, metadata) in files(directory, |name| name.starts_with(NEW)) {
        if age(&metadata) > STALE {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the images that were not used for the longest time, but not `kept`. A command that has
/// one open goes on using it.
fn keep_small(directory: &Path, kept: &Path) {
    let mut images = files(directory, |name| name.ends_with(ENDING));
    images.sort_by_key(|(_, metadata)| age(metadata));
    let mut used = 0;
    for (path, metadata) in images {
        used += metadata.blocks() * 512;
        if used > MOST && path != kept {
            let _ = fs::remove_file(path);
        }
    }
}
