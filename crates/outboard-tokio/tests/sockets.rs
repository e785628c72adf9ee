// SPDX-License-Identifier: GPL-2.0-only
//! Tasks of tokio and sockets of a kernel in this process. Needs the real library.

use outboard::net::Net;
use outboard::Kernel;
use outboard_tokio::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const CONNECTIONS: usize = 1000;
const ROUNDS: usize = 20;
const ENODEV: i32 = 19;
/// A guard against hangs, not a measure.
const PATIENCE: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_millis(20);

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
}

/// Runs a test with a new kernel, in time.
fn run<F: Future<Output = io::Result<()>>>(test: impl FnOnce(Net) -> F) -> io::Result<()> {
    let kernel = Kernel::builder().vcpus(2).memory(512 << 20).boot()?;
    kernel.net().set_up("lo")?;
    let result = runtime()?.block_on(async { timeout(PATIENCE, test(kernel.net())).await });
    result.expect("a wake-up was lost")
}

/// Echoes everything on all connections.
async fn echo(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut reader, mut writer) = (&stream, &stream);
            tokio::io::copy(&mut reader, &mut writer).await
        });
    }
}

async fn client(net: Arc<Net>, address: SocketAddr, seed: u8) -> io::Result<()> {
    let mut stream = TcpStream::connect(&net, address).await?;
    for round in 0..ROUNDS {
        let sent = vec![seed ^ round as u8; 1 + round * 500];
        stream.write_all(&sent).await?;
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).await?;
        assert!(received == sent, "round {round}");
        tokio::task::yield_now().await;
    }
    stream.shutdown().await?;
    assert_eq!(stream.read(&mut [0]).await?, 0);
    Ok(())
}

#[test]
fn a_thousand_connections_echo() -> io::Result<()> {
    run(|net| async move {
        let listener = TcpListener::bind(&net, local())?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(echo(listener));
        let net = Arc::new(net);
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|seed| tokio::spawn(client(Arc::clone(&net), address, seed as u8)))
            .collect();
        for client in clients {
            client.await.expect("no panic")?;
        }
        server.abort();
        Ok(())
    })
}

#[test]
fn large_writes_arrive_whole() -> io::Result<()> {
    run(|net| async move {
        let (one, other) = UnixStream::pair(&net)?;
        let sent: Vec<u8> = (0..8_000_000_u32)
            .map(|n| (n.wrapping_mul(n) >> 7) as u8)
            .collect();
        let expected = sent.clone();
        let reader = tokio::spawn(async move {
            let mut received = Vec::new();
            (&other).read_to_end(&mut received).await.map(|_| received)
        });
        let mut writer = one;
        writer.write_all(&sent).await?;
        writer.shutdown().await?;
        assert!(reader.await.expect("no panic")? == expected);
        Ok(())
    })
}

#[test]
fn a_connection_is_refused() -> io::Result<()> {
    run(|net| async move {
        let nobody = "127.0.0.1:1".parse().unwrap();
        let error = TcpStream::connect(&net, nobody)
            .await
            .expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        Ok(())
    })
}

#[test]
fn datagrams_arrive() -> io::Result<()> {
    run(|net| async move {
        let (one, other) = (
            UdpSocket::bind(&net, local())?,
            UdpSocket::bind(&net, local())?,
        );
        let (here, there) = (one.local_addr()?, other.local_addr()?);
        let mut buffer = [0; 16];
        let receiver = tokio::spawn(async move {
            let result = other.recv_from(&mut buffer).await?;
            other.send_to(b"back", result.1).await?;
            io::Result::Ok(result)
        });
        one.send_to(b"Hello", there).await?;
        assert_eq!(receiver.await.expect("no panic")?, (5, here));
        one.connect(there)?;
        assert_eq!(one.recv(&mut buffer).await?, 4);
        let (one, other) = UnixDatagram::pair(&net)?;
        one.send(b"abc").await?;
        assert_eq!(other.recv(&mut buffer).await?, 3);
        // A full queue makes the sender wait, and the receiver wakes it.
        let sender = tokio::spawn(async move {
            for number in 0..5000_u32 {
                one.send(&number.to_ne_bytes()).await?;
            }
            io::Result::Ok(())
        });
        for number in 0..5000_u32 {
            other.recv(&mut buffer).await?;
            assert_eq!(buffer[..4], number.to_ne_bytes());
        }
        sender.await.expect("no panic")
    })
}

#[test]
fn unix_listeners_accept() -> io::Result<()> {
    run(|net| async move {
        let listener = UnixListener::bind(&net, "/tmp/s")?;
        let mut client = UnixStream::connect(&net, "/tmp/s")?;
        let (mut server, peer) = listener.accept().await?;
        assert!(peer.is_unnamed() && server.get_ref().peer_cred()?.uid == 0);
        client.write_all(b"x").await?;
        assert_eq!(server.read_u8().await?, b'x');
        Ok(())
    })
}

#[test]
fn a_dropped_future_loses_nothing() -> io::Result<()> {
    run(|net| async move {
        let (mut one, mut other) = UnixStream::pair(&net)?;
        for round in 0..100_u8 {
            let early = timeout(Duration::ZERO, one.read_u8()).await;
            assert!(early.is_err(), "there is nothing to read yet");
            other.write_u8(round).await?;
            assert_eq!(one.read_u8().await?, round);
        }
        let listener = Arc::new(TcpListener::bind(&net, local())?);
        let early = timeout(SHORT, listener.accept()).await;
        assert!(early.is_err(), "nobody connects yet");
        // Two tasks wait, and two connections come.
        let accept = |listener: Arc<TcpListener>| async move { listener.accept().await };
        let waiting: Vec<_> = (0..2)
            .map(|_| tokio::spawn(accept(Arc::clone(&listener))))
            .collect();
        let address = listener.local_addr()?;
        let _clients = [
            TcpStream::connect(&net, address).await?,
            TcpStream::connect(&net, address).await?,
        ];
        for task in waiting {
            task.await.expect("no panic")?;
        }
        Ok(())
    })
}

#[test]
fn tasks_end_with_the_kernel() -> io::Result<()> {
    run(|net| async move {
        let listener = TcpListener::bind(&net, local())?;
        let (mut one, _other) = UnixStream::pair(&net)?;
        let tasks = (
            tokio::spawn(async move { listener.accept().await.map(drop) }),
            tokio::spawn(async move { one.read_u8().await.map(drop) }),
        );
        tokio::time::sleep(SHORT).await;
        let kernel = net.kernel().clone();
        tokio::task::spawn_blocking(|| kernel.halt())
            .await
            .expect("no panic")?;
        for task in [tasks.0, tasks.1] {
            let error = task
                .await
                .expect("no panic")
                .expect_err("the kernel is gone");
            assert_eq!(outboard::errno(&error), Some(ENODEV));
        }
        Ok(())
    })
}

#[test]
fn names_are_resolved() -> io::Result<()> {
    run(|net| async move {
        let found = outboard_tokio::resolve(&net, "localhost", 7).await?;
        assert_eq!(found[0], "127.0.0.1:7".parse().unwrap());
        Ok(())
    })
}

/// A task whose socket is always ready does not keep others from running.
#[test]
fn a_busy_task_gives_way() -> io::Result<()> {
    let kernel = Kernel::builder().vcpus(1).memory(64 << 20).boot()?;
    let net = kernel.net();
    let one_thread = Builder::new_current_thread().enable_time().build()?;
    one_thread.block_on(async {
        let (mut one, mut other) = UnixStream::pair(&net)?;
        let busy = tokio::spawn(async move {
            loop {
                one.write_u8(1).await?;
                other.read_u8().await?;
            }
            #[allow(unreachable_code)]
            io::Result::Ok(())
        });
        tokio::time::sleep(SHORT).await;
        busy.abort();
        Ok(())
    })
}
