// SPDX-License-Identifier: GPL-2.0-only
//! The walk through the directory that a file system is made from. It may be deeper than a path may
//! be long.

use outboard::HostTree;
use outboard_error::format::escaped;
use outboard_error::{report, Error, ErrorKind, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::operand::Named;
use outboard_transfer::walk::{EntryText, Step, Walk};
use outboard_volume::address::Place;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of a path with its NUL, for the host.
const LONGEST: usize = libc::PATH_MAX as usize;

/// Fails if a tool that goes by paths would not find all of the tree: some leave out silently what
/// they cannot reach.
pub fn check_paths(top: &Path, tool: &str, interrupt: Interrupt) -> Result<()> {
    for_each(top, interrupt, |step| match step {
        Step::Found(entry) if entry.path.len() >= LONGEST => Err(too_deep(top, tool)),
        _ => Ok(()),
    })
}

/// Reports the files that cannot be read: a tool that gives up because of one may not name it.
pub fn report_unreadable(top: &Path, interrupt: Interrupt) -> Result<()> {
    for_each(top, interrupt, |step| {
        match step {
            Step::Found(entry) if entry.kind == libc::S_IFREG => {
                let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
                if let Err(error) = entry.directory.open_at(entry.name, flags, 0) {
                    report(entry.failure("read", &error));
                }
            }
            Step::Failed(entry, error) => report(entry.failure("list", &error)),
            Step::Found(_) | Step::Opened(_) | Step::Left(_) => {}
        }
        Ok(())
    })
}

fn too_deep(top: &Path, tool: &str) -> Error {
    let shown = escaped(top.as_os_str().as_bytes());
    Error::known(
        ErrorKind::Unsupported,
        format!(
        "{shown}: it has paths of {LONGEST} bytes and more, which {tool} cannot follow: make a \
         type that needs no tool for its files, such as ext4"
    ),
    )
}

/// Calls `see` with each step of the walk; the top is a file too.
pub fn for_each(
    top: &Path,
    interrupt: Interrupt,
    mut see: impl FnMut(Step) -> Result<()>,
) -> Result<()> {
    let shown = top.as_os_str().as_bytes();
    let place = Place::Host(top.to_path_buf());
    let named = Named::find(HostTree.as_tree(), &place, true)
        .map_err(|error| Error::failed(format!("cannot use {}", escaped(shown)), &error))?;
    let mut walk = Walk::new(named, shown.to_vec(), interrupt.clone());
    while let Some(step) = walk.next() {
        see(step)?;
    }
    interrupt.check()
}
