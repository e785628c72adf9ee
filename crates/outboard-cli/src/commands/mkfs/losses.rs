// SPDX-License-Identifier: GPL-2.0-only
//! What tools that are given the tree leave out without a word: they are said here, as our own copies say them.

use crate::commands::cp::report::{Loss, Report};
use crate::format::escaped;
use outboard::{System, Tree};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The attributes that only root sees, which no tool does in its sandbox.
const OF_ROOT: &[u8] = b"trusted.";

/// Names what the tree has of these, and of what tools do not see. What cannot be looked at the tool has told.
pub fn tell(top: &Path, kinds: &[Loss]) {
    if kinds.is_empty() && System::Host.effective_user() != 0 {
        return;
    }
    let report = Report::default();
    let _ = look(top, kinds, &report);
    report.print_losses();
}

fn look(directory: &Path, kinds: &[Loss], report: &Report) -> io::Result<()> {
    note(directory, kinds, report);
    for entry in std::fs::read_dir(directory)?.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                let _ = look(&entry.path(), kinds, report);
            }
            _ => note(&entry.path(), kinds, report),
        }
    }
    Ok(())
}

fn note(path: &Path, kinds: &[Loss], report: &Report) {
    let mut lost = Tree::host()
        .xattrs(path)
        .unwrap_or_default()
        .iter()
        .map(|name| (Loss::of_xattr(name), name.to_bytes().starts_with(OF_ROOT)))
        .filter(|(loss, of_root)| *of_root || kinds.contains(loss))
        .map(|(loss, _)| loss)
        .collect::<Vec<_>>();
    lost.sort_unstable();
    lost.dedup();
    for loss in lost {
        report.lose(loss, || escaped(path.as_os_str().as_bytes()));
    }
}
