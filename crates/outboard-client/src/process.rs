// SPDX-License-Identifier: MIT
//! fork(2) and execve(2) of a process that is one of the kernel, too.

use crate::client::Client;
use crate::connection::ServerConnection;
use crate::error::ClientError;
use crate::marshal::{CallEnd, Carrier};
use crate::session::SESSION_VARIABLE;
use crate::threads::AttachedSlot;
use outboard_protocol::client::Ticket;
use outboard_slot::layout::{EXEC, EXIT, FORK, NAME_BYTES, TICKET_BYTES};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The places of the name and the ticket in the data.
const NAME: usize = 64;
const TICKET: usize = 128;

/// The two processes after [`Client::fork`].
#[derive(Debug)]
pub enum ForkSide {
    /// The one that has called.
    Parent {
        /// The number of the new process in the kernel.
        process: i32,
        /// Its number on the host.
        host: i32,
    },
    /// The new one.
    Child {
        /// Its own client.
        client: Client,
        /// Why it has no connection: its calls fail with `ENOTCONN`.
        error: Option<ClientError>,
    },
}

impl Client {
    /// Copies this process here, and in the kernel, where the copy has the descriptors, the
    /// working directory and the rights of this process. Blocks.
    ///
    /// # Errors
    ///
    /// An error number of fork(2), of the host or of the kernel: there is no copy. `ENOTCONN`.
    ///
    /// # Safety
    ///
    /// As fork(2): in the child of a program with several threads, locks that other threads hold
    /// are never released.
    pub unsafe fn fork(&self) -> Result<ForkSide, i32> {
        let forked = self.with_slot(|slot| {
            let process = operate(slot, FORK, [TICKET as u64, 0, 0, 0, 0, 0])?;
            Ok((process, ticket(slot)))
        });
        let (process, ticket) = forked.map_err(|end| self.errno(end))?;
        // SAFETY: the caller has promised to do in the child only what it may.
        match unsafe { libc::fork() } {
            -1 => {
                let errno = last_errno();
                self.cancel(ticket);
                Err(errno)
            }
            0 => {
                let place = self.place().clone();
                let (connection, error) = match ServerConnection::open(&place, Some(ticket)) {
                    Ok(connection) => (Some(connection), None),
                    Err(error) => (None, Some(error)),
                };
                let client = Client::with(place, connection);
                Ok(ForkSide::Child { client, error })
            }
            host => {
                self.expect_copy(host, ticket);
                Ok(ForkSide::Parent { process, host })
            }
        }
    }

    /// Executes a program here, as execve(2) does. It is the same process of the kernel, if it
    /// connects as [`Client::from_environment`] does: descriptors that are not close-on-exec stay
    /// open there. `environment` are words as `NAME=VALUE`. Returns only if it fails.
    ///
    /// # Errors
    ///
    /// The error. If the host has refused the program, the process of the kernel has lost its
    /// descriptors that are close-on-exec, and its other threads.
    pub fn exec(&self, path: &CStr, words: &[&CStr], environment: &[&CStr]) -> ClientError {
        let shown = Path::new(OsStr::from_bytes(path.to_bytes())).display();
        let failed = |error| ClientError::of_io(format!("cannot execute {shown}"), &error);
        // Found out before anything is lost.
        if let Err(error) = may_execute(path) {
            return failed(error);
        }
        let ticket = match self.exec_in_kernel(path) {
            Ok(ticket) => ticket,
            Err(end) => return failed(io::Error::from_raw_os_error(self.errno(end))),
        };
        let session = self.session_word(ticket);
        let mut all: Vec<&CStr> = environment
            .iter()
            .copied()
            .filter(|word| is_other(word))
            .collect();
        all.push(&session);
        let error = execute(path, words, &all);
        self.cancel(ticket);
        failed(error)
    }

    /// Ends the process of the kernel, as exit_group(2) does, with this status for its parent.
    /// Without this, the end of the connection ends it as SIGKILL does. Later calls fail with
    /// `ENOTCONN`. Other threads may be in a call.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`: it has ended already.
    pub fn exit(&self, status: i32) -> Result<(), i32> {
        let exited = self.with_own_slot(|slot| {
            operate(slot, EXIT, [status as u64, 0, 0, 0, 0, 0])?;
            slot.connection().lose();
            Ok(())
        });
        exited.map_err(|end| match end {
            CallEnd::Refused(errno) => errno,
            CallEnd::Lost => libc::ENOTCONN,
        })
    }

    /// A child comes with this ticket.
    fn expect_copy(&self, host: libc::pid_t, ticket: Ticket) {
        // Without a connection there is nothing to wait for.
        let _ = self.with_slot(|slot| {
            slot.connection().expect_copy(host, ticket);
            Ok(())
        });
    }

    /// Nobody comes with this ticket.
    fn cancel(&self, ticket: Ticket) {
        // Without a connection there is nothing to cancel.
        let _ = self.with_slot(|slot| {
            slot.connection().cancel(ticket);
            Ok(())
        });
    }

    fn exec_in_kernel(&self, path: &CStr) -> Result<Ticket, CallEnd> {
        self.with_slot(|slot| {
            slot.write(NAME, &name_of(path));
            operate(slot, EXEC, [NAME as u64, TICKET as u64, 0, 0, 0, 0])?;
            slot.outlive_others();
            Ok(ticket(slot))
        })
    }

    fn session_word(&self, ticket: Ticket) -> CString {
        let mut word = format!("{SESSION_VARIABLE}=").into_bytes();
        word.extend(self.place().session(ticket).into_vec());
        CString::new(word).expect("a path has no zero byte")
    }
}

/// The last part of a path, as Linux names a program: at most 15 bytes and a zero.
fn name_of(path: &CStr) -> [u8; NAME_BYTES] {
    let bytes = path.to_bytes();
    let start = bytes
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |slash| slash + 1);
    let mut name = [0; NAME_BYTES];
    for (place, &byte) in name[..NAME_BYTES - 1].iter_mut().zip(&bytes[start..]) {
        *place = byte;
    }
    name
}

fn is_other(word: &CStr) -> bool {
    let rest = word.to_bytes().strip_prefix(SESSION_VARIABLE.as_bytes());
    rest.is_none_or(|rest| rest.first() != Some(&b'='))
}

/// Makes an operation of the slot. An error of it is one of the call.
fn operate(slot: &mut AttachedSlot, operation: u32, arguments: [u64; 6]) -> Result<i32, CallEnd> {
    let result = slot.operate(operation, arguments).ok_or(CallEnd::Lost)?;
    if result < 0 {
        return Err(CallEnd::Refused(-result as i32));
    }
    i32::try_from(result).map_err(|_| CallEnd::Refused(libc::EPROTO))
}

fn ticket(slot: &AttachedSlot) -> Ticket {
    let mut bytes = [0; TICKET_BYTES];
    slot.read(TICKET, &mut bytes);
    Ticket(bytes)
}

fn last_errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

fn may_execute(path: &CStr) -> io::Result<()> {
    let flags = rustix::fs::AtFlags::EACCESS;
    let access = rustix::fs::Access::EXEC_OK;
    Ok(rustix::fs::accessat(rustix::fs::CWD, path, access, flags)?)
}

/// The host's execve(2).
fn execute(path: &CStr, words: &[&CStr], environment: &[&CStr]) -> io::Error {
    let list = |texts: &[&CStr]| -> Vec<*const libc::c_char> {
        let pointers = texts.iter().map(|text| text.as_ptr());
        pointers.chain([std::ptr::null()]).collect()
    };
    let (words, environment) = (list(words), list(environment));
    // SAFETY: the lists and their texts outlive the call, and the lists end with NULL.
    unsafe { libc::execve(path.as_ptr(), words.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_the_names_that_linux_gives_them() {
        assert_eq!(name_of(c"/usr/bin/cat")[..4], *b"cat\0");
        assert_eq!(name_of(c"cat")[..4], *b"cat\0");
        assert_eq!(name_of(c"/a/a-name-with-20-bytes."), *b"a-name-with-20-\0");
    }

    #[test]
    fn an_old_session_is_left_out() {
        assert!(is_other(c"OUTBOARD_SESSIONS=1") && is_other(c"A=OUTBOARD_SESSION=1"));
        assert!(!is_other(c"OUTBOARD_SESSION=1"));
    }
}
