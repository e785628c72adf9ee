// SPDX-License-Identifier: GPL-2.0-only
//! Serves a kernel without disks: serve_kernel URL..., as `outboard server` has them. Prints the
//! addresses of network sockets, one a line, and then "ready".

use outboard::Kernel;
use outboard_server::{ClientLimits, KernelServer, PeerRules};
use std::io;

fn main() -> io::Result<()> {
    let kernel = Kernel::builder().boot()?;
    let server = KernelServer::start(&kernel, ClientLimits::default())?;
    for url in std::env::args_os().skip(1) {
        if let Some(address) = server.listen(url, &PeerRules::default())? {
            println!("{address}");
        }
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}
