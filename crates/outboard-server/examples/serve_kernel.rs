// SPDX-License-Identifier: GPL-2.0-only
//! Serves a kernel without disks: serve_kernel SOCKET. A process that can connect to the socket is
//! root inside: make it in a directory of your own.

use outboard::Kernel;
use outboard_protocol::frames::{Frame, Request};
use outboard_server::{ClientLimits, ClientPeer, ClientServer, InsideUser};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;

/// All clients are one user, and tickets good for all of them.
const PEER: ClientPeer = ClientPeer {
    process: 0,
    user: 0,
    inside: InsideUser::ROOT,
};

fn serve(server: &ClientServer, socket: UnixStream) -> io::Result<()> {
    let Some(frame) = Frame::read(&mut &socket)? else {
        return Ok(());
    };
    if let Request::Client(request) = frame.message()? {
        server.serve(socket, &PEER, &request);
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let kernel = Kernel::builder().boot()?;
    let server = Arc::new(ClientServer::start(&kernel, ClientLimits::default())?);
    let listener = UnixListener::bind(path)?;
    println!("ready");
    for socket in listener.incoming() {
        let (server, socket) = (Arc::clone(&server), socket?);
        thread::spawn(move || {
            if let Err(error) = serve(&server, socket) {
                eprintln!("a client: {error}");
            }
        });
    }
    Ok(())
}
