// SPDX-License-Identifier: GPL-2.0-only
//! Disks that were made in a private file, on their way to where they belong: into a new image of
//! the format that its name says, or into a block device of an image.

use crate::address::ImageName;
use crate::containers::{create_qcow2, create_vhd};
use crate::image_lock::ImageLock;
use crate::options::Options;
use crate::scratch::{Range, Scratch};
use crate::session::{apart, Session, WantedDevice};
use crate::uuid;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kernel knows disks of whole sectors.
pub(crate) const SECTOR: u64 = 512;

/// The format of a new image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFormat {
    Raw,
    Qcow2,
    Vhd,
}

impl NewFormat {
    /// By the name of the file that is to be made.
    pub fn of(path: &Path, options: &Options) -> Self {
        let suffix = path.extension().filter(|_| !options.raw);
        let is = |name: &str| suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(name));
        match (is("qcow2"), is("vhd")) {
            (true, _) => Self::Qcow2,
            (_, true) => Self::Vhd,
            _ => Self::Raw,
        }
    }

    /// The format of an image that there is, of which `name` is what
    /// [`find_format`](crate::volume::find_format) returns.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            None => Self::Raw,
            Some("vhd") => Self::Vhd,
            Some(_) => Self::Qcow2,
        }
    }

    /// Makes an empty file an image with an empty disk.
    fn create(self, file: File, size: u64, path: &Path) -> io::Result<()> {
        match self {
            Self::Raw => file.set_len(size),
            Self::Qcow2 => create_qcow2(file, size),
            Self::Vhd => create_vhd(&file, size, identity(path)?),
        }
    }

    /// Makes the image `path` of a private file. Only with `replace` may there be one.
    pub fn keep(
        self,
        session: &mut Session,
        disk: Scratch,
        path: &Path,
        replace: bool,
    ) -> Result<()> {
        let umask = session.umask();
        // Nobody uses the old one when the new one takes its name.
        let _old = replace.then(|| ImageLock::take(path, true)).transpose()?;
        if self == Self::Raw {
            return disk.keep_as(path, replace, umask);
        }
        let image = Scratch::beside(path, 0)?;
        let made = File::options().read(true).write(true).open(image.path());
        let size = disk.size()?.next_multiple_of(SECTOR);
        made.and_then(|file| self.create(file, size, path))
            .map_err(|error| Error::failed(format!("cannot make {}", path.display()), &error))?;
        write_to(session, &disk, &ImageName::new(image.path(), None), path)?;
        image.keep_as(path, replace, umask)
    }
}

/// The UUID of a new image: by chance, or of its name where a build is to be reproducible.
fn identity(path: &Path) -> io::Result<[u8; 16]> {
    if std::env::var_os("SOURCE_DATE_EPOCH").is_some() {
        return Ok(uuid::hash(path.as_os_str().as_bytes()).to_be_bytes());
    }
    uuid::random()
}

/// Makes the block device that a name means what a private file has. `shown`: the image's file, for
/// messages.
pub fn write_to(
    session: &mut Session,
    disk: &Scratch,
    name: &ImageName,
    shown: &Path,
) -> Result<()> {
    let access = HostAccess {
        images: vec![(name.file.clone(), true)],
        reads: vec![disk.path().to_owned()],
        ..HostAccess::default()
    };
    apart(session, &access, |session| {
        let (device, _) = session.block_device(name, WantedDevice::Itself, true)?;
        let write = || {
            let range = Range {
                start: 0,
                size: device.size()?,
            };
            disk.write_back(&device.open_as(true)?, range)
        };
        write().map_err(|error| {
            let text = format!("{}: not everything was written", shown.display());
            Error::failed(text, &error)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_formats() {
        let options = Options::default();
        let of = |name: &str| NewFormat::of(Path::new(name), &options);
        assert_eq!(of("a.qcow2"), NewFormat::Qcow2);
        assert_eq!(of("d/a.QCOW2"), NewFormat::Qcow2);
        assert_eq!(of("a.vhd"), NewFormat::Vhd);
        for name in ["a.img", "qcow2", ".qcow2", "a.qcow2.img", "a"] {
            assert_eq!(of(name), NewFormat::Raw, "{name}");
        }
        let raw = Options {
            raw: true,
            ..Options::default()
        };
        assert_eq!(NewFormat::of(Path::new("a.qcow2"), &raw), NewFormat::Raw);
    }
}
