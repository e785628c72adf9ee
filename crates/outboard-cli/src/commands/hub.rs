// SPDX-License-Identifier: GPL-2.0-only
//! `outboard hub`: ports of a hub for virtual machines.

use clap::Args;
use outboard::HubServer;
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::format::escaped;
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use std::ffi::CString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// How long after a signal the command ends, at most.
const INTERVAL: Duration = Duration::from_millis(50);

/// Connect virtual machines to a hub, until the command is interrupted
///
/// Each socket is a back-end of vhost-user. One virtual machine at a time can connect to it, and is
/// on the hub with kernels and other machines then. Only the same user can connect.
#[derive(Args, Debug)]
#[command(after_help = "Example:\
                        \n  outboard hub /run/lab/hub /run/lab/vm0 /run/lab/vm1\
                        \n  qemu-system-x86_64 ... \\\
                        \n    -object memory-backend-memfd,id=memory,size=2G,share=on \\\
                        \n    -machine memory-backend=memory \\\
                        \n    -chardev socket,id=socket,path=/run/lab/vm0 \\\
                        \n    -netdev vhost-user,id=net,chardev=socket \\\
                        \n    -device virtio-net-pci,netdev=net")]
pub struct HubArgs {
    /// The file of the hub, as in hub:FILE; made if it does not exist
    #[arg(value_name = "FILE")]
    pub hub: PathBuf,
    /// The sockets of the virtual machines
    #[arg(value_name = "SOCKET", required = true)]
    pub sockets: Vec<PathBuf>,
    /// The largest packet of a hub that is made
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
}

impl HubArgs {
    /// It has no image and no kernel.
    pub fn host_access() -> HostAccess {
        HostAccess {
            programs: true,
            ..HostAccess::default()
        }
    }

    /// As the library has it: a backslash takes the next character as it is.
    fn description(&self) -> Vec<u8> {
        let mut text = b"hub:".to_vec();
        for &byte in self.hub.as_os_str().as_bytes() {
            if matches!(byte, b',' | b'\\') {
                text.push(b'\\');
            }
            text.push(byte);
        }
        if let Some(mtu) = self.mtu {
            text.extend(format!(",mtu={mtu}").bytes());
        }
        text
    }
}

fn serve(hub: &[u8], socket: &Path) -> Result<HubServer> {
    let shown = escaped(socket.as_os_str().as_bytes());
    let failed = |error: io::Error| Error::failed(format!("cannot serve {shown}"), &error);
    let hub = CString::new(hub).map_err(|error| failed(error.into()))?;
    let path = CString::new(socket.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    // Nobody can be told that standard error is closed.
    let log = |line: &str| drop(writeln!(io::stderr(), "outboard: {line}"));
    HubServer::start(&hub, &path, log).map_err(failed)
}

pub fn run(options: &HubArgs) -> Result<()> {
    let interrupt = Interrupt::poll();
    let hub = options.description();
    let servers: Result<Vec<HubServer>> = options
        .sockets
        .iter()
        .map(|socket| serve(&hub, socket))
        .collect();
    let servers = servers?;
    while !interrupt.asked() {
        sleep(INTERVAL);
    }
    drop(servers);
    Ok(())
}
