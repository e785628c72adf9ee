// SPDX-License-Identifier: GPL-2.0-only
//! `outboard hub`: ports of a hub for virtual machines.

use clap::Args;
use outboard_error::{warn, Error, Result};
use outboard_sandbox::hub::{HubOptions, ServedHub};
use outboard_volume::options::Options;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Connect virtual machines to a hub, until the command is interrupted
///
/// Each socket is a back-end of vhost-user. One virtual machine at a time can connect to it, and
/// then shares the hub with kernels and other machines. Only the same user can connect.
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
    /// The file of the hub, as in hub:FILE; the command makes it if it does not exist
    #[arg(value_name = "FILE")]
    pub hub: PathBuf,
    /// The sockets of the virtual machines
    #[arg(value_name = "SOCKET", required = true)]
    pub sockets: Vec<PathBuf>,
    /// The largest packet of a new hub
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
}

impl HubArgs {
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

pub fn run(options: &HubArgs, settings: &Options) -> Result<()> {
    if settings.no_sandbox {
        warn(
            "warning: NO SANDBOX: a virtual machine that exploits a mistake of this program gets \
             all your rights",
        );
    }
    let hub_options = HubOptions {
        no_sandbox: settings.no_sandbox,
        inherited: settings.inherited.clone(),
    };
    let hub = CString::new(options.description())
        .map_err(|error| Error::failed("cannot serve the hub", &error.into()))?;
    ServedHub::start(&hub, &options.sockets, hub_options)?.finish()
}
