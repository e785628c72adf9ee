// SPDX-License-Identifier: GPL-2.0-only
//! The files of the host that work on a place needs.

use crate::address::{ImageName, Place};
use outboard_sandbox::HostAccess;

/// The access that a place needs.
pub fn uses(place: &Place, write: bool) -> HostAccess {
    let mut access = HostAccess::default();
    match place {
        Place::Image(name, _) => access.images.push((name.file.clone(), write)),
        Place::Host(path) if write => access.writes.push(path.clone()),
        Place::Host(path) => access.reads.push(path.clone()),
    }
    access
}

/// The access that an image needs.
pub fn uses_image(name: &ImageName, write: bool) -> HostAccess {
    uses(&Place::Image(name.clone(), "/".into()), write)
}
