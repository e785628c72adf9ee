// SPDX-License-Identifier: GPL-2.0-only
//! Tools that read the tree themselves leave out some attributes without a message. This reports
//! them, as our own copies do.

use super::host_tree;
use outboard::System;
use outboard_sandbox::error::Result;
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::report::{Loss, Report};
use outboard_transfer::walk::{Entry, EntryText, Step};
use std::path::Path;

/// The attributes that only root sees, which no tool does in its sandbox.
const OF_ROOT: &[u8] = b"trusted.";

/// Reports the attributes of the tree that the tool drops or does not see. The tool has reported
/// files that cannot be read.
pub fn tell(top: &Path, kinds: &[Loss], interrupt: Interrupt) -> Result<()> {
    if kinds.is_empty() && System::Host.effective_user() != 0 {
        return Ok(());
    }
    let report = Report::default();
    host_tree::for_each(top, interrupt, |step| {
        if let Step::Found(entry) = step {
            note(&entry, kinds, &report);
        }
        Ok(())
    })?;
    report.print_losses();
    Ok(())
}

fn note(entry: &Entry, kinds: &[Loss], report: &Report) {
    let mut lost = entry
        .directory
        .xattrs_at(entry.name)
        .unwrap_or_default()
        .iter()
        .map(|name| (Loss::of_xattr(name), name.to_bytes().starts_with(OF_ROOT)))
        .filter(|(loss, of_root)| *of_root || kinds.contains(loss))
        .map(|(loss, _)| loss)
        .collect::<Vec<_>>();
    lost.sort_unstable();
    lost.dedup();
    for loss in lost {
        report.lose(loss, || entry.shown());
    }
}
