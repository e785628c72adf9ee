// SPDX-License-Identifier: GPL-2.0-only
//! The place of a new file system: a file, a part of a raw image, or a device inside of an image.

use super::volume_plan::{VolumePlan, Wish};
use outboard::Limits;
use outboard_error::format::size as size_text;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::destination::describe;
use outboard_volume::image::Image;
use outboard_volume::image_file::{sector_size, FILE_SECTOR};
use outboard_volume::image_lock::ImageLock;
use outboard_volume::new_image::{write_to, NewFormat};
use outboard_volume::scratch::{Range, Scratch};
use outboard_volume::session::{apart, Session, WantedDevice};
use outboard_volume::tool_volume::find_format;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The place where the file system will be.
pub(super) enum ImageTarget {
    File {
        path: PathBuf,
        replace: bool,
        format: NewFormat,
    },
    /// A part of a raw image.
    Range {
        path: PathBuf,
        range: Range,
        sector: u64,
    },
    /// A block device of our kernel: something in an image of another format, or inside of layers.
    Device {
        path: PathBuf,
        size: u64,
        sector: u64,
    },
}

/// The state that a signal leaves of a new image. `shown`: its name.
pub(crate) fn not_made(shown: &str) -> String {
    format!("interrupted: {shown} was not made, and nothing is left of it")
}

impl ImageTarget {
    fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Range { path, .. } | Self::Device { path, .. } => path,
        }
    }

    /// The state that a signal leaves: all work happens in a private file until it is complete.
    pub(super) fn untouched(&self, name: &ImageName) -> String {
        let shown = name.shown();
        match self {
            Self::File { replace: false, .. } => not_made(&shown),
            _ => format!("interrupted: {shown} was not changed"),
        }
    }

    /// Bytes of a sector.
    pub(super) fn sector(&self) -> u64 {
        match self {
            Self::File { .. } => FILE_SECTOR,
            Self::Range { sector, .. } | Self::Device { sector, .. } => *sector,
        }
    }

    /// A private file to make it in: beside the image, but not in /dev.
    pub(super) fn scratch(&self) -> Result<Scratch> {
        let path = self.path();
        let device = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
        if device {
            Scratch::temporary()
        } else {
            Scratch::beside(path, 0)
        }
    }
}

/// The size to make. `has`: that of an image which is replaced.
pub(super) fn wish(plan: &VolumePlan, target: &ImageTarget, has: Option<u64>) -> Result<Wish> {
    let shown = || plan.name.shown();
    let room = match target {
        ImageTarget::Range { range, .. } => range.size,
        ImageTarget::Device { size, .. } => *size,
        ImageTarget::File { .. } => return wish_of_file(plan, has),
    };
    match plan.size {
        _ if plan.fit => Err(Error::Usage(format!(
            "{}: it has its size, so {}",
            shown(),
            Hint::NoFit
        ))),
        Some(size) if size > room => Err(Error::known(
            ErrorKind::NoSpace,
            format!("{} has only {}", shown(), size_text(room)),
        )),
        size => Ok(Wish::Exactly(size.unwrap_or(room))),
    }
}

fn wish_of_file(plan: &VolumePlan, has: Option<u64>) -> Result<Wish> {
    match (plan.size, has) {
        (Some(size), _) => Ok(Wish::Exactly(size)),
        (None, Some(size)) if !plan.fit && plan.from.is_none() => Ok(Wish::Exactly(size)),
        (None, _) if plan.from.is_some() => Ok(Wish::Fit),
        _ => Err(Error::Usage(format!(
            "say how large the image is to be{}",
            Hint::NewSize
        ))),
    }
}

/// Locks an image that exists.
pub(super) fn lock_existing(session: &Session, name: &ImageName) -> Result<Option<ImageLock>> {
    if !name.file.exists() {
        return Ok(None);
    }
    find_format(session, &name.file, true)?;
    ImageLock::take(&name.file, true).map(Some)
}

/// The kind of image to make, and the size of an existing one.
pub(super) fn find_target(
    plan: &VolumePlan,
    name: &ImageName,
    session: &mut Session,
) -> Result<(ImageTarget, Option<u64>)> {
    let shown = name.shown();
    let path = name.file.clone();
    let found = match path.symlink_metadata() {
        Err(_) if name.partition.is_none() && name.volume.is_none() => {
            let target = ImageTarget::File {
                format: NewFormat::of(&path, session.options()),
                path,
                replace: false,
            };
            return Ok((target, None));
        }
        _ => std::fs::metadata(&path)
            .map_err(|error| Error::failed(format!("cannot use {shown}"), &error))?,
    };
    let format = find_format(session, &path, true)?;
    let image = match format {
        None => Some(Image::open(&path)).transpose(),
        Some(_) => Ok(None),
    };
    let inside = |image: &Image| session.is_inside_layers(image, name);
    let is_inside = matches!(&image, Ok(Some(image)) if inside(image));
    if name.partition.is_none() && name.volume.is_none() && found.is_file() && !is_inside {
        return replaced(plan, name, session, format, found.size());
    }
    let (target, size, old) = match image? {
        Some(image) if !is_inside => {
            let range = image.range(name)?;
            let old = describe(&image.slice(range));
            let old = old.map_err(|error| Error::failed(format!("cannot read {shown}"), &error))?;
            let own = sector_size(&path)?;
            let sector = own.max(counted_sector(&image, name));
            let target = ImageTarget::Range {
                path,
                range,
                sector,
            };
            (target, range.size, old)
        }
        _ => {
            let (size, sector, old) = look(session, name)?;
            (ImageTarget::Device { path, size, sector }, size, old)
        }
    };
    match old {
        Some(old) if !plan.force => Err(exists(
            &shown,
            &format!("there is something of type {old} already"),
        )),
        _ => Ok((target, Some(size))),
    }
}

/// Bytes of a sector of the disk that a partition table was made for; 0 for what is in no
/// partition. A layer in a partition has no smaller sectors on such a disk.
fn counted_sector(image: &Image, name: &ImageName) -> u64 {
    let is_inside = name.partition.is_some() || name.volume.is_some();
    let table = image.table.as_ref().filter(|_| is_inside);
    table.map_or(0, |table| table.sector_size)
}

fn exists(shown: &str, what: &str) -> Error {
    Error::hinted(ErrorKind::AlreadyExists, Hint::Replace, |advice| {
        format!("{shown}: {what}{advice}")
    })
}

/// A whole file that is there already, of which a new one takes the place. It keeps the format.
fn replaced(
    plan: &VolumePlan,
    name: &ImageName,
    session: &mut Session,
    format: Option<&str>,
    length: u64,
) -> Result<(ImageTarget, Option<u64>)> {
    let shown = name.shown();
    if !plan.force {
        return Err(exists(&shown, "the file exists already"));
    }
    // The file itself is replaced, not a link to it.
    let path = name.file.canonicalize();
    let path = path.map_err(|error| Error::failed(format!("cannot use {shown}"), &error))?;
    let (format, size) = match format {
        None => (NewFormat::Raw, length),
        Some(_) => (NewFormat::named(format), look(session, name)?.0),
    };
    let target = ImageTarget::File {
        path,
        replace: true,
        format,
    };
    Ok((target, (size > 0).then_some(size)))
}

/// The size of what a name means, that of its sectors, and what is on it.
fn look(session: &mut Session, name: &ImageName) -> Result<(u64, u64, Option<String>)> {
    apart(session, &uses_image(name, false), |session| {
        let failed = |error| Error::of_file("cannot use", name.operand(), &error);
        let (device, _) = session.block_device(name, WantedDevice::Itself, false)?;
        let old = device.source().and_then(|source| describe(&source));
        let old = old.map_err(failed)?;
        let size = device.size().map_err(failed)?;
        let own = device.sector_size().map_err(failed)?;
        let sector = own.max(counted_sector(&session.image(&name.file)?, name));
        Ok((size, sector, old))
    })
}

/// Puts the complete file system where it belongs.
pub(super) fn finish(
    session: &mut Session,
    scratch: Scratch,
    target: &ImageTarget,
    name: &ImageName,
) -> Result<()> {
    match target {
        ImageTarget::File {
            path,
            replace,
            format,
        } => format.keep(session, scratch, path, *replace),
        ImageTarget::Range { path, range, .. } => {
            let image = ImageLock::take(path, true)?;
            scratch.write_back(image.file(), *range).map_err(|error| {
                let text = format!("{}: not everything was written", name.shown());
                Error::failed(text, &error)
            })
        }
        // A cancel would leave a half-written file system in the place of the old one.
        ImageTarget::Device { path, .. } => {
            Limits::none().run(|| write_to(session, &scratch, name, path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(size: Option<u64>, fit: bool, from: bool) -> VolumePlan {
        VolumePlan {
            size,
            fit,
            from: from.then(|| "tree".into()),
            ..VolumePlan::new("a.img@1", "ext4")
        }
    }

    #[test]
    fn a_volume_has_its_size() {
        let target = ImageTarget::Device {
            path: "a.img".into(),
            size: 1000,
            sector: 512,
        };
        let wish = |size, fit| wish(&plan(size, fit, true), &target, Some(1000));
        assert_eq!(wish(None, false), Ok(Wish::Exactly(1000)));
        assert_eq!(wish(Some(999), false), Ok(Wish::Exactly(999)));
        let larger = wish(Some(1001), false).unwrap_err();
        assert_eq!(larger.kind(), ErrorKind::NoSpace);
        assert_eq!(wish(None, true).unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn a_file_gets_a_size() {
        let target = ImageTarget::File {
            path: "a.img".into(),
            replace: true,
            format: NewFormat::Raw,
        };
        let wish = |size, fit, from, has| wish(&plan(size, fit, from), &target, has);
        assert_eq!(wish(Some(5), false, true, Some(9)), Ok(Wish::Exactly(5)));
        assert_eq!(wish(None, false, false, Some(9)), Ok(Wish::Exactly(9)));
        assert_eq!(wish(None, false, true, Some(9)), Ok(Wish::Fit));
        assert_eq!(wish(None, true, true, None), Ok(Wish::Fit));
        assert!(wish(None, false, false, None).is_err());
    }
}
