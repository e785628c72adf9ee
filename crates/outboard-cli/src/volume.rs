// SPDX-License-Identifier: GPL-2.0-only
//! A file system on which the distribution's tools work: an image as it is, or a partition, of which tools
//! that know only whole files get a private copy. What they change in it is written back after they succeeded,
//! and only that; a tool that fails or is interrupted has changed nothing in a partition.

use crate::address::ImageName;
use crate::error::{Error, Result};
use crate::image::{check_writable, Image};
use crate::scratch::{open_locked, PlainPath, Range, Scratch};
use crate::session::Session;
use outboard_image::{Class, Probe};
use std::path::{Path, PathBuf};

pub struct Volume {
    pub name: ImageName,
    pub range: Range,
    pub probe: Probe,
    pub image: Image,
}

/// What is to become of a private copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Keep,
    Drop,
}

impl Volume {
    /// Finds the file system that a name means.
    pub fn find(session: &Session, name: &ImageName, write: bool) -> Result<Self> {
        name.check_no_volume()?;
        if write {
            session.may_write(&name.shown())?;
            check_writable(&name.file)?;
        }
        let image = Image::open(&name.file)?;
        let mut name = name.clone();
        if name.partition.is_none() && image.partitions().is_some() {
            name.partition = image.find(&name, false)?.partition;
        }
        let range = image.range(&name)?;
        let probe = image.probe_range(range).ok_or_else(|| {
            Error::Failed(format!("{}: no file system that is known", name.shown()))
        })?;
        if probe.class != Class::FileSystem {
            let text = format!(
                "{} is of type {}, not a file system",
                name.shown(),
                probe.kind
            );
            return Err(Error::Failed(text));
        }
        Ok(Self {
            name,
            range,
            probe,
            image,
        })
    }

    pub fn shown(&self) -> String {
        self.name.shown()
    }

    pub fn path(&self) -> &Path {
        &self.name.file
    }

    /// Lets `work` run tools on a file that has the file system in its first byte; `write` says whether they
    /// may change it. For a partition `work` also says what becomes of the changes. The image is locked.
    pub fn work<T>(&self, write: bool, work: impl FnOnce(&Path) -> Result<(Fate, T)>) -> Result<T> {
        let image = open_locked(self.path(), write)?;
        if self.name.partition.is_none() {
            let path = PlainPath::new(self.path())?;
            return work(path.as_ref()).map(|(_, result)| result);
        }
        let scratch = Scratch::beside(&scratch_place(self.path())?, 0)?;
        scratch.copy_from(&image, self.range)?;
        let (fate, result) = work(scratch.path())?;
        if write && fate == Fate::Keep {
            scratch.write_back(&image, self.range).map_err(|error| {
                let text = format!("{}: not everything was written", self.shown());
                Error::failed(text, &error)
            })?;
        }
        Ok(result)
    }
}

/// Beside the image if its directory can be written, else in that for temporary files.
fn scratch_place(image: &Path) -> Result<PathBuf> {
    let real = image
        .canonicalize()
        .map_err(|error| Error::failed(format!("cannot use {}", image.display()), &error))?;
    let parent = real.parent().unwrap_or(Path::new("/"));
    let beside = !parent.starts_with("/dev")
        && tempfile::Builder::new()
            .prefix(".outboard-")
            .tempfile_in(parent)
            .is_ok();
    Ok(match beside {
        true => real,
        false => std::env::temp_dir().join("image"),
    })
}
