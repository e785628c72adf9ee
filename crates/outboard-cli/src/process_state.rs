// SPDX-License-Identifier: GPL-2.0-only
//! The state of this process that a session uses, but does not own: umask and terminal.

use outboard::System;
use outboard_sandbox::HostAccess;
use outboard_volume::layers::keys::Keys;
use outboard_volume::options::Options;
use outboard_volume::session::ProcessState;

/// The umask of the user.
pub fn umask() -> u32 {
    // Only a change returns it.
    let umask = System::Host.umask(0);
    System::Host.umask(umask);
    umask
}

/// Reads the umask, and opens the key file or the terminal, unless the command has no image.
pub fn process_state(options: &Options, access: &HostAccess) -> ProcessState {
    let needs_no_key = access.images.is_empty() && !access.outside;
    let keys = if needs_no_key {
        Keys::default()
    } else {
        Keys::open(options)
    };
    ProcessState {
        umask: umask(),
        keys,
        ..ProcessState::default()
    }
}
