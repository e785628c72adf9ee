// SPDX-License-Identifier: GPL-2.0-only
//! Ports of a hub for virtual machines, which a process in the sandbox serves.
//!
//! | process | has | does |
//! |---|---|---|
//! | this one | the user's rights | makes and removes the sockets, opens files for the server |
//! | the server | the sockets, memory of front-ends and of ports | all work for the machines |
//!
//! The server cannot open the memory of ports that come later: it lies in other processes. It asks
//! this process, which opens memory of hubs and nothing else.

use crate::interrupt::Interrupt;
use crate::sandbox::{HostAccess, Sandbox};
use outboard::{HubServer, Inherited};
use outboard_error::format::escaped;
use outboard_error::{warn, Error, Result};
use outboard_worker::WorkerProcess;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::take;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, sleep, JoinHandle};
use std::time::Duration;

/// How long after a signal the server ends, at most.
const INTERVAL: Duration = Duration::from_millis(50);

/// The server makes no files.
const UMASK: u32 = 0o077;

/// How a hub is served.
#[derive(Clone, Debug, Default)]
pub struct HubOptions {
    /// The server is not sandboxed.
    pub no_sandbox: bool,
    /// Descriptors that the server does not get.
    pub inherited: Inherited,
}

/// A running server. The sockets are removed when this is dropped.
pub struct ServedHub {
    server: WorkerProcess<(), ()>,
    opener: JoinHandle<()>,
    _sockets: Arc<Vec<HubServer>>,
}

fn cannot(error: &io::Error) -> Error {
    Error::failed("cannot serve the hub", error)
}

fn listen(hub: &CStr, socket: &Path) -> Result<HubServer> {
    let shown = escaped(socket.as_os_str().as_bytes());
    let failed = |error: io::Error| Error::failed(format!("cannot serve {shown}"), &error);
    let path = CString::new(socket.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    HubServer::listen(hub, &path, |line: &str| warn(line)).map_err(failed)
}

/// The server, in its own process.
fn serve(
    mut servers: Vec<HubServer>,
    opener: &UnixStream,
    options: HubOptions,
    interrupt: &Interrupt,
) -> Result<()> {
    options.inherited.close();
    if !options.no_sandbox {
        let access = HostAccess {
            serves: true,
            ..HostAccess::default()
        };
        Sandbox::enter(&access, None, &[])?.close()?;
    }
    for server in &mut servers {
        let opener = Some(opener.as_fd());
        server.start(opener).map_err(|error| cannot(&error))?;
    }
    while !interrupt.asked() {
        sleep(INTERVAL);
    }
    Ok(())
}

impl ServedHub {
    /// Listens at the sockets, and starts the server. The process must have one thread. `hub`: as
    /// in "hub:/run/lab,mtu=9000".
    pub fn start(hub: &CStr, sockets: &[PathBuf], options: HubOptions) -> Result<Self> {
        let listening: Result<Vec<HubServer>> =
            sockets.iter().map(|path| listen(hub, path)).collect();
        let mut listening = listening?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| cannot(&error))?;
        let mut ours = Some(ours);
        let server = WorkerProcess::copy(Interrupt::of_copy(UMASK), |_| {
            // In the server: with this end, it would not see the end of this process.
            drop(ours.take());
            serve(take(&mut listening), &theirs, options, &Interrupt::poll())
        });
        let server = server.map_err(|error| cannot(&error))?;
        let sockets = Arc::new(listening);
        let opened = Arc::clone(&sockets);
        let open = move || {
            if let (Some(socket), Some(ours)) = (opened.first(), ours) {
                socket.open_files(ours);
            }
        };
        let opener = thread::Builder::new().spawn(open);
        Ok(Self {
            server,
            opener: opener.map_err(|error| cannot(&error))?,
            _sockets: sockets,
        })
    }

    /// Waits until the command is interrupted, and the server has ended.
    pub fn finish(self) -> Result<()> {
        let ended = self.server.finish();
        // It ends when the server's end of the pair is closed. A panic of it has ended all.
        let _ = self.opener.join();
        ended
    }
}
