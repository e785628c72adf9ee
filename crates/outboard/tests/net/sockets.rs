// SPDX-License-Identifier: GPL-2.0-only
//! Sockets behave as std's.

use crate::support::*;
use outboard::net::{Net, TcpStream};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const LOCAL: &str = "127.0.0.1:0";
const BULK: usize = 32 << 20;
const CONNECTIONS: usize = 10_000;
const EDESTADDRREQ: i32 = 89;
const SHORT: Duration = Duration::from_millis(50);

/// Both ends of a connection.
fn connection(net: &Net) -> io::Result<(TcpStream, TcpStream)> {
    let listener = net.tcp_listen(LOCAL)?;
    let client = net.tcp_connect(listener.local_addr()?)?;
    let (server, peer) = listener.accept()?;
    assert_eq!(peer, client.local_addr()?);
    assert_eq!(client.peer_addr()?, server.local_addr()?);
    Ok((client, server))
}

#[test]
fn bytes_arrive_by_tcp() -> io::Result<()> {
    let net = net()?;
    let (client, server) = connection(&net)?;
    exchange(client, server, BULK)?;
    let listener = net.tcp_listen("[::1]:0")?;
    let client = net.tcp_connect(listener.local_addr()?)?;
    exchange(client, listener.accept()?.0, 1 << 20)
}

#[test]
fn streams_have_the_methods_of_std() -> io::Result<()> {
    let net = net()?;
    let (mut client, mut server) = connection(&net)?;
    let parts = [IoSlice::new(b"ab"), IoSlice::new(b"cde")];
    assert_eq!(client.write_vectored(&parts)?, 5);
    let mut peeked = [0; 2];
    assert_eq!((server.peek(&mut peeked)?, &peeked), (2, b"ab"));
    let (mut first, mut rest) = ([0; 1], [0; 4]);
    let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut rest)];
    assert_eq!(server.read_vectored(&mut parts)?, 5);
    assert_eq!((&first, &rest), (b"a", b"bcde"));

    assert!(!client.nodelay()?);
    client.set_nodelay(true)?;
    client.set_ttl(17)?;
    assert_eq!((client.nodelay()?, client.ttl()?), (true, 17));
    client.set_linger(Some(Duration::from_secs(3)))?;
    assert_eq!(client.linger()?, Some(Duration::from_secs(3)));
    client.set_linger(None)?;
    assert_eq!(client.linger()?, None);
    client.set_keepalive(true)?;
    assert!(client.take_error()?.is_none());

    // A clone is the same connection, and references can be read and written.
    let clone = client.try_clone()?;
    (&clone).write_all(b"x")?;
    (&server).read_exact(&mut first)?;
    clone.shutdown(Shutdown::Write)?;
    assert_eq!(server.read(&mut rest)?, 0, "the end");
    assert_eq!(kind(client.write(b"y")), Some(ErrorKind::BrokenPipe));
    server.write_all(b"z")?;
    client.read_exact(&mut first)?;
    assert_eq!(&first, b"z");
    Ok(())
}

#[test]
fn a_listener_takes_connections_endlessly() -> io::Result<()> {
    let net = net()?;
    let listener = net.tcp_listen(LOCAL)?;
    let address = listener.local_addr()?;
    let clients: io::Result<Vec<TcpStream>> = thread::scope(|scope| {
        let clients = scope.spawn(|| (0..3).map(|_| net.tcp_connect(address)).collect());
        for server in listener.incoming().take(3) {
            server?.write_all(b"welcome")?;
        }
        clients.join().expect("no panic")
    });
    for mut client in clients? {
        let mut text = String::new();
        client.read_to_string(&mut text)?;
        assert_eq!(text, "welcome");
    }
    // The address is in use, and free again at once after the listener is gone.
    assert_eq!(kind(net.tcp_listen(address)), Some(ErrorKind::AddrInUse));
    drop(listener);
    net.tcp_listen(address)?;
    let refused = net.tcp_connect(address);
    assert_eq!(kind(refused), Some(ErrorKind::ConnectionRefused));
    Ok(())
}

#[test]
fn several_addresses_are_tried() -> io::Result<()> {
    let net = net()?;
    let listener = net.tcp_listen(LOCAL)?;
    let good = listener.local_addr()?;
    let bad = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    net.tcp_connect(&[bad, good][..])?;
    net.tcp_connect(good.to_string().as_str())?;
    net.tcp_connect(("localhost", good.port()))?;
    let none: [SocketAddr; 0] = [];
    assert_eq!(
        kind(net.tcp_connect(&none[..])),
        Some(ErrorKind::InvalidInput)
    );
    assert_eq!(
        kind(net.tcp_connect("nonsense")),
        Some(ErrorKind::InvalidInput)
    );
    Ok(())
}

#[test]
fn calls_have_time_limits() -> io::Result<()> {
    let net = net()?;
    let (mut client, _server) = connection(&net)?;
    assert_eq!(client.read_timeout()?, None);
    client.set_read_timeout(Some(SHORT))?;
    client.set_write_timeout(Some(SHORT))?;
    assert_eq!(client.read_timeout()?, Some(SHORT));
    let start = Instant::now();
    assert_eq!(kind(client.read(&mut [0])), Some(ErrorKind::WouldBlock));
    assert!(start.elapsed() >= SHORT);
    let piece = vec![0; 1 << 20];
    let full = (0..64).find_map(|_| client.write_all(&piece).err());
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::WouldBlock));
    let zero = client.set_read_timeout(Some(Duration::ZERO));
    assert_eq!(kind(zero), Some(ErrorKind::InvalidInput));

    // A neighbour that does not exist: the kernel drops what goes to a dummy interface.
    net.add_dummy("nowhere")?;
    net.set_up("nowhere")?;
    net.add_address("nowhere", "10.9.0.1/24")?;
    let nobody: SocketAddr = "10.9.0.2:9".parse().unwrap();
    let start = Instant::now();
    let late = net.tcp_connect_timeout(&nobody, SHORT);
    assert_eq!(kind(late), Some(ErrorKind::TimedOut));
    assert!(start.elapsed() >= SHORT && start.elapsed() < PATIENCE);
    let zero = net.tcp_connect_timeout(&nobody, Duration::ZERO);
    assert_eq!(kind(zero), Some(ErrorKind::InvalidInput));

    let listener = net.tcp_listen(LOCAL)?;
    let in_time = net.tcp_connect_timeout(&listener.local_addr()?, PATIENCE)?;
    exchange(in_time, listener.accept()?.0, 1000)
}

#[test]
fn nonblocking_calls_return_at_once() -> io::Result<()> {
    let net = net()?;
    let listener = net.tcp_listen(LOCAL)?;
    listener.set_nonblocking(true)?;
    assert_eq!(kind(listener.accept()), Some(ErrorKind::WouldBlock));
    let client = net.tcp_begin_connect(&listener.local_addr()?)?;
    assert_eq!(kind((&client).read(&mut [0])), Some(ErrorKind::WouldBlock));
    let servers = Mutex::new(Vec::new());
    wait_until("a connection", || {
        servers.lock().unwrap().extend(listener.accept().ok());
        !servers.lock().unwrap().is_empty()
    });
    assert!(client.take_error()?.is_none());
    client.set_nonblocking(false)?;
    let (server, _) = servers.into_inner().unwrap().remove(0);
    exchange(client, server, 1000)
}

#[test]
fn shutdown_wakes_a_blocked_reader() -> io::Result<()> {
    let net = net()?;
    let (client, _server) = connection(&net)?;
    let read = || (&client).read(&mut [0]);
    let result = while_blocked(net.kernel(), read, || {
        client.shutdown(Shutdown::Both).expect("it is connected")
    });
    assert_eq!(result?, 0);
    Ok(())
}

#[test]
fn datagrams_arrive_by_udp() -> io::Result<()> {
    let net = net()?;
    let (one, other) = (net.udp_bind(LOCAL)?, net.udp_bind(LOCAL)?);
    let (here, there) = (one.local_addr()?, other.local_addr()?);
    one.send_to(b"Hello", there)?;
    let mut buffer = [0; 16];
    assert_eq!(other.peek_from(&mut buffer)?, (5, here));
    assert_eq!(other.recv_from(&mut buffer)?, (5, here));
    assert_eq!(&buffer[..5], b"Hello");
    assert_eq!(number(one.send(b"x")), Some(EDESTADDRREQ));
    one.connect(there)?;
    assert_eq!(one.peer_addr()?, there);
    one.send(b"again")?;
    assert_eq!(other.peek(&mut buffer)?, 5);
    assert_eq!(other.recv(&mut buffer)?, 5);
    other.set_read_timeout(Some(SHORT))?;
    assert_eq!(kind(other.recv(&mut buffer)), Some(ErrorKind::WouldBlock));

    one.set_ttl(9)?;
    one.set_broadcast(true)?;
    assert_eq!((one.ttl()?, one.broadcast()?), (9, true));
    one.set_multicast_ttl_v4(3)?;
    one.set_multicast_loop_v4(false)?;
    assert_eq!(
        (one.multicast_ttl_v4()?, one.multicast_loop_v4()?),
        (3, false)
    );
    // A port where nobody listens is an error of the next call.
    drop(other);
    one.send(b"lost")?;
    let refused = one.recv(&mut buffer);
    assert_eq!(kind(refused), Some(ErrorKind::ConnectionRefused));
    Ok(())
}

#[test]
fn multicast_reaches_members() -> io::Result<()> {
    let net = net()?;
    let group: Ipv4Addr = "239.1.2.3".parse().unwrap();
    let member = net.udp_bind("0.0.0.0:4321")?;
    member.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
    member.set_read_timeout(Some(PATIENCE))?;
    net.add_route(&outboard::net::Route::to("239.0.0.0/8")?.link("lo"))?;
    let sender = net.udp_bind(LOCAL)?;
    sender.send_to(b"all", (group, 4321))?;
    let mut buffer = [0; 8];
    assert_eq!(member.recv(&mut buffer)?, 3);
    member.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
    member.set_read_timeout(Some(SHORT))?;
    sender.send_to(b"all", (group, 4321))?;
    assert_eq!(kind(member.recv(&mut buffer)), Some(ErrorKind::WouldBlock));
    Ok(())
}

#[test]
fn unix_sockets_have_paths_and_credentials() -> io::Result<()> {
    let net = net()?;
    let listener = net.unix_listen("/tmp/s")?;
    assert_eq!(kind(net.unix_listen("/tmp/s")), Some(ErrorKind::AddrInUse));
    let client = net.unix_connect("/tmp/s")?;
    let (server, peer) = listener.accept()?;
    assert!(peer.is_unnamed());
    assert_eq!(client.peer_addr()?.as_pathname(), Some("/tmp/s".as_ref()));
    let peer = server.peer_cred()?;
    let process: i32 = read_file(net.kernel(), "/proc/self/stat")?
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number");
    assert_eq!((peer.pid, peer.uid, peer.gid), (process, 0, 0));
    exchange(client, server, 1 << 20)?;
    let absent = net.unix_connect("/tmp/none");
    assert_eq!(kind(absent), Some(ErrorKind::NotFound));

    let name = UnixAddr::from_abstract_name(b"name")?;
    let listener = net.unix_listen_addr(&name)?;
    let client = net.unix_connect_addr(&name)?;
    assert_eq!(client.peer_addr()?.as_abstract_name(), Some(&b"name"[..]));
    exchange(client, listener.accept()?.0, 1000)?;
    let (one, other) = net.unix_pair()?;
    exchange(one, other, 1000)
}

#[test]
fn unix_datagrams_have_senders() -> io::Result<()> {
    let net = net()?;
    let receiver = net.unix_datagram("/tmp/d")?;
    let sender = net.unix_datagram_addr(&UnixAddr::from_abstract_name(b"me")?)?;
    sender.send_to(b"one", "/tmp/d")?;
    let mut buffer = [0; 8];
    let (length, from) = receiver.recv_from(&mut buffer)?;
    assert_eq!((length, from.as_abstract_name()), (3, Some(&b"me"[..])));
    receiver.send_to_addr(b"back", &from)?;
    assert_eq!(sender.recv(&mut buffer)?, 4);
    let nameless = net.unix_datagram_unbound()?;
    nameless.connect("/tmp/d")?;
    nameless.send(b"two")?;
    assert!(receiver.recv_from(&mut buffer)?.1.is_unnamed());
    let (one, other) = net.unix_datagram_pair()?;
    one.send(b"pair")?;
    assert_eq!(other.recv(&mut buffer)?, 4);
    one.shutdown(Shutdown::Both)?;
    assert_eq!(kind(one.send(b"x")), Some(ErrorKind::BrokenPipe));
    Ok(())
}

#[test]
fn calls_end_with_the_kernel() -> io::Result<()> {
    let net = net()?;
    let kernel = net.kernel().clone();
    let listener = net.tcp_listen(LOCAL)?;
    let (client, server) = connection(&net)?;
    let datagrams = net.udp_bind(LOCAL)?;
    let accepted = while_blocked(
        &kernel,
        || listener.accept().map(drop),
        || kernel.clone().halt().expect("it halts"),
    );
    assert_eq!(number(accepted), Some(ENODEV));
    assert_eq!(number((&client).read(&mut [0])), Some(ENODEV));
    assert_eq!(number((&server).write(b"x")), Some(ENODEV));
    assert_eq!(number(datagrams.recv(&mut [0])), Some(ENODEV));
    assert_eq!(number(net.tcp_listen(LOCAL)), Some(ENODEV));
    assert_eq!(number(net.links()), Some(ENODEV));
    assert_eq!(number(net.watch(&client, |_| {})), Some(ENODEV));
    Ok(())
}

#[test]
fn kernels_have_networks_of_their_own() -> io::Result<()> {
    let (one, other) = (net()?, net()?);
    let address: SocketAddr = "127.0.0.1:80".parse().unwrap();
    let (mine, yours) = (one.tcp_listen(address)?, other.tcp_listen(address)?);
    let client = one.tcp_connect(address)?;
    yours.set_nonblocking(true)?;
    exchange(client, mine.accept()?.0, 1000)?;
    assert_eq!(kind(yours.accept()), Some(ErrorKind::WouldBlock));
    assert_eq!(number(one.watch(&yours, |_| {})), Some(EXDEV));
    one.add_dummy("d")?;
    assert_eq!(number(one.move_link("d", &other)), Some(EXDEV));
    Ok(())
}

/// 20,000 sockets at a time, all of which work, and which the kernel frees afterwards.
#[test]
fn ten_thousand_connections() -> io::Result<()> {
    let kernel = outboard::Kernel::builder()
        .vcpus(2)
        .memory(1 << 30)
        .boot()?;
    let net = kernel.net();
    net.set_up("lo")?;
    let listener = net.tcp_listen(LOCAL)?;
    let address = listener.local_addr()?;
    let mut ends = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let client = net.tcp_connect(address)?;
        ends.push((client, listener.accept()?.0));
    }
    for (index, (client, _)) in ends.iter().enumerate() {
        let mut client = client;
        client.write_all(&index.to_ne_bytes())?;
    }
    for (index, (_, server)) in ends.iter().enumerate() {
        let mut received = [0; size_of::<usize>()];
        let mut server = server;
        server.read_exact(&mut received)?;
        assert_eq!(usize::from_ne_bytes(received), index);
    }
    let used = || {
        let text = read_file(&kernel, "/proc/net/sockstat").expect("it is there");
        let line = text.lines().find(|line| line.starts_with("TCP: inuse"));
        line.and_then(|line| line.split(' ').nth(2)?.parse::<usize>().ok())
    };
    assert!(used() > Some(2 * CONNECTIONS));
    drop(ends);
    wait_until("the sockets go", || used() < Some(10));
    kernel.halt()
}
