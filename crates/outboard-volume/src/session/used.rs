// SPDX-License-Identifier: GPL-2.0-only
//! The files of the host that a session uses, and so must not overwrite: see
//! [`crate::destination`].

use crate::destination::{note_volume, Use, UsedFiles};
use crate::held::HeldImages;
use crate::options::Options;
use outboard_error::Result;
use outboard_sandbox::HostAccess;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Collects the files of the host that a session uses, in the order in which messages name their
/// uses. A written image must have no other use. Standard output must not be one of the files.
pub(super) fn find(
    options: &Options,
    access: &HostAccess,
    held: &HeldImages,
    others: &UsedFiles,
) -> Result<UsedFiles> {
    let mut used = UsedFiles::default();
    if access.images.is_empty() {
        return Ok(used);
    }
    if let Some(path) = &options.key_file {
        if path == Path::new("-") {
            used.add_open(io::stdin(), Use::Key);
        } else {
            used.add(path, Use::Key);
        }
    }
    for path in &options.components {
        used.add(path, Use::Component);
    }
    held.add_to(&mut used);
    for (path, write) in &access.images {
        if *write && !options.read_only {
            used.check_image(path)?;
        }
        used.add(path, Use::Image);
    }
    for path in &options.backing {
        used.add(path, Use::Backing);
    }
    used.add_all(others);
    used.check_output()?;
    Ok(used)
}

/// The files that a session of a library uses, which no transfer of the process overwrites as long
/// as the session has the result.
pub(super) fn of_library(options: &Options, held: &HeldImages) -> Arc<UsedFiles> {
    let mut used = UsedFiles::in_library();
    held.add_all_to(&mut used, Use::Volume);
    for path in options.key_file.iter().chain(&options.components) {
        used.add(path, Use::Volume);
    }
    let used = Arc::new(used);
    note_volume(&used);
    used
}
