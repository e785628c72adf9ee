// SPDX-License-Identifier: GPL-2.0-only
//! An echo server without a thread for each connection. The [`Poller`] is a descriptor of the host,
//! too: a program with an event loop would put it there instead of waiting by `Poller::wait`.

use outboard::net::{Net, Poller, Registration, TcpListener, TcpStream};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};

/// The number of the listener among the events.
const LISTENER: u64 = 0;

/// A client, and the bytes that it does not take yet.
struct Client {
    stream: TcpStream,
    pending: Vec<u8>,
    _registration: Registration,
}

/// Takes connections until there are none. Returns how many.
fn accept(
    net: &Net,
    poller: &Poller,
    listener: &TcpListener,
    clients: &mut HashMap<u64, Client>,
    next: &mut u64,
) -> io::Result<u64> {
    let mut count = 0;
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        *next += 1;
        count += 1;
        let client = Client {
            _registration: poller.add(net, &stream, *next)?,
            stream,
            pending: Vec::new(),
        };
        clients.insert(*next, client);
    }
}

/// Echoes until the client would block. `false`: it has closed.
fn echo(client: &mut Client) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    let mut step = || -> io::Result<bool> {
        loop {
            while !client.pending.is_empty() {
                let sent = client.stream.write(&client.pending)?;
                client.pending.drain(..sent);
            }
            match client.stream.read(&mut buffer)? {
                0 => return Ok(false),
                length => client.pending.extend_from_slice(&buffer[..length]),
            }
        }
    };
    match step() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(false),
        other => other,
    }
}

/// Serves this many clients, and returns when all have closed.
pub fn serve(net: &Net, listener: &TcpListener, total: u64) -> io::Result<()> {
    let poller = Poller::new()?;
    listener.set_nonblocking(true)?;
    let _registration = poller.add(net, listener, LISTENER)?;
    let mut clients = HashMap::new();
    let (mut next, mut accepted) = (LISTENER, 0);
    while accepted < total || !clients.is_empty() {
        for event in poller.wait(None)? {
            if event.token == LISTENER {
                accepted += accept(net, &poller, listener, &mut clients, &mut next)?;
            } else if let Some(client) = clients.get_mut(&event.token) {
                if !echo(client)? {
                    clients.remove(&event.token);
                }
            }
        }
    }
    Ok(())
}

#[allow(dead_code)] // In the test that includes this file.
fn main() -> io::Result<()> {
    let net = outboard::Kernel::builder().vcpus(2).boot()?.net();
    net.set_up("lo")?;
    let listener = net.tcp_listen("127.0.0.1:7")?;
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&net, &listener, 1));
        let mut client = net.tcp_connect("127.0.0.1:7")?;
        client.write_all(b"Hello, Hello")?;
        client.shutdown(std::net::Shutdown::Write)?;
        let mut text = String::new();
        client.read_to_string(&mut text)?;
        println!("{text}");
        drop(client);
        server.join().expect("no panic")
    })
}
