// SPDX-License-Identifier: GPL-2.0-only
//! The programs in `examples` work.

use crate::support::*;
use std::io;
use std::net::Shutdown;
use std::thread;

#[path = "../../examples/echo.rs"]
mod echo;
#[path = "../../examples/http.rs"]
mod http;

const CLIENTS: usize = 50;

#[test]
fn a_page_is_fetched() -> io::Result<()> {
    assert_eq!(http::run()?, "Hello from a kernel in a process\n");
    Ok(())
}

#[test]
fn an_event_loop_echoes() -> io::Result<()> {
    use std::io::{Read, Write};
    let net = net()?;
    let listener = net.tcp_listen("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::scope(|scope| {
        let server = scope.spawn(|| echo::serve(&net, &listener, CLIENTS as u64));
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(net.tcp_connect(address)?);
        }
        for (index, client) in clients.iter().enumerate() {
            let sent = noise(index as u64, 100_000);
            let mut received = Vec::new();
            // The echo fills the buffers of both directions, so a second thread writes.
            thread::scope(|both| {
                let writer = both.spawn(|| -> io::Result<()> {
                    (&*client).write_all(&sent)?;
                    client.shutdown(Shutdown::Write)
                });
                (&*client).read_to_end(&mut received)?;
                writer.join().expect("no panic")
            })?;
            assert!(received == sent, "client {index}");
        }
        server.join().expect("no panic")
    })
}
