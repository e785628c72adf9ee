// SPDX-License-Identifier: GPL-2.0-only
//! Makes a file system, empty or with a tree in it, in one step.
//!
//! The distribution's tool makes it in a private file beside the image; our kernel fills it, or the
//! tool is given the tree ([`makers`]). Only when it is complete does it become the image, or is it
//! written into the partition: work that fails or is interrupted leaves nothing behind.

mod archive;
mod check;
mod estimate;
mod ext;
mod fat;
mod host_tree;
mod iso;
mod losses;
mod makers;
mod making;
mod packed;
mod source;
mod target;

use check::{check_inputs, check_made};
use makers::FileSystemMaker;
use making::Making;
use outboard_error::{Error, Result};
use outboard_transfer::cp::{Copied, OwnerRange};
use outboard_transfer::report::Report;
use outboard_volume::address::ImageName;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::path::PathBuf;
use target::{find_target, finish, lock_existing};

/// A file system that is to be made.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// Where it is made: a new image, of the format that its name says, or a volume of an image.
    pub name: ImageName,
    /// Its type, as in "ext4".
    pub kind: String,
    /// The size in bytes; `None`: that of the place, or one that fits the contents.
    pub size: Option<u64>,
    /// Choose a size that fits the contents.
    pub fit: bool,
    /// The contents: a directory, or a tar archive. `None`: it is empty.
    pub from: Option<PathBuf>,
    /// Its label.
    pub label: Option<String>,
    /// Its UUID, or the serial number of FAT.
    pub uuid: Option<String>,
    /// The same contents make the same image, bit by bit.
    pub reproducible: bool,
    /// The owner of all files, as [`Owner`](outboard_transfer::owner::Owner) understands it.
    pub owner: Option<OsString>,
    /// Users and groups that get other numbers.
    pub owner_map: Vec<OwnerRange>,
    /// A file of SELinux labels, in the form of file_contexts.
    pub file_contexts: Option<PathBuf>,
    /// Overwrite a file or file system that exists.
    pub force: bool,
    /// Further options of the tool that makes it.
    pub options: Vec<OsString>,
}

/// The size that is asked for.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Exactly(u64),
    Fit,
}

/// Makes a file system. `new_report`: makes the report of a copy of its contents.
pub fn make(plan: &VolumePlan, session: &mut Session, new_report: fn() -> Report) -> Result<()> {
    let maker = FileSystemMaker::find(&plan.kind)?;
    let name = &plan.name;
    session.may_write(&name.shown())?;
    check_inputs(plan, session)?;
    let interrupt = session.catch_interrupts();
    // Kept to the end: nobody moves partitions meanwhile.
    let lock = lock_existing(session, name)?;
    let target = find_target(plan, session);
    let (target, has) = target.map_err(|error| error.about(name.operand()))?;
    let mut making = Making::new(plan, maker, target.sector(), new_report)?;
    let wish = making.wish(&target, has)?;
    making.keep_source(wish, &interrupt)?;
    making.replaced = lock.as_ref().map(|lock| lock.file().raw());
    let scratch = target.scratch()?;
    let private = scratch.path().display().to_string();
    let mut make = || {
        let made = making.make(session, &scratch, wish)?;
        check_made(session, plan, maker, &scratch, wish)?;
        interrupt.check()?;
        Ok(made)
    };
    let complete = make().map_err(|error| match error {
        Error::Interrupted(_) => Error::Interrupted(target.untouched(name)),
        other => other,
    });
    let made = complete.and_then(|made| {
        finish(session, scratch, &target, name)?;
        Ok(made)
    });
    match made.map_err(|error| error.naming(&private, &name.shown()))? {
        Copied::All => Ok(()),
        // As with a copy: all the rest is there.
        _ => Err(Error::AlreadyReported),
    }
}
