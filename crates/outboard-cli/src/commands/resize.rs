// SPDX-License-Identifier: GPL-2.0-only
//! `outboard resize`: makes a file system larger or smaller, with its partition and the image's
//! file.
//!
//! After an interrupt at any point the file system still fits into its partition and file. Growing
//! begins with the file, then the partition, then the file system; shrinking goes the other way.

mod holder;
mod method;

use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::Args;
use holder::{round_up, Holder};
use method::{Goal, Method, ResizeFailure, LEAST_BTRFS};
use outboard_error::format::size as size_text;
use outboard_error::size::parse_size;
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::interrupt::without_stop;
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::image_lock::ImageLock;
use outboard_volume::session::Session;
use outboard_volume::tool_volume::{find_format, on_disk, ToolVolume};
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;

/// Make a file system larger or smaller, with its partition and the image
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard resize disk.img@2 +10G\
                        \n  outboard resize disk.img 4G\
                        \n  outboard resize disk.img --min\
                        \n  outboard resize cloud.qcow2@1 +10G\
                        \n  outboard resize server.img@vg0/root --max\
                        \n\next2, ext3, ext4, btrfs and ntfs grow and shrink; xfs and f2fs grow.")]
pub struct ResizeArgs {
    /// The image, IMAGE@N for a partition, or IMAGE@NAME for a volume
    pub image: OsString,
    /// The new size, as in 4G, or the growth, as in +1G
    #[arg(required_unless_present_any = ["min", "max"])]
    pub size: Option<SizeChange>,
    /// Make the file system as small as possible (ext2, ext3, ext4, ntfs)
    #[arg(long, conflicts_with_all = ["size", "max"])]
    pub min: bool,
    /// Make the file system as large as the partition or image allows
    #[arg(long, conflicts_with = "size")]
    pub max: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeChange {
    To(u64),
    By(u64),
}

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

/// The file system as it is now.
#[derive(Serialize)]
struct Resulting {
    #[serde(flatten)]
    volume: Bytes<'static>,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
    /// For people.
    #[serde(skip)]
    shown: String,
}

impl Print for Resulting {
    fn print(&self, output: &mut Output) -> Result<()> {
        let (shown, size) = (output.text(&self.shown), self.size);
        output.line(format!("{shown}: {} ({size} bytes)", size_text(size)))
    }
}

pub fn run(options: &ResizeArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let name = ImageName::find(&options.image);
    session.catch_interrupts();
    find_format(session, &name.file, true)?;
    // Kept to the end: nobody moves partitions between two steps.
    let _lock = ImageLock::take(&name.file, true)?;
    change(options, session, &name)?;
    let volume = ToolVolume::find(session, &name, false)?;
    let resulting = Resulting {
        volume: Bytes::new("volume", name.operand()),
        kind: volume.probe.kind,
        size: volume.probe.size.unwrap_or(volume.range.size),
        shown: volume.shown(),
    };
    output.member("filesystem", &resulting)
}

fn change(options: &ResizeArgs, session: &mut Session, name: &ImageName) -> Result<()> {
    let mut volume = ToolVolume::find(session, name, true)?;
    let method = Method::of(&volume)?;
    volume.release()?;
    let holder = Holder::of(session, &volume)?;
    let now = volume.range.size;
    let wanted = match (options.size, options.max) {
        (Some(SizeChange::To(size)), _) => size,
        (Some(SizeChange::By(more)), _) => now
            .checked_add(more)
            .ok_or_else(|| Error::Usage("this is more than any file system has".to_owned()))?,
        (None, true) => holder.room(&volume),
        (None, false) => 0,
    };
    if options.min {
        return shrink(session, &volume.name, method, &holder, Goal::Least);
    }
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
    let note = format!(
        "{shown} keeps the room for the new size: its file system may use some of it already \
         (next step: outboard fsck --replay -y {shown})"
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
            error.with_note(&format!(
            "{} has room for the new size now: its file system should be checked (outboard fsck)",
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
