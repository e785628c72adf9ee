// SPDX-License-Identifier: GPL-2.0-only
//! `outboard resize`: makes a file system larger or smaller, with its partition and the image's
//! file.
//!
//! After an interrupt at any point the file system still fits into its partition and file. Growing
//! begins with the file, then the partition, then the file system; shrinking goes the other way.

use crate::commands::arguments::parse_size;
use crate::commands::uses_image;
use crate::output::{Output, Print};
use crate::record::Bytes;
use crate::sfdisk;
use clap::Args;
use outboard::{Fd, Mount};
use outboard_image::partition::{Partition, Table, TableKind};
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::failure::ErrorKind;
use outboard_sandbox::format::size as size_text;
use outboard_sandbox::interrupt::without_stop;
use outboard_sandbox::tool::{Tool, ToolFile};
use outboard_volume::address::ImageName;
use outboard_volume::image::Image;
use outboard_volume::image_lock::ImageLock;
use outboard_volume::options::Options;
use outboard_volume::session::{apart, Session};
use outboard_volume::tool_volume::{find_format, on_disk, Fate, ToolVolume};
use serde::Serialize;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::str::FromStr;

const MEGABYTE: u64 = 1 << 20;
/// The kernel makes no btrfs smaller, nor gives a smaller one another size that is less.
const LEAST_BTRFS: u64 = 256 << 20;

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
    /// The new size as in 4G, or by how much it grows as in +1G
    #[arg(required_unless_present_any = ["min", "max"])]
    pub size: Option<SizeChange>,
    /// As small as can be (ext2, ext3, ext4, ntfs)
    #[arg(long, conflicts_with_all = ["size", "max"])]
    pub min: bool,
    /// As large as the image is
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

/// How a type is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Ext,
    Ntfs,
    F2fs,
    Xfs,
    Btrfs,
}

/// Why a file system was not resized.
struct ResizeFailure {
    error: Error,
    /// A kernel was changing it and did not end in order: its journal may have some of the growth.
    half_changed: bool,
}

impl From<Error> for ResizeFailure {
    fn from(error: Error) -> Self {
        Self {
            error,
            half_changed: false,
        }
    }
}

type Resized = std::result::Result<(), ResizeFailure>;

/// To what size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The size of the file or partition.
    Fill,
    Bytes(u64),
    Least,
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
    match wanted < now {
        true => shrink(session, &volume.name, method, &holder, Goal::Bytes(wanted)),
        false => grow(session, &volume, method, &holder, wanted),
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

/// The place of a file system.
enum Holder {
    /// All of the image.
    Image,
    Slot(Slot),
    /// Something inside of the image that has the size that it has.
    Layer,
}

/// A partition, and what is around it.
struct Slot {
    number: u32,
    kind: TableKind,
    start: u64,
    /// Where the next partition begins.
    next: Option<u64>,
    /// Bytes of the image.
    whole: u64,
}

fn round_up(size: u64) -> u64 {
    size.div_ceil(MEGABYTE) * MEGABYTE
}

impl Holder {
    fn of(session: &mut Session, volume: &ToolVolume) -> Result<Self> {
        on_disk(session, volume.path(), false, |disk| {
            Self::in_disk(&Image::open(disk)?, volume)
        })
    }

    fn in_disk(image: &Image, volume: &ToolVolume) -> Result<Self> {
        let name = &volume.name;
        let encrypted = image.is_layered(name);
        let number = match (name.partition, &name.volume) {
            (Some(number), None) if !encrypted => number,
            (None, None) if !encrypted => return Ok(Self::Image),
            _ => return Ok(Self::Layer),
        };
        let range = image.range(name)?;
        let Some(table) = &image.table else {
            return Ok(Self::Layer);
        };
        if table.kind == TableKind::Apple || is_logical(table, number) {
            return Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{}: logical partitions, and those of Apple's tables, cannot be resized",
                    volume.shown()
                ),
            ));
        }
        let after = |partition: &&Partition| partition.start > range.start;
        let others = table.partitions.iter().filter(after);
        Ok(Self::Slot(Slot {
            number,
            kind: table.kind,
            start: range.start,
            next: others.map(|partition| partition.start).min(),
            whole: image.size(),
        }))
    }

    /// Partitions have whole megabytes.
    fn rounded(&self, size: u64) -> u64 {
        match self {
            Self::Image | Self::Layer => size,
            Self::Slot(_) => round_up(size),
        }
    }

    /// The room without a larger image.
    fn room(&self, volume: &ToolVolume) -> u64 {
        match self {
            Self::Image | Self::Layer => volume.range.size,
            Self::Slot(slot) => slot.room().max(volume.range.size),
        }
    }

    fn grow(&self, session: &mut Session, volume: &ToolVolume, size: u64) -> Result<()> {
        match self {
            Self::Image => set_image_size(session, volume.path(), size),
            Self::Slot(slot) => slot.grow(session, volume, size),
            Self::Layer => Err(Error::known(
                ErrorKind::NoSpace,
                format!(
                    "{} has room for {} only: make its container larger first, with its own tools",
                    volume.shown(),
                    size_text(volume.range.size)
                ),
            )),
        }
    }

    /// Takes back what `grow` did. `whole`: what the size of the image was.
    fn restore(&self, session: &mut Session, volume: &ToolVolume, whole: u64) -> Result<()> {
        match self {
            Self::Image => set_image_size(session, volume.path(), whole),
            Self::Slot(slot) => slot.cut(session, volume, volume.range.size, whole),
            Self::Layer => Ok(()),
        }
    }

    fn shrink(&self, session: &mut Session, volume: &ToolVolume, size: u64) -> Result<()> {
        match self {
            Self::Image => set_image_size(session, volume.path(), size),
            Self::Slot(slot) => slot.shrink(session, volume, size),
            Self::Layer => Ok(()),
        }
    }
}

impl Slot {
    fn is_gpt(&self) -> bool {
        self.kind == TableKind::Gpt
    }

    /// The room behind the last partition: a GPT has its second copy at the end.
    fn spare(&self) -> u64 {
        match self.is_gpt() {
            true => MEGABYTE,
            false => 0,
        }
    }

    fn room(&self) -> u64 {
        let end = self.next.unwrap_or(self.whole.saturating_sub(self.spare()));
        end.saturating_sub(self.start) / MEGABYTE * MEGABYTE
    }

    fn grow(&self, session: &mut Session, volume: &ToolVolume, size: u64) -> Result<()> {
        let (path, shown) = (volume.path(), volume.shown());
        if !self.is_gpt() && self.start.saturating_add(size) > sfdisk::MBR_END {
            return Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{shown}: in an MBR no partition ends behind {}",
                    size_text(sfdisk::MBR_END)
                ),
            ));
        }
        let room = self.room().max(volume.range.size);
        if size > room {
            if self.next.is_some() {
                return Err(Error::known(
                    ErrorKind::NoSpace,
                    format!(
                        "{shown} has room for {} only: another partition follows it",
                        size_text(room)
                    ),
                ));
            }
            set_image_size(session, path, self.whole_with(size))?;
        }
        let settings = session.options().clone();
        on_disk(session, path, true, |disk| {
            if self.is_gpt() {
                sfdisk::move_copy_to_end(&settings, disk, &shown)?;
            }
            sfdisk::set_size(&settings, disk, self.number, size, &shown)
        })
    }

    fn shrink(&self, session: &mut Session, volume: &ToolVolume, size: u64) -> Result<()> {
        let whole = match self.next {
            None => self.whole_with(size),
            Some(_) => self.whole,
        };
        self.cut(session, volume, size, whole)
    }

    /// Makes the partition smaller, and, if it is the last one, the image.
    fn cut(&self, session: &mut Session, volume: &ToolVolume, size: u64, whole: u64) -> Result<()> {
        let (path, shown) = (volume.path(), volume.shown());
        let cut = self.next.is_none();
        let settings = session.options().clone();
        on_disk(session, path, true, |disk| {
            sfdisk::set_size(&settings, disk, self.number, size, &shown)?;
            match cut && self.is_gpt() {
                // The copy comes before the image is cut, and then to the new end.
                true => sfdisk::move_copy_to_partitions(&settings, disk, &shown),
                false => Ok(()),
            }
        })?;
        if !cut {
            return Ok(());
        }
        set_image_size(session, path, whole)?;
        match self.is_gpt() {
            true => on_disk(session, path, true, |disk| {
                sfdisk::move_copy_to_end(&settings, disk, &shown)
            }),
            false => Ok(()),
        }
    }

    /// The size of an image that has this partition of `size` as its last.
    fn whole_with(&self, size: u64) -> u64 {
        round_up(self.start.saturating_add(size)).saturating_add(self.spare())
    }
}

fn is_logical(table: &Table, number: u32) -> bool {
    let found = table.partitions.iter().find(|found| found.number == number);
    table.kind == TableKind::Mbr && (number > 4 || found.is_some_and(|found| found.extended))
}

fn set_image_size(session: &mut Session, file: &Path, size: u64) -> Result<()> {
    let image = ImageName::new(file, None);
    apart(session, &uses_image(&image, true), |session| {
        session.set_image_size(file, size)
    })
}

impl Method {
    fn of(volume: &ToolVolume) -> Result<Self> {
        Ok(match volume.probe.kind {
            "ext2" | "ext3" | "ext4" => Self::Ext,
            "ntfs" | "ntfs3" => Self::Ntfs,
            "f2fs" => Self::F2fs,
            "xfs" => Self::Xfs,
            "btrfs" if volume.probe.detail.is_empty() => Self::Btrfs,
            kind => {
                return Err(Error::known(
                    ErrorKind::Unsupported,
                    format!(
                        "{}: {kind} cannot be resized; make a new image, and copy: outboard cp -a \
                     {0}:/ NEW:/",
                        volume.shown()
                    ),
                ))
            }
        })
    }

    fn resize(self, session: &mut Session, name: &ImageName, goal: Goal) -> Resized {
        let mut volume = ToolVolume::find(session, name, true)?;
        let size = volume.range.size;
        let settings = session.options();
        match (self, goal) {
            (Self::Ext, _) => Ok(resize_ext(settings, &mut volume, goal)?),
            (Self::Ntfs, _) => Ok(resize_ntfs(settings, &mut volume, goal)?),
            (Self::F2fs, Goal::Fill) => {
                const TOOL: Tool = Tool::new("resize.f2fs", "f2fs-tools");
                let resized = by_tool(&mut volume, |file| {
                    TOOL.call(settings.confinement())?
                        .changes(file)
                        .argument(file)
                        .succeed("cannot resize")
                        .map(drop)
                });
                Ok(resized?)
            }
            (Self::Xfs, Goal::Fill) => by_kernel(session, volume, |root| root.grow_xfs(size)),
            (Self::Btrfs, Goal::Fill) => by_kernel(session, volume, |root| root.resize_btrfs(size)),
            (Self::Btrfs, Goal::Bytes(size)) => {
                by_kernel(session, volume, |root| root.resize_btrfs(size))
            }
            (Self::Btrfs, Goal::Least) => Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{}: say the size; how small btrfs can be is not known before",
                    volume.shown()
                ),
            )
            .into()),
            (Self::F2fs | Self::Xfs, _) => Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                "{}: {} cannot shrink; make a smaller image, and copy: outboard cp -a {0}:/ NEW:/",
                volume.shown(),
                volume.probe.kind
            ),
            )
            .into()),
        }
    }
}

fn by_tool(volume: &mut ToolVolume, work: impl FnOnce(&ToolFile) -> Result<()>) -> Result<()> {
    volume.work(true, |file| work(file).map(|()| (Fate::Keep, ())))
}

fn by_kernel(
    session: &mut Session,
    mut volume: ToolVolume,
    work: impl FnOnce(&Fd) -> io::Result<()>,
) -> Resized {
    volume.release()?;
    let resize = |session: &mut Session| {
        let index = session.mount(&volume.name, true)?;
        let mount: &Mount = session.mounted(index);
        let root = mount.open_fd(Path::new("/"), libc::O_RDONLY | libc::O_DIRECTORY, 0);
        root.and_then(|root| work(&root))
            .map_err(|error| cannot_resize(&volume, &error))
    };
    let access = uses_image(&volume.name, true);
    // A result arrives only after an unmount without errors.
    match apart(session, &access, |session| Ok(resize(session))) {
        Ok(resized) => Ok(resized?),
        Err(error) => Err(ResizeFailure {
            half_changed: !matches!(error, Error::Interrupted(_)),
            error,
        }),
    }
}

fn cannot_resize(volume: &ToolVolume, error: &io::Error) -> Error {
    let shown = volume.shown();
    match error.raw_os_error() {
        Some(libc::ENOSPC) => Error::known(
            ErrorKind::NoSpace,
            format!("{shown}: more than this is used"),
        ),
        _ => Error::failed(format!("cannot resize {shown}"), error),
    }
}

fn resize_ext(settings: &Options, volume: &mut ToolVolume, goal: Goal) -> Result<()> {
    const CHECK: Tool = Tool::new("e2fsck", "e2fsprogs");
    const TOOL: Tool = Tool::new("resize2fs", "e2fsprogs");
    let shown = volume.shown();
    by_tool(volume, |file| {
        let check = CHECK.call(settings.confinement())?.changes(file);
        let checked = check.arguments(["-f", "-p"]).argument(file).run()?;
        if !matches!(checked.code(), Some(0 | 1)) {
            return Err(checked.failure(&format!(
                "{shown} has to be repaired first (outboard fsck -y)"
            )));
        }
        let call = TOOL.call(settings.confinement())?.changes(file);
        let call = match goal {
            Goal::Least => call.argument("-M").argument(file),
            Goal::Fill => call.argument(file),
            Goal::Bytes(size) => {
                let sectors = format!("{}s", size / sfdisk::SECTOR);
                call.argument(file).argument(sectors)
            }
        };
        call.succeed(&format!("cannot resize {shown}")).map(drop)
    })
}

/// The smallest size of the volume in bytes, from the output of ntfsresize.
fn ntfs_least(output: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(output);
    let (_, after) = text.split_once("You might resize at ")?;
    after.split_whitespace().next()?.parse().ok()
}

fn resize_ntfs(settings: &Options, volume: &mut ToolVolume, goal: Goal) -> Result<()> {
    const TOOL: Tool = Tool::new("ntfsresize", "ntfs-3g");
    let what = format!("cannot resize {}", volume.shown());
    by_tool(volume, |file| {
        let call = || {
            let call = TOOL.call(settings.confinement());
            call.map(|call| call.changes(file).arguments(["-f", "-P"]))
        };
        let size = match goal {
            Goal::Fill => None,
            Goal::Bytes(size) => Some(size),
            Goal::Least => {
                let ended = call()?.argument("-i").argument(file).succeed(&what)?;
                let least = ntfs_least(&ended.output).ok_or_else(|| ended.failure(&what))?;
                Some(round_up(least))
            }
        };
        let resized = match size {
            None => call()?,
            Some(size) => call()?.arguments(["-s".to_owned(), size.to_string()]),
        };
        resized
            .argument(file)
            .input(b"y\n".to_vec())
            .succeed(&what)
            .map(drop)
    })
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

    #[test]
    fn what_ntfsresize_says() {
        let text = b"x\nYou might resize at 12345 bytes or 1 MB (freeing 2 MB).\n";
        assert_eq!(ntfs_least(text), Some(12345));
        assert_eq!(ntfs_least(b"no"), None);
    }
}
