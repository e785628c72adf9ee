// SPDX-License-Identifier: GPL-2.0-only
//! An HTTP server and a client that fetches a page from it, in two network namespaces of one
//! kernel with a cable (veth) between them. No network of the host is involved.

use outboard::net::{Net, TcpStream};
use std::io::{self, BufRead, BufReader, Read, Write};

const PAGE: &str = "Hello from a kernel in a process\n";

/// Two networks that are connected: 10.0.0.1 and 10.0.0.2.
fn networks(net: &Net) -> io::Result<(Net, Net)> {
    let (client, server) = (net.new_namespace()?, net.new_namespace()?);
    net.add_veth("eth0", "eth1")?;
    net.move_link("eth0", &client)?;
    net.move_link("eth1", &server)?;
    client.add_address("eth0", "10.0.0.1/24")?;
    client.set_up("eth0")?;
    server.add_address("eth1", "10.0.0.2/24")?;
    server.set_up("eth1")?;
    Ok((client, server))
}

/// Answers one request.
fn serve(stream: TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    while !lines.next().unwrap_or(Ok(String::new()))?.is_empty() {}
    let length = PAGE.len();
    write!(
        &stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{PAGE}"
    )
}

/// Fetches a page and returns it.
fn fetch(net: &Net, address: &str) -> io::Result<String> {
    let mut stream = net.tcp_connect(address)?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let page = answer
        .split_once("\r\n\r\n")
        .map(|(_, page)| page.to_owned());
    page.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the page that the client got.
pub fn run() -> io::Result<String> {
    let kernel = outboard::Kernel::builder().vcpus(2).boot()?;
    let (client, server) = networks(&kernel.net())?;
    let listener = server.tcp_listen("10.0.0.2:80")?;
    let page = std::thread::scope(|scope| {
        let served = scope.spawn(|| serve(listener.accept()?.0));
        let page = fetch(&client, "10.0.0.2:80");
        served.join().expect("no panic")?;
        page
    })?;
    kernel.halt()?;
    Ok(page)
}

#[allow(dead_code)] // In the test that includes this file.
fn main() -> io::Result<()> {
    print!("{}", run()?);
    Ok(())
}
