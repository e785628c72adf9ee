// SPDX-License-Identifier: GPL-2.0-only
//! Makes a file system larger or smaller, with its partition and the image's file.
//!
//! After an interrupt at any point the file system still fits into its partition and file. Growing
//! begins with the file, then the partition, then the file system; shrinking goes the other way.

mod holder;
mod method;

use crate::megabytes::round_up;
use holder::Holder;
use method::{Goal, Method, ResizeFailure, LEAST_BTRFS};
use outboard_error::format::size as size_text;
use outboard_error::size::parse_size;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_sandbox::interrupt::without_stop;
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::image_lock::ImageLock;
use outboard_volume::session::Session;
use outboard_volume::tool_volume::{find_format, on_disk, ToolVolume};
use std::path::Path;
use std::str::FromStr;

/// The size that a file system is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeChange {
    /// So many bytes.
    To(u64),
    /// So many bytes more.
    By(u64),
    /// As few as possible.
    Least,
    /// As many as the partition or image allows.
    Most,
}

/// A size as in "4G", or a growth as in "+1G".
impl FromStr for SizeChange {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.strip_prefix('+') {
            Some(more) if more.starts_with('+') => Err(format!("\"{text}\" is not a size")),
            Some(more) => parse_size(more).map(Self::By),
            None => parse_size(text).map(Self::To),
        }
    }
}

/// A file system after a change of its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizedVolume {
    /// Its type, as in "ext4".
    pub kind: &'static str,
    /// Its bytes.
    pub size: u64,
    /// Its name for messages, with a partition that the caller left out.
    pub shown: String,
}

/// Changes the size of a file system, and of what holds it.
pub fn resize(
    session: &mut Session,
    name: &ImageName,
    wanted: SizeChange,
) -> Result<ResizedVolume> {
    let resized = resize_named(session, name, wanted);
    resized.map_err(|error| error.about(name.operand()))
}

fn resize_named(
    session: &mut Session,
    name: &ImageName,
    wanted: SizeChange,
) -> Result<ResizedVolume> {
    session.catch_interrupts();
    find_format(session, &name.file, true)?;
    // Kept to the end: nobody moves partitions between two steps.
    let _lock = ImageLock::take(&name.file, true)?;
    change(wanted, session, name)?;
    let volume = ToolVolume::find(session, name, false)?;
    Ok(ResizedVolume {
        kind: volume.probe.kind,
        size: volume.probe.size.unwrap_or(volume.range.size),
        shown: volume.shown(),
    })
}

fn change(wanted: SizeChange, session: &mut Session, name: &ImageName) -> Result<()> {
    let mut volume = ToolVolume::find(session, name, true)?;
    let method = Method::of(&volume)?;
    volume.release()?;
    let holder = Holder::of(session, &volume)?;
    let now = volume.range.size;
    let wanted = match wanted {
        SizeChange::To(size) => size,
        SizeChange::By(more) => now
            .checked_add(more)
            .ok_or_else(|| Error::Usage("this is more than any file system has".to_owned()))?,
        SizeChange::Most => holder.room(&volume),
        SizeChange::Least => {
            return shrink(session, &volume.name, method, &holder, Goal::Least);
        }
    };
    let wanted = holder.rounded(wanted);
    if method == Method::Btrfs && wanted < LEAST_BTRFS {
        return Err(Error::known(
            ErrorKind::Usage,
            format!(
                "{}: {} is too small, the least size of btrfs is {}",
                volume.shown(),
                size_text(wanted),
                size_text(LEAST_BTRFS)
            ),
        ));
    }
    if wanted < now {
        shrink(session, &volume.name, method, &holder, Goal::Bytes(wanted))
    } else {
        grow(session, &volume, method, &holder, wanted)
    }
}

fn grow(
    session: &mut Session,
    volume: &ToolVolume,
    method: Method,
    holder: &Holder,
    size: u64,
) -> Result<()> {
    if size == volume.range.size {
        let resized = method.resize(session, &volume.name, Goal::Fill);
        return resized.map_err(|failure| failure.error);
    }
    let before = size_of_image(session, volume.path())?;
    let grown = without_stop(|| holder.grow(session, volume, size))
        .map_err(ResizeFailure::from)
        .and_then(|()| method.resize(session, &volume.name, Goal::Fill));
    match grown {
        Ok(()) => Ok(()),
        Err(failure) if failure.half_changed => Err(keep_size(volume, failure.error)),
        Err(failure) => Err(undo(session, volume, method, holder, before, failure.error)),
    }
}

fn size_of_image(session: &mut Session, path: &Path) -> Result<u64> {
    on_disk(session, path, false, |disk| Ok(Image::open(disk)?.size()))
}

/// Growing was cut off: cutting the image back could take away what a journal refers to.
fn keep_size(volume: &ToolVolume, error: Error) -> Error {
    let shown = volume.shown();
    let volume = shown.clone();
    let next = Hint::ReplayJournal { volume };
    let note = format!(
        "{shown} keeps the room for the new size: its file system may use some of it already \
         (next step: {next})"
    );
    error.with_note(&note)
}

/// Growing has failed. If the file system is as it was, so is then what holds it; else, the error
/// says that it is not.
fn undo(
    session: &mut Session,
    volume: &ToolVolume,
    method: Method,
    holder: &Holder,
    whole: u64,
    error: Error,
) -> Error {
    let restored = without_stop(|| restore(session, volume, method, holder, whole));
    match (restored, error) {
        (Ok(false) | Err(_), error @ (Error::Failed(_) | Error::Known(_))) => {
            let check = Hint::RunFsck {
                volume: None,
                repair: false,
            };
            error.with_note(&format!(
                "{} has room for the new size now: its file system should be checked ({check})",
                volume.shown()
            ))
        }
        (_, error) => error,
    }
}

/// Gives image and partition the sizes that they had, unless the file system has begun to use the
/// new ones, which is then told.
fn restore(
    session: &mut Session,
    volume: &ToolVolume,
    method: Method,
    holder: &Holder,
    whole: u64,
) -> Result<bool> {
    let mut now = ToolVolume::find(session, &volume.name, true)?;
    now.release()?;
    if now.range.size == volume.range.size && size_of_image(session, volume.path())? == whole {
        return Ok(true);
    }
    let untouched = now.probe.size == volume.probe.size
        && is_room_untouched(session, volume, method, holder, whole)?;
    if untouched {
        holder.restore(session, volume, whole)?;
    }
    Ok(untouched)
}

/// Whether nothing of a file system is in the room that it was given. A kernel that has reported an
/// error and unmounted has changed nothing, and a tool's work on the copy of a partition was
/// dropped; else what the tool wrote would be seen behind the old end of the image.
fn is_room_untouched(
    session: &mut Session,
    volume: &ToolVolume,
    method: Method,
    holder: &Holder,
    whole: u64,
) -> Result<bool> {
    if matches!(method, Method::Xfs | Method::Btrfs) {
        return Ok(true);
    }
    if find_format(session, volume.path(), false)?.is_some() {
        return Ok(false);
    }
    if matches!(holder, Holder::Slot(_)) {
        return Ok(true);
    }
    let image = ImageLock::take(volume.path(), false)?;
    let data = image.file().next_data(whole);
    data.map(|found| found.is_none())
        .map_err(|error| Error::failed(format!("cannot read {}", volume.shown()), &error))
}

fn shrink(
    session: &mut Session,
    name: &ImageName,
    method: Method,
    holder: &Holder,
    goal: Goal,
) -> Result<()> {
    let resized = method.resize(session, name, goal);
    resized.map_err(|failure| failure.error)?;
    let mut now = ToolVolume::find(session, name, true)?;
    now.release()?;
    let needed = match (goal, now.probe.size) {
        (Goal::Bytes(size), Some(has)) => size.max(has),
        (Goal::Bytes(size), None) => size,
        // The copy of its boot sector is at the end of the rounded size that its tool got.
        (_, Some(has)) if matches!(method, Method::Ntfs) => round_up(has),
        (_, Some(has)) => has,
        (_, None) => now.range.size,
    };
    let size = holder.rounded(needed);
    if size < now.range.size {
        without_stop(|| holder.shrink(session, &now, size))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        assert_eq!("+1G".parse(), Ok(SizeChange::By(1 << 30)));
        assert_eq!("512M".parse(), Ok(SizeChange::To(512 << 20)));
        for bad in ["", "+", "-1G", "++1G"] {
            assert!(bad.parse::<SizeChange>().is_err(), "{bad}");
        }
    }
}
