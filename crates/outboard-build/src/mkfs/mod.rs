// SPDX-License-Identifier: GPL-2.0-only
//! Makes a file system, empty or with a tree in it, in one step.
//!
//! The distribution's tool makes it in a private file beside the image; our kernel fills it, or the
//! tool is given the tree (`makers`). Only when it is complete does it become the image, or is it
//! written into the partition: work that fails or is interrupted leaves nothing behind.

mod archive;
mod check;
mod estimate;
mod ext;
mod fat;
mod fill;
mod host_tree;
mod iso;
mod losses;
mod makers;
mod making;
mod packed;
mod recipe;
mod source;
mod target;
mod volume_plan;

use check::{check_inputs, check_made};
use making::Making;
use outboard_error::{Error, ErrorKind, Result};
use outboard_transfer::cp::Copied;
use outboard_transfer::report::Report;
use outboard_volume::address::ImageName;
use outboard_volume::image_file::FILE_SECTOR;
use outboard_volume::session::Session;
use recipe::Recipe;
pub(crate) use target::not_made;
use target::{find_target, finish, lock_existing, wish};
pub use volume_plan::VolumePlan;

/// Refuses what no tool can make, without a look at the host.
pub(crate) fn check(plan: &VolumePlan) -> Result<()> {
    // The sectors of the place are not known yet.
    Recipe::new(plan, FILE_SECTOR).map(drop)
}

/// The error of work that the user or a limit may have stopped: then `state` is what is left.
pub(crate) fn unless_stopped(error: Error, state: impl FnOnce() -> String) -> Error {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::TimedOut => Error::Interrupted(state()),
        _ => error,
    }
}

/// Makes a file system at its place. `new_report`: makes the report of a copy of its contents.
pub(crate) fn make(
    plan: &VolumePlan,
    session: &mut Session,
    new_report: &dyn Fn() -> Report,
) -> Result<()> {
    make_at(plan, &plan.name, session, new_report)
}

/// Makes a file system in this image, which is to become that of the plan: messages are about the
/// plan's.
pub(crate) fn make_at(
    plan: &VolumePlan,
    place: &ImageName,
    session: &mut Session,
    new_report: &dyn Fn() -> Report,
) -> Result<()> {
    session.may_write(&plan.name.shown())?;
    check_inputs(plan, session)?;
    let interrupt = session.catch_interrupts();
    // Kept to the end: nobody moves partitions meanwhile.
    let lock = lock_existing(session, place)?;
    let (target, has) = find_target(plan, place, session)?;
    let mut making = Making::new(plan, target.sector(), new_report)?;
    let wish = wish(plan, &target, has)?;
    making.keep_source(wish, &interrupt)?;
    making.replaced = lock.as_ref().map(|lock| lock.file().raw());
    let scratch = target.scratch()?;
    let private = scratch.path().display().to_string();
    let mut make = || {
        let made = making.make(session, &scratch, wish)?;
        check_made(session, plan, making.maker(), &scratch, wish)?;
        interrupt.check()?;
        Ok(made)
    };
    let made = make().and_then(|made| {
        finish(session, scratch, &target, place)?;
        Ok(made)
    });
    let made = made.map_err(|error| {
        let error = unless_stopped(error, || target.untouched(&plan.name));
        error.naming(&private, &plan.name.operand())
    });
    match made? {
        Copied::All => Ok(()),
        // As with a copy: all the rest is there.
        _ => Err(Error::AlreadyReported),
    }
}
