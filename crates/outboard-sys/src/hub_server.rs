// SPDX-License-Identifier: GPL-2.0-only
//! Ports of hubs for virtual machines.

use crate::ffi;
use crate::instance::with_reason;
use libc::{c_char, c_void};
use std::ffi::CStr;
use std::io;
use std::ptr::null_mut;

type LineSink = Box<dyn Fn(&str) + Send + Sync>;

/// A socket where front-ends of vhost-user, as QEMU's, get a port of a hub, one after another. It
/// is closed when this is dropped. It needs no kernel.
pub struct HubServer {
    server: *mut ffi::ob_net_server,
    log: *mut LineSink,
}

// SAFETY: any thread may end a server.
unsafe impl Send for HubServer {}

impl HubServer {
    /// Listens at `socket`. `hub`: as in "hub:/run/lab,mtu=9000". `log` gets a line about each
    /// front-end that is refused, on another thread, and must not panic. The error has the reason.
    pub fn start(
        hub: &CStr,
        socket: &CStr,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let log: *mut LineSink = Box::into_raw(Box::new(Box::new(log)));
        let mut server = null_mut();
        // SAFETY: the strings end with NULs, and `log` lives as long as the server.
        let result = unsafe {
            ffi::ob_net_serve(
                hub.as_ptr(),
                socket.as_ptr(),
                Some(call_log),
                log.cast(),
                &mut server,
            )
        };
        if result < 0 {
            // SAFETY: it is of into_raw(), and no server has it.
            drop(unsafe { Box::from_raw(log) });
            return Err(with_reason(io::Error::from_raw_os_error(-result)));
        }
        Ok(Self { server, log })
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        // SAFETY: the handle is good. After its end, nobody calls the function.
        unsafe {
            ffi::ob_net_serve_end(self.server);
            drop(Box::from_raw(self.log));
        }
    }
}

extern "C" fn call_log(context: *mut c_void, line: *const c_char) {
    // SAFETY: `context` is the server's LineSink, and the line ends with a NUL.
    let (log, line) = unsafe { (&*context.cast::<LineSink>(), CStr::from_ptr(line)) };
    log(&line.to_string_lossy());
}
