// SPDX-License-Identifier: GPL-2.0-only
//! The network of a kernel, in one of its network namespaces.

use crate::net::socket::Socket;
use crate::readiness::{EventSource, Ready, Watch};
use crate::{Fd, Kernel, System};
use outboard_sys::libc;
use std::ffi::CStr;
use std::io;
use std::sync::Arc;

/// The network namespace of the calling thread. (/proc/self is the first thread.)
const OWN_NAMESPACE: &CStr = c"/proc/thread-self/ns/net";

/// The network of a kernel, in one network namespace. A clone is the same.
#[derive(Clone)]
pub struct Net {
    kernel: Kernel,
    /// `None`: the namespace that the calling thread is in, which is mostly the kernel's first.
    namespace: Option<Arc<Fd>>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Net")
            .field("system", self.system())
            .field("namespace", &self.namespace)
            .finish()
    }
}

/// Moves the thread back into its namespace.
struct Entered {
    old: Fd,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // It needs a few bytes of the kernel's memory. Nobody is there to learn of an error.
        let _ = self.old.enter_namespace(libc::CLONE_NEWNET);
    }
}

fn own_namespace(system: &System) -> io::Result<Fd> {
    Fd::working_directory(system).open_at(OWN_NAMESPACE, libc::O_RDONLY, 0)
}

impl Kernel {
    /// The network of this kernel.
    pub fn net(&self) -> Net {
        Net {
            kernel: self.clone(),
            namespace: None,
        }
    }
}

impl Net {
    pub(crate) fn system(&self) -> &System {
        self.kernel.system()
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Makes a network namespace: a network of its own with nothing but an interface `lo`, which
    /// is down. It ends with the last `Net` and socket of it.
    pub fn new_namespace(&self) -> io::Result<Net> {
        let _back = Entered {
            old: own_namespace(self.system())?,
        };
        self.system().unshare(libc::CLONE_NEWNET)?;
        Ok(Net {
            kernel: self.kernel.clone(),
            namespace: Some(Arc::new(own_namespace(self.system())?)),
        })
    }

    /// The file of this namespace, as in /proc/PID/ns.
    pub(super) fn namespace(&self) -> io::Result<Arc<Fd>> {
        match &self.namespace {
            Some(namespace) => Ok(Arc::clone(namespace)),
            None => own_namespace(self.system()).map(Arc::new),
        }
    }

    /// Runs a function while the calling thread is in this network namespace. Sockets stay in the
    /// namespace that they were made in.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let Some(namespace) = &self.namespace else {
            return Ok(work());
        };
        let _back = Entered {
            old: own_namespace(self.system())?,
        };
        namespace.enter_namespace(libc::CLONE_NEWNET)?;
        Ok(work())
    }

    /// A socket of this namespace.
    pub(crate) fn socket(&self, family: i32, kind: i32, protocol: i32) -> io::Result<Socket> {
        self.run(|| Socket::new(self.system(), family, kind, protocol))?
    }

    /// Calls a function when the socket becomes ready, from a thread that all sockets of the kernel
    /// share.
    ///
    /// The function runs at each change to ready, and once after this call if the socket is ready
    /// now. So a caller that makes a nonblocking call, gets `WouldBlock`, and then waits for the
    /// function misses nothing. The function must not block. It may run without a change, and a
    /// last time after the watch was dropped. After the kernel's halt it runs once with
    /// [`Ready::is_closed`].
    ///
    /// The watch keeps the socket open.
    pub fn watch(
        &self,
        source: &impl EventSource,
        function: impl Fn(Ready) + Send + Sync + 'static,
    ) -> io::Result<Watch> {
        let bridge = self.kernel.shared.bridge.get(self.system())?;
        bridge.watch(source.descriptor(), Arc::new(function))
    }
}
