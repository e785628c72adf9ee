// SPDX-License-Identifier: GPL-2.0-only
//! Tools that read the tree themselves leave out some attributes without a message, and change
//! times that the type cannot hold. This reports them, as our own copies do.

use super::host_tree;
use super::makers::FileSystemMaker;
use outboard_error::format::escaped;
use outboard_error::{ErrorKind, Failure, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::report::{Loss, Report};
use outboard_transfer::walk::{Entry, EntryText, Step};
use std::ffi::CStr;
use std::path::Path;

/// The attributes of a layer of an overlay that decide what is in the merged tree, behind
/// "trusted.overlay." or "user.overlay.".
const OF_LAYERS: [&[u8]; 5] = [
    b"opaque",
    b"redirect",
    b"metacopy",
    b"whiteout",
    b"whiteouts",
];

/// Reports the attributes of the tree that the tool drops, and the times and owners it changes.
/// The tool has reported files that cannot be read. `newest`: later times become this one. Returns
/// whether all is kept that is more than metadata.
pub fn tell(
    top: &Path,
    maker: &FileSystemMaker,
    newest: Option<i64>,
    interrupt: Interrupt,
) -> Result<bool> {
    let report = Report::default();
    host_tree::for_each(top, interrupt, |step| {
        if let Step::Found(entry) = step {
            note(&entry, maker, &report);
            note_time(&entry, maker, newest, &report);
            note_owner(&entry, maker, &report);
        }
        Ok(())
    })?;
    report.print_losses();
    Ok(report.failures() == 0)
}

fn note(entry: &Entry, maker: &FileSystemMaker, report: &Report) {
    let names = entry.directory.xattrs_at(entry.name).unwrap_or_default();
    let is_lost = |name: &&CStr| maker.leaves_out.contains(&Loss::of_xattr(name));
    let lost: Vec<&CStr> = names.iter().map(AsRef::as_ref).filter(is_lost).collect();
    for name in lost.iter().filter(|name| is_of_layer(name)) {
        let text = format!(
            "cannot keep {} of {}: {} has no such attributes, and without it the files of this \
             overlay change",
            escaped(name.to_bytes()),
            entry.shown(),
            maker.kind
        );
        let failure = Failure::new(ErrorKind::Unsupported, text);
        report.fail(failure.with_path(entry.path.to_vec()));
    }
    let mut kinds: Vec<Loss> = lost.into_iter().map(Loss::of_xattr).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        report.lose(kind, || entry.shown());
    }
}

fn note_time(entry: &Entry, maker: &FileSystemMaker, newest: Option<i64>, report: &Report) {
    let modified = entry.stat().map(|stat| stat.st_mtime);
    let wanted = modified.map(|time| time.min(newest.unwrap_or(i64::MAX)));
    if wanted.is_ok_and(|time| !maker.times.contains(&time)) {
        report.lose(Loss::Times, || entry.shown());
    }
}

/// Another owner is a loss. It is a failure for a file that runs with the rights of the user or
/// group that is lost.
fn note_owner(entry: &Entry, maker: &FileSystemMaker, report: &Report) {
    let [user, group] = maker.owners;
    let Ok(stat) = entry.stat() else { return };
    let lost = [stat.st_uid > user, stat.st_gid > group];
    if lost == [false; 2] {
        return;
    }
    let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let runs_as = [libc::S_ISUID, libc::S_ISGID].map(|bit| stat.st_mode & bit != 0);
    let has_rights = lost[0] && runs_as[0] || lost[1] && runs_as[1];
    if !is_file || !has_rights {
        return report.lose(Loss::Owner, || entry.shown());
    }
    let text = format!(
        "cannot keep the owner of {}, which runs with the rights of its owner: {} has users up to \
         {user} and groups up to {group}",
        entry.shown(),
        maker.kind
    );
    let failure = Failure::new(ErrorKind::Unsupported, text);
    report.fail(failure.with_path(entry.path.to_vec()));
}

/// Whether an overlay that has the file in a layer differs without this attribute.
fn is_of_layer(name: &CStr) -> bool {
    let name = name.to_bytes();
    let of_overlay = [b"trusted.overlay.".as_slice(), b"user.overlay."];
    let own = of_overlay
        .iter()
        .find_map(|start| name.strip_prefix(*start));
    own.is_some_and(|own| OF_LAYERS.contains(&own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_layers() {
        for name in [c"trusted.overlay.opaque", c"user.overlay.redirect"] {
            assert!(is_of_layer(name));
        }
        for name in [c"trusted.overlay.origin", c"user.opaque", c"trusted.opaque"] {
            assert!(!is_of_layer(name));
        }
    }
}
