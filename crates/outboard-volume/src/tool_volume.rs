// SPDX-License-Identifier: GPL-2.0-only
//! A file system on which the distribution's tools work.
//!
//! In a raw image: the image as it is, or of a partition, since tools know only whole files, and of
//! NTFS a private copy. After a tool has succeeded, its changes are written back, and only those,
//! wholly or not at all. A tool that fails or is interrupted has changed nothing in a partition. In
//! images of other formats and inside of layers: a file that our kernel serves ([`crate::export`]).

use crate::address::ImageName;
use crate::containers::{check_format_writable, format_of};
use crate::export::Export;
use crate::image::{unusable, Image};
use crate::image_file::{cannot_open, cannot_write, check_writable, open_image_file};
use crate::image_lock::ImageLock;
use crate::scratch::{PlainPath, Range, Scratch};
use crate::session::{Session, WantedDevice};
use crate::temporary;
use crate::undo;
use outboard_error::{Error, ErrorKind, Result};
use outboard_image::{probe, Class, FileSource, Probe};
use outboard_sandbox::tool::ToolFile;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A volume as a file for tools: in the image itself, in a private copy, or served by our kernel.
pub struct ToolVolume {
    pub name: ImageName,
    pub range: Range,
    pub probe: Probe,
    access: Access,
}

/// How tools get at it.
enum Access {
    /// It is in a raw image, which stays locked as long as this lives.
    Image(ImageLock),
    /// It is served until the first work on it is done.
    Export(Option<Box<Export>>),
}

/// The use of a private copy after the tool has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Keep,
    Drop,
}

/// The name of an image's format, if its bytes are not those of a disk; checks that it can be
/// written, if it will be.
pub fn find_format(session: &Session, file: &Path, write: bool) -> Result<Option<&'static str>> {
    let format = read_format(session, file, write);
    format.map_err(|error| error.about(file.as_os_str().as_bytes().to_vec()))
}

fn read_format(session: &Session, file: &Path, write: bool) -> Result<Option<&'static str>> {
    let failed = |error| cannot_open(file, &error);
    if write && undo::exists(file) {
        session.may_write(&file.display().to_string())?;
        ImageLock::take(file, true)?;
    }
    let opened = open_image_file(file).map_err(failed)?;
    let format = format_of(&opened, &session.options().image_options()).map_err(failed)?;
    if write {
        session.may_write(&file.display().to_string())?;
        check_writable(file)?;
        check_format_writable(format).map_err(|error| cannot_write(file, &error))?;
    }
    Ok(format)
}

/// Lets `work` run tools on a file with all of a disk. The image is locked; what was written is
/// then on stable storage.
pub fn on_disk<T>(
    session: &mut Session,
    file: &Path,
    write: bool,
    work: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    if find_format(session, file, write)?.is_none() {
        let lock = ImageLock::take(file, write)
            .map_err(|error| error.about(file.as_os_str().as_bytes().to_vec()))?;
        let done = work(PlainPath::new(file)?.as_ref());
        return synced(&lock, write, &file.display().to_string()).and(done);
    }
    let disk = ImageName::new(file, None);
    let export = Export::start(session, &disk, WantedDevice::Disk, write)?;
    let done = work(export.path());
    export.finish_after(done)
}

impl ToolVolume {
    /// Finds the file system that a name means.
    pub fn find(session: &mut Session, name: &ImageName, write: bool) -> Result<Self> {
        let found = Self::find_named(session, name, write);
        found.map_err(|error| error.about(name.operand()))
    }

    fn find_named(session: &mut Session, name: &ImageName, write: bool) -> Result<Self> {
        if find_format(session, &name.file, write)?.is_none() {
            let lock = ImageLock::take(&name.file, write)?;
            let image = Image::open(&name.file)?;
            if !session.is_layered(&image, name) {
                return Self::in_image(lock, &image, name);
            }
        }
        let export = Export::start(session, name, WantedDevice::FileSystem, write)?;
        let (range, probe) = match Self::look(&export) {
            Ok(found) => found,
            Err(error) => return export.finish_after(Err(error)),
        };
        Ok(Self {
            name: export.name.clone(),
            range,
            probe,
            access: Access::Export(Some(Box::new(export))),
        })
    }

    /// Looks what is in a file that our kernel serves.
    fn look(export: &Export) -> Result<(Range, Probe)> {
        let source = File::open(export.path()).and_then(FileSource::new);
        let failed = |error| Error::failed(format!("cannot read {}", export.name.shown()), &error);
        let source = source.map_err(failed)?;
        let range = Range {
            start: 0,
            size: outboard_image::Source::size(&source),
        };
        let found = probe(&source).map_err(failed)?;
        Ok((range, check(&export.name, found)?))
    }

    fn in_image(lock: ImageLock, image: &Image, name: &ImageName) -> Result<Self> {
        let mut name = name.clone();
        if name.partition.is_none() && image.partitions().is_some() {
            name.partition = image.find(&name, false)?.partition;
        }
        let range = image.range(&name)?;
        Ok(Self {
            probe: check(&name, image.probe_range(range)?)?,
            name,
            range,
            access: Access::Image(lock),
        })
    }

    /// Its name, for messages.
    pub fn shown(&self) -> String {
        self.name.shown()
    }

    /// The file that tools work on.
    pub fn path(&self) -> &Path {
        &self.name.file
    }

    /// Lets go of the image, for work on it in another way.
    pub fn release(&mut self) -> Result<()> {
        match &mut self.access {
            Access::Image(_) => Ok(()),
            Access::Export(export) => export.take().map_or(Ok(()), |export| export.finish()),
        }
    }

    /// Lets `work` run tools on a file that has the file system in its first byte; `write` says
    /// whether they may change it, as it was for [`ToolVolume::find`]. If there is a private
    /// copy `work` also says what becomes of the changes. The image is locked. Can be called once.
    pub fn work<T>(
        &mut self,
        write: bool,
        work: impl FnOnce(&ToolFile) -> Result<(Fate, T)>,
    ) -> Result<T> {
        let file = |path: &Path, in_place| ToolFile {
            path: path.to_owned(),
            in_place,
        };
        let lock = match &mut self.access {
            Access::Image(lock) => lock,
            Access::Export(export) => {
                let export = export.take().expect("one work");
                let done = work(&file(export.path(), true));
                return export.finish_after(done.map(|(_, result)| result));
            }
        };
        let (path, shown) = (&self.name.file, self.name.shown());
        // The tools of NTFS lock all of a file that they change, which our lock on it refuses them.
        let locks_itself = write && self.probe.kind.starts_with("ntfs");
        if self.name.partition.is_none() && !locks_itself {
            let plain = PlainPath::new(path)?;
            let done = work(&file(plain.as_ref(), true));
            return synced(lock, write, &shown).and(done.map(|(_, result)| result));
        }
        let scratch = Scratch::beside(&scratch_place(path)?, 0)?;
        scratch.copy_from(lock.file(), self.range)?;
        let (fate, result) = work(&file(scratch.path(), false))?;
        if write && fate == Fate::Keep {
            let replaced = scratch.replace(path, lock.file(), self.range);
            replaced.map_err(|error| Error::failed(format!("cannot write {shown}"), &error))?;
        }
        Ok(result)
    }
}

/// Writes the changes of tools in an image to stable storage.
fn synced(lock: &ImageLock, write: bool, shown: &str) -> Result<()> {
    let synced = if write { lock.file().sync() } else { Ok(()) };
    synced.map_err(|error| Error::failed(format!("{shown}: not everything was written"), &error))
}

/// Returns the probe of a file system; an error for other contents.
fn check(name: &ImageName, found: Option<Probe>) -> Result<Probe> {
    let shown = name.shown();
    let found = found.ok_or_else(|| {
        Error::known(
            ErrorKind::NotAFileSystem,
            format!("{shown}: no file system that is known"),
        )
    })?;
    if let Some(text) = unusable(&shown, &found) {
        return Err(Error::known(ErrorKind::Unsupported, text));
    }
    match found.class {
        Class::FileSystem => Ok(found),
        _ => Err(Error::known(
            ErrorKind::NotAFileSystem,
            format!("{shown} is of type {}, not a file system", found.kind),
        )),
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
    Ok(if beside {
        real
    } else {
        temporary::large_place().join("image")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_devices_are_where_large_files_are() {
        let place = scratch_place(Path::new("/dev/null")).unwrap();
        assert_eq!(place.parent(), Some(&*temporary::large_place()));
        let chosen = std::env::var_os("TMPDIR").filter(|chosen| !chosen.is_empty());
        assert!(
            chosen.is_some() || place.starts_with("/var/tmp"),
            "{place:?}"
        );
        let scratch = Scratch::temporary().unwrap();
        assert!(scratch.path().starts_with(temporary::large_place()));
    }
}
