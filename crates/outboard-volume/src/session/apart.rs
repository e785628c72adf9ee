// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's work for commands that also run other programs. Such a command stays outside of the
//! sandbox and never boots a kernel. A copy of the process, which sandboxes itself as any other
//! command does, works with the kernel.

use super::{in_session, Session};
use outboard::close_of_parent;
use outboard_error::Result;
use outboard_sandbox::apart::Apart;
use outboard_sandbox::HostAccess;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::os::fd::RawFd;

/// Runs `work` in a session of a copy of this process, which has `access` to the host and no more.
/// Its writes are on stable storage when this returns. Do not trust the result: an image may have
/// taken over the process that sent it.
pub fn apart<T: Serialize + DeserializeOwned>(
    session: &mut Session,
    access: &HostAccess,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    start_apart(session, access, work)?.finish()
}

/// As [`apart`]. The copy does not have these descriptors of the caller's functions.
pub fn apart_without<T: Serialize + DeserializeOwned>(
    session: &mut Session,
    access: &HostAccess,
    closed: &[RawFd],
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    start(session, access, closed, work)?.finish()
}

/// As [`apart`], without waiting for the end.
pub fn start_apart<T: Serialize>(
    session: &mut Session,
    access: &HostAccess,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<Apart> {
    start(session, access, &[], work)
}

fn start<T: Serialize>(
    session: &mut Session,
    access: &HostAccess,
    closed: &[RawFd],
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<Apart> {
    Apart::start(session.umask(), |interrupt| {
        closed.iter().copied().for_each(close_of_parent);
        let obedient = |session: &mut Session| {
            // Images were opened before; that may have taken a while.
            interrupt.check()?;
            work(session)
        };
        let (options, keys) = (session.options().clone(), session.take_keys());
        Session::as_part(options, access, keys, &session.used())
            .and_then(|session| in_session(session, obedient))
    })
}
