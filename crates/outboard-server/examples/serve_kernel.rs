// SPDX-License-Identifier: GPL-2.0-only
//! Serves a kernel without disks: serve_kernel URL..., as `outboard server` has them. All who can
//! connect are root inside: make a Unix socket in a directory of your own. Prints the addresses of
//! network sockets, one a line, and then "ready".

use outboard::Kernel;
use outboard_protocol::frames::{Frame, Request};
use outboard_protocol::url::{NetworkUrl, ServerUrl};
use outboard_server::{ClientLimits, ClientPeer, ClientServer, InsideUser};
use outboard_tls::NetworkListener;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
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

fn serve_in_background(server: &Arc<ClientServer>, socket: UnixStream) {
    let server = Arc::clone(server);
    thread::spawn(move || {
        if let Err(error) = serve(&server, socket) {
            eprintln!("a client: {error}");
        }
    });
}

fn listen_at_path(server: Arc<ClientServer>, path: &Path) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            serve_in_background(&server, socket);
        }
    });
    Ok(())
}

fn listen_to_network(server: Arc<ClientServer>, url: &NetworkUrl) -> io::Result<()> {
    let listener = TcpListener::bind(&url.place)?;
    println!("{}", listener.local_addr()?);
    let listener = NetworkListener::new(listener, url)?;
    thread::spawn(move || loop {
        // One that is slow to prove itself holds up the others: good enough here.
        match listener.accept() {
            Ok(connection) if connection.is_proven() => {
                serve_in_background(&server, connection.stream);
            }
            Ok(_) => eprintln!("a client does not know the token"),
            Err(error) => eprintln!("a client: {error}"),
        }
    });
    Ok(())
}

fn main() -> io::Result<()> {
    let kernel = Kernel::builder().boot()?;
    let server = Arc::new(ClientServer::start(&kernel, ClientLimits::default())?);
    for url in std::env::args_os().skip(1) {
        let server = Arc::clone(&server);
        match ServerUrl::parse(url).map_err(io::Error::other)? {
            ServerUrl::Unix(path) => listen_at_path(server, &path)?,
            ServerUrl::Network(url) => listen_to_network(server, &url)?,
        }
    }
    println!("ready");
    loop {
        thread::park();
    }
}
