// SPDX-License-Identifier: GPL-2.0-only
//! How each type of file system is resized: by a tool of the distribution, or by the kernel.

use crate::megabytes::round_up;
use outboard::{Fd, Limits, Mount};
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_sandbox::tool::{Tool, ToolFile};
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::options::Options;
use outboard_volume::session::{apart, Session};
use outboard_volume::tool_volume::{Fate, ToolVolume};
use std::io;
use std::path::Path;

/// The kernel makes no btrfs smaller, nor gives a smaller one another size that is less.
pub(super) const LEAST_BTRFS: u64 = 256 << 20;

/// How a type is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Ext,
    Ntfs,
    F2fs,
    Xfs,
    Btrfs,
}

/// Why a file system was not resized.
pub(super) struct ResizeFailure {
    pub(super) error: Error,
    /// A kernel was changing it and did not end in order: its journal may have some of the growth.
    pub(super) half_changed: bool,
}

impl From<Error> for ResizeFailure {
    fn from(error: Error) -> Self {
        Self {
            error,
            half_changed: false,
        }
    }
}

pub(super) type Resized = std::result::Result<(), ResizeFailure>;

/// To what size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The size of the file or partition.
    Fill,
    Bytes(u64),
    Least,
}

impl Method {
    pub(super) fn of(volume: &ToolVolume) -> Result<Self> {
        Ok(match volume.probe.kind {
            "ext2" | "ext3" | "ext4" => Self::Ext,
            "ntfs" | "ntfs3" => Self::Ntfs,
            "f2fs" => Self::F2fs,
            "xfs" => Self::Xfs,
            "btrfs" if volume.probe.detail.is_empty() => Self::Btrfs,
            kind => {
                let text = format!("{kind} cannot be resized; make a new image, and copy");
                return Err(copied_instead(volume, &text));
            }
        })
    }

    pub(super) fn resize(self, session: &mut Session, name: &ImageName, goal: Goal) -> Resized {
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
            (Self::F2fs | Self::Xfs, _) => {
                let kind = volume.probe.kind;
                let text = format!("{kind} cannot shrink; make a smaller image, and copy");
                Err(copied_instead(&volume, &text).into())
            }
        }
    }
}

/// The refusal of a change that a copy of the files makes instead.
fn copied_instead(volume: &ToolVolume, text: &str) -> Error {
    let name = volume.shown();
    let hint = Hint::CopyToNew { name };
    Error::hinted(ErrorKind::Unsupported, hint, |advice| {
        format!("{}: {text}{advice}", volume.shown())
    })
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
    // As a tool in an image, the kernel is not stopped in the middle of a change.
    let work = |root: Fd| Limits::none().run(|| work(&root));
    let resize = |session: &mut Session| {
        let index = session.mount(&volume.name, true)?;
        let mount: &Mount = session.mounted(index);
        let root = mount.open_fd(Path::new("/"), libc::O_RDONLY | libc::O_DIRECTORY, 0);
        root.and_then(work)
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
            let repair = Hint::RunFsck {
                volume: None,
                repair: true,
            };
            return Err(checked.failure(&format!("{shown} has to be repaired first ({repair})")));
        }
        let call = TOOL.call(settings.confinement())?.changes(file);
        let call = match goal {
            Goal::Least => call.argument("-M").argument(file),
            Goal::Fill => call.argument(file),
            Goal::Bytes(size) => {
                // resize2fs counts so, whatever the disk's sectors are.
                let sectors = format!("{}s", size / 512);
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
    fn what_ntfsresize_says() {
        let text = b"x\nYou might resize at 12345 bytes or 1 MB (freeing 2 MB).\n";
        assert_eq!(ntfs_least(text), Some(12345));
        assert_eq!(ntfs_least(b"no"), None);
    }
}
