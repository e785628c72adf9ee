// SPDX-License-Identifier: GPL-2.0-only
//! Ports of hubs for virtual machines.

use crate::ffi;
use crate::instance::with_reason;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::null_mut;

type LineSink = Box<dyn Fn(&str) + Send + Sync>;

/// A socket where front-ends of vhost-user, as QEMU's, get a port of a hub, one after another. It
/// is closed when this is dropped. It needs no kernel.
pub struct HubServer {
    server: *mut ffi::ob_net_server,
    log: *mut LineSink,
    is_started: bool,
}

// SAFETY: any thread may start and end a server.
unsafe impl Send for HubServer {}
// SAFETY: what takes a shared reference reads the path of the hub alone, which never changes.
unsafe impl Sync for HubServer {}

fn check(result: c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(with_reason(io::Error::from_raw_os_error(-result))),
    }
}

impl HubServer {
    /// Listens at `socket`. Front-ends that connect wait until [`HubServer::start`]. `hub`: as in
    /// "hub:/run/lab,mtu=9000". `log` gets a line about each front-end that is refused, on another
    /// thread, and must not panic. The error has the reason.
    pub fn listen(
        hub: &CStr,
        socket: &CStr,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let log: *mut LineSink = Box::into_raw(Box::new(Box::new(log)));
        let mut server = null_mut();
        // SAFETY: the strings end with NULs, and `log` lives as long as the server.
        let result = unsafe {
            ffi::ob_net_server_new(
                hub.as_ptr(),
                socket.as_ptr(),
                Some(call_log),
                log.cast(),
                &mut server,
            )
        };
        if let Err(error) = check(result) {
            // SAFETY: it is of into_raw(), and no server has it.
            drop(unsafe { Box::from_raw(log) });
            return Err(error);
        }
        Ok(Self {
            server,
            log,
            is_started: false,
        })
    }

    /// Serves front-ends, on a thread. Only once: EALREADY. `opener`: for a process in a sandbox
    /// that opens no files, one end of a pair of stream sockets. The process from which this one
    /// was copied calls [`HubServer::open_files`] with the other end.
    pub fn start(&mut self, opener: Option<BorrowedFd>) -> io::Result<()> {
        if self.is_started {
            return Err(io::Error::from_raw_os_error(libc::EALREADY));
        }
        let opener = opener.map_or(-1, |opener| opener.as_raw_fd());
        // SAFETY: the handle is good, and this is the first call for it.
        check(unsafe { ffi::ob_net_server_start(self.server, opener) })?;
        self.is_started = true;
        Ok(())
    }

    /// Opens the hub, and the memory of its ports, for a copy of this process, until that closes
    /// its end of the pair. Trusts nothing that comes from `socket`.
    pub fn open_files(&self, socket: impl AsFd) {
        // SAFETY: the handle is good, and the descriptor is open during the call.
        unsafe { ffi::ob_net_server_open_files(self.server, socket.as_fd().as_raw_fd()) };
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        // SAFETY: the handle is good. After its end, nobody calls the function.
        unsafe {
            ffi::ob_net_server_free(self.server);
            drop(Box::from_raw(self.log));
        }
    }
}

extern "C" fn call_log(context: *mut c_void, line: *const c_char) {
    // SAFETY: `context` is the server's LineSink, and the line ends with a NUL.
    let (log, line) = unsafe { (&*context.cast::<LineSink>(), CStr::from_ptr(line)) };
    log(&line.to_string_lossy());
}
