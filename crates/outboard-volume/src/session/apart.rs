// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's work for commands that also run other programs. Such a command stays outside of the
//! sandbox and never boots a kernel. A copy of the process, which sandboxes itself as any other
//! command does, works with the kernel.
//!
//! A library has no copy: a process with several threads cannot be copied, and the library
//! sandboxes nothing. Its kernel runs in the process, as that of a volume does.

use super::ending::in_session;
use super::host_part::ProcessState;
use super::whole::Session;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_worker::{CopyOptions, Descriptors, Parent, WorkerProcess};
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
    apart_without(session, access, &[], work)
}

/// As [`apart`]. The copy does not have these descriptors of the caller's functions.
pub fn apart_without<T: Serialize + DeserializeOwned>(
    session: &mut Session,
    access: &HostAccess,
    closed: &[RawFd],
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    if session.is_in_library() {
        return in_this_process(session, access, work);
    }
    let descriptors = Descriptors::Without(closed.to_vec());
    let work = |session: &mut Session, _: &mut Parent<(), ()>| work(session);
    start(session, access, descriptors, work)?.finish()
}

/// Runs `work` in a session of a library.
fn in_this_process<T>(
    session: &mut Session,
    access: &HostAccess,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    let interrupt = session.catch_interrupts();
    in_session(session.part_of_library(access), |session| {
        interrupt.check()?;
        work(session)
    })
}

/// As [`apart`], without waiting for the end. The copy takes requests and sends replies.
pub fn start_apart<Request, Reply, T>(
    session: &mut Session,
    access: &HostAccess,
    work: impl FnOnce(&mut Session, &mut Parent<Request, Reply>) -> Result<T>,
) -> Result<WorkerProcess<Request, Reply, T>>
where
    Request: Serialize + DeserializeOwned,
    Reply: Serialize + DeserializeOwned,
    T: Serialize + DeserializeOwned,
{
    start(session, access, Descriptors::All, work)
}

fn start<Request, Reply, T>(
    session: &mut Session,
    access: &HostAccess,
    descriptors: Descriptors,
    work: impl FnOnce(&mut Session, &mut Parent<Request, Reply>) -> Result<T>,
) -> Result<WorkerProcess<Request, Reply, T>>
where
    Request: Serialize + DeserializeOwned,
    Reply: Serialize + DeserializeOwned,
    T: Serialize + DeserializeOwned,
{
    let options = CopyOptions {
        descriptors,
        ..Interrupt::of_copy(session.umask())
    };
    let copy = WorkerProcess::copy(options, |parent| {
        let obedient = |session: &mut Session| {
            // Images were opened before; that may have taken a while.
            Interrupt::poll().check()?;
            work(session, parent)
        };
        let process = ProcessState {
            umask: session.umask(),
            keys: session.take_keys(),
            ..ProcessState::default()
        };
        let options = session.options().clone();
        Session::as_part(options, access, process, &session.used())
            .and_then(|session| in_session(session, obedient))
    });
    copy.map_err(|error| Error::failed("cannot start a process for the kernel", &error))
}
