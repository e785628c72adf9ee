// SPDX-License-Identifier: GPL-2.0-only
//! Names of hosts, with servers that answer well, badly, or never.

use crate::support::*;
use outboard::net::{Net, TcpStream};
use outboard::Cancel;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SERVER: &str = "127.0.0.1:53";

/// A message with the question of `query`, this flag byte and response code, and addresses.
fn reply(query: &[u8], flags: u8, code: u8, addresses: &[[u8; 4]]) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2] = flags | 0x81;
    message[3] = 0x80 | code;
    message[7] = addresses.len() as u8;
    for address in addresses {
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        message.extend(address);
    }
    message
}

/// Whether the question is about IPv4 addresses.
fn is_v4(query: &[u8]) -> bool {
    query[query.len() - 4..] == [0, 1, 0, 1]
}

/// Runs a server by datagrams while `work` runs.
fn with_server<T>(
    net: &Net,
    answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Sync,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    let socket = net.udp_bind(SERVER)?;
    let cancel = Cancel::new();
    Ok(thread::scope(|scope| {
        scope.spawn(|| {
            cancel.run(|| {
                let mut query = [0; 512];
                while let Ok((length, client)) = socket.recv_from(&mut query) {
                    for message in answer(&query[..length]) {
                        let _ = socket.send_to(&message, client);
                    }
                }
            })
        });
        let result = work();
        cancel.cancel();
        result
    }))
}

fn configure(net: &Net, text: &str) -> io::Result<()> {
    write_file(net.kernel(), "/etc/resolv.conf", text)
}

fn hosts(result: io::Result<Vec<SocketAddr>>) -> Vec<String> {
    let addresses = result.expect("it can be resolved");
    addresses.iter().map(SocketAddr::to_string).collect()
}

#[test]
fn names_need_no_server() -> io::Result<()> {
    let net = net()?;
    assert_eq!(hosts(net.resolve("10.1.2.3", 5)), ["10.1.2.3:5"]);
    assert_eq!(hosts(net.resolve("::1", 5)), ["[::1]:5"]);
    for link in ["1", "lo"] {
        let found = net.resolve(&format!("fe80::1%{link}"), 5);
        assert_eq!(hosts(found), ["[fe80::1%1]:5"]);
    }
    for wrong in ["fe80::1%nowhere", "fe80::1%", "10.1.2.3%lo"] {
        assert!(net.resolve(wrong, 5).is_err(), "{wrong}");
    }
    assert_eq!(
        hosts(net.resolve("localhost", 5)),
        ["127.0.0.1:5", "[::1]:5"]
    );
    let error = net
        .resolve("www.example", 5)
        .expect_err("there is no server");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("/etc/resolv.conf"), "{error}");
    write_file(net.kernel(), "/etc/hosts", "10.0.0.7 www.example\n")?;
    assert_eq!(hosts(net.resolve("www.example", 5)), ["10.0.0.7:5"]);
    assert_eq!(kind(net.resolve("a b", 5)), Some(ErrorKind::InvalidInput));
    Ok(())
}

#[test]
fn servers_answer() -> io::Result<()> {
    let net = net()?;
    configure(&net, "nameserver 127.0.0.1\nsearch lan\n")?;
    let answer = |query: &[u8]| {
        let addresses: &[[u8; 4]] = if is_v4(query) {
            &[[10, 0, 0, 1], [10, 0, 0, 2]]
        } else {
            &[]
        };
        if query[13..].starts_with(b"none") {
            vec![reply(query, 0, 3, &[])]
        } else {
            vec![reply(query, 0, 0, addresses)]
        }
    };
    with_server(&net, answer, || {
        assert_eq!(hosts(net.resolve("www", 5)), ["10.0.0.1:5", "10.0.0.2:5"]);
        let error = net.resolve("none.example", 5).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("none.example"), "{error}");
        let error = net.resolve("none.example.", 5).expect_err("there is none");
        assert!(error.to_string().contains("no such name"), "{error}");
    })
}

#[test]
fn a_server_that_never_answers_is_an_error_in_time() -> io::Result<()> {
    let net = net()?;
    configure(&net, "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n")?;
    let start = Instant::now();
    let error = with_server(&net, |_| vec![], || net.resolve("www.example", 5))?;
    let error = error.expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    assert!(start.elapsed() >= Duration::from_secs(2));
    assert!(start.elapsed() < PATIENCE);
    Ok(())
}

#[test]
fn the_next_server_is_asked() -> io::Result<()> {
    let net = net()?;
    // Nobody listens at the first one; the second one refuses once in a while.
    configure(&net, "nameserver 127.0.0.2\nnameserver 127.0.0.1\n")?;
    let answer = |query: &[u8]| vec![reply(query, 0, 0, &[[10, 0, 0, 3]])];
    let found = with_server(&net, answer, || net.resolve("www.example", 5))?;
    assert_eq!(hosts(found), ["10.0.0.3:5"]);
    let refuse = |query: &[u8]| vec![reply(query, 0, 5, &[])];
    let error = with_server(&net, refuse, || net.resolve("www.example", 5))?;
    let error = error.expect_err("it refuses");
    assert!(error.to_string().contains("cannot answer"), "{error}");
    Ok(())
}

#[test]
fn answers_of_others_do_not_count() -> io::Result<()> {
    let net = net()?;
    configure(&net, "nameserver 127.0.0.1\n")?;
    let answer = |query: &[u8]| {
        let mut other_id = reply(query, 0, 0, &[[6, 6, 6, 6]]);
        other_id[0] ^= 1;
        let mut other_name = reply(query, 0, 0, &[[6, 6, 6, 6]]);
        other_name[13] ^= 1;
        let mut endless = reply(query, 0, 0, &[[6, 6, 6, 6]]);
        let place = query.len();
        endless[place + 1] = place as u8;
        let good = reply(
            query,
            0,
            0,
            if is_v4(query) { &[[10, 0, 0, 4]] } else { &[] },
        );
        vec![vec![], vec![0xff; 600], other_id, other_name, endless, good]
    };
    let found = with_server(&net, answer, || net.resolve("www.example", 5))?;
    assert_eq!(hosts(found), ["10.0.0.4:5"]);
    Ok(())
}

/// The server sends nonsense for as long as somebody asks.
#[test]
fn a_flood_does_not_prolong_the_wait() -> io::Result<()> {
    let net = net()?;
    configure(&net, "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")?;
    let server = net.udp_bind(SERVER)?;
    let is_over = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            let client = server.recv_from(&mut [0; 512]).expect("a question").1;
            while !is_over.load(Ordering::SeqCst) {
                let _ = server.send_to(&[0; 100], client);
            }
        });
        let result = net.resolve("www.example", 5);
        is_over.store(true, Ordering::SeqCst);
        result
    });
    assert_eq!(kind(result), Some(ErrorKind::TimedOut));
    Ok(())
}

/// Answers one question over TCP in parts of `piece` bytes.
fn answer_stream(mut stream: TcpStream, piece: usize) -> io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut query = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut query)?;
    let addresses: Vec<[u8; 4]> = (0..200).map(|n| [10, 0, 1, n]).collect();
    let addresses = if is_v4(&query) { &addresses[..] } else { &[] };
    let mut answer = reply(&query, 0, 0, addresses);
    answer.splice(0..0, (answer.len() as u16).to_be_bytes());
    answer
        .chunks(piece)
        .try_for_each(|piece| stream.write_all(piece))
}

/// Resolves a name whose answer is too long for a datagram. By TCP, a server does this. The errors
/// are those of the set-up and of the call.
fn resolve_by_tcp(
    settings: &str,
    serve: impl Fn(TcpStream) + Sync,
) -> io::Result<io::Result<Vec<SocketAddr>>> {
    let net = net()?;
    configure(&net, settings)?;
    let truncated = |query: &[u8]| vec![reply(query, 2, 0, &[])];
    let listener = net.tcp_listen(SERVER)?;
    let cancel = Cancel::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            cancel.run(|| {
                while let Ok((stream, _)) = listener.accept() {
                    serve(stream);
                }
            })
        });
        let found = with_server(&net, truncated, || net.resolve("www.example", 5));
        cancel.cancel();
        found
    })
}

#[test]
fn long_answers_come_by_tcp() -> io::Result<()> {
    let found = resolve_by_tcp("nameserver 127.0.0.1\n", |stream| {
        answer_stream(stream, 7).expect("the client waits");
    })??;
    let ips: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    assert_eq!(ips.len(), 64, "the limit of addresses");
    assert_eq!(ips[63], IpAddr::from([10, 0, 1, 63]));
    Ok(())
}

/// The error of a name whose long answer comes by TCP, from a server that does this.
fn error_by_tcp(serve: impl Fn(TcpStream) -> io::Result<()> + Sync) -> io::Result<io::Error> {
    let settings = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
    let found = resolve_by_tcp(settings, |stream| {
        // The client may have gone.
        let _ = serve(stream);
    })?;
    Ok(found.expect_err("there is no answer"))
}

#[test]
fn bad_answers_by_tcp_end_in_time() -> io::Result<()> {
    let header = |length: u16| [&length.to_be_bytes()[..], &[0; 20]].concat();
    // Byte after byte, each in time.
    let error = error_by_tcp(|mut stream| loop {
        stream.write_all(&[1])?;
        thread::sleep(Duration::from_millis(100));
    })?;
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    // More is promised than comes: with the end of the connection, and without.
    let error = error_by_tcp(|mut stream| stream.write_all(&header(40)))?;
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    let error = error_by_tcp(|mut stream| {
        stream.write_all(&header(u16::MAX))?;
        stream.read_exact(&mut [0; 1000])
    })?;
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    // Nonsense, and a second answer that is too long.
    for bytes in [header(20), reply(&[0; 30], 2, 0, &[])] {
        let error = error_by_tcp(move |mut stream| stream.write_all(&bytes))?;
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    }
    Ok(())
}

#[test]
fn connections_are_made_to_names() -> io::Result<()> {
    let net = net()?;
    write_file(net.kernel(), "/etc/hosts", "127.0.0.1 server.example\n")?;
    let listener = net.tcp_listen("127.0.0.1:8080")?;
    let client = net.tcp_connect("server.example:8080")?;
    exchange(client, listener.accept()?.0, 1000)
}
