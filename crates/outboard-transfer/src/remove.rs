// SPDX-License-Identifier: GPL-2.0-only
//! Removes trees.

use crate::operand::Named;
use crate::walk::{EntryText, Step, Walk};
use outboard_error::{Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;

/// Removes a file, or a directory with all that is in it. Goes on after a failure; what holds
/// something that stays is not tried.
pub fn remove_tree(top: Named, place: &Place, interrupt: &Interrupt) -> Result<()> {
    let mut walk = Walk::new(top, place.operand(), interrupt.clone());
    let mut failures = Failures::default();
    // Directories on the way that are less deep than this have to stay.
    let mut staying = 0;
    while let Some(step) = walk.next() {
        let (entry, flags) = match step {
            Step::Opened(_) => continue,
            Step::Found(entry) if entry.is_directory() => continue,
            Step::Found(entry) => (entry, 0),
            Step::Left(entry) if entry.depth < staying => {
                staying = entry.depth;
                continue;
            }
            Step::Left(entry) => (entry, libc::AT_REMOVEDIR),
            Step::Failed(entry, error) => {
                failures.tell(entry.failure("read directory", &error));
                staying = entry.depth + 1;
                continue;
            }
        };
        if let Err(error) = entry.directory.unlink_at(entry.name, flags) {
            failures.tell(entry.failure("remove", &error));
            staying = entry.depth;
        }
    }
    interrupt.check()?;
    failures.finish()
}
