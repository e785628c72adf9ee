// SPDX-License-Identifier: GPL-2.0-only
//! `outboard mount`: a file system of an image as one of the host, through FUSE.
//!
//! Three processes take part. The *command* that the user typed waits until the file system can be
//! used and ends. The *keeper* mounts, and later ends the mount when it is asked to by a signal:
//! for this it needs what the third must not have. The *server* is a fresh process with nothing but
//! the image and the mount's end of the FUSE device; it runs the kernel that answers the requests.
//! It starts before the keeper mounts, since what it opens may be below the directory. If that
//! kernel crashes, the host's closes the mount: accesses fail, none hangs. With `-f` the command is
//! the keeper itself.

mod ending;
mod keeper;
mod options;
mod plan;
mod protocol;
mod remount;
mod serve;
pub mod umount;

use outboard_error::Result;
use outboard_volume::session::Session;
use plan::Plan;
pub use plan::{MountArgs, MountRole};

pub fn run(mount: &MountArgs, session: &mut Session) -> Result<()> {
    let mut plan = Plan::new(mount, session.options())?;
    match mount.role {
        MountRole::Server => return serve::run(&plan, session),
        MountRole::Keeper => return keeper::run(&plan, true),
        MountRole::Command if plan.options.remount => return remount::run(&plan, &mount.options),
        MountRole::Command => {}
    }
    plan.check(session)?;
    ending::wait(&plan.image.file, !plan.options.read_only);
    let done = if mount.foreground {
        keeper::run(&plan, false)
    } else {
        keeper::start(&plan)
    };
    // The server has read the key by now. A keeper that restarts the server passes the key again.
    if let Some(key) = plan
        .key
        .as_mut()
        .filter(|_| mount.foreground || !plan.restart)
    {
        key.wipe();
    }
    done
}
