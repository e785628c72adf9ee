// SPDX-License-Identifier: GPL-2.0-only
//! Blocking calls can be cancelled.

use crate::support::*;
use outboard::net::Net;
use outboard::Cancel;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const LOCAL: &str = "127.0.0.1:0";
const TURNS: usize = 2000;

/// Blocks in a call, cancels it, and expects that.
fn cancel_blocked<T: Send>(net: &Net, call: impl Fn() -> io::Result<T> + Send + Sync) {
    let cancel = Cancel::new();
    let work = || cancel.run(&call);
    let result = while_blocked(net.kernel(), work, || cancel.cancel());
    let error = result.err().expect("it was cancelled");
    assert!(Cancel::has_caused(&error), "{error}");
    assert_eq!(outboard::errno(&error), Some(ECANCELED));
    // Later calls of the same cancel do not even begin.
    let later = cancel.run(&call);
    assert_eq!(number(later), Some(ECANCELED));
}

#[test]
fn every_blocking_call_can_be_cancelled() -> io::Result<()> {
    let net = net()?;
    let listener = net.tcp_listen(LOCAL)?;
    let client = net.tcp_connect(listener.local_addr()?)?;
    let _server = listener.accept()?.0;
    let datagrams = net.udp_bind(LOCAL)?;
    let (unix, _other) = net.unix_pair()?;
    cancel_blocked(&net, || listener.accept());
    // std repeats a call after EINTR, and not after this error.
    cancel_blocked(&net, || (&client).read_exact(&mut [0; 2]));
    cancel_blocked(&net, || (&unix).read_to_end(&mut Vec::new()));
    cancel_blocked(&net, || datagrams.recv_from(&mut [0]));
    let piece = vec![0; 1 << 20];
    cancel_blocked(&net, || {
        (0..64).try_for_each(|_| (&client).write_all(&piece))
    });
    net.add_dummy("nowhere")?;
    net.set_up("nowhere")?;
    net.add_address("nowhere", "10.9.0.1/24")?;
    let nobody = "10.9.0.2:9".parse().unwrap();
    cancel_blocked(&net, || net.tcp_connect(nobody));
    cancel_blocked(&net, || net.tcp_connect_timeout(&nobody, PATIENCE));
    write_file(net.kernel(), "/etc/resolv.conf", "nameserver 10.9.0.2\n")?;
    cancel_blocked(&net, || net.resolve("host.example", 80));
    Ok(())
}

#[test]
fn a_plain_interrupt_ends_one_call() -> io::Result<()> {
    let net = net()?;
    let listener = net.tcp_listen(LOCAL)?;
    let kernel = net.kernel();
    let (sender, receiver) = std::sync::mpsc::channel();
    let work = || {
        sender.send(kernel.thread()).expect("it is read");
        listener.accept().map(drop)
    };
    let result = while_blocked(kernel, work, || {
        let thread = receiver
            .recv()
            .expect("it was sent")
            .expect("the kernel runs");
        kernel.interrupt(thread).expect("it is known");
    });
    assert_eq!(kind(result), Some(ErrorKind::Interrupted));
    Ok(())
}

/// Data that arrive and a cancellation race. No byte is lost, and no interrupt is left over that
/// would end a call without a cancel.
#[test]
fn nothing_is_lost_in_a_race() -> io::Result<()> {
    let net = net()?;
    let (one, other) = net.unix_pair()?;
    let mut received = 0_u64;
    let mut sent = 0_u64;
    for turn in 0..TURNS {
        let cancel = Cancel::new();
        let went = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                while !went.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                cancel.cancel();
            });
            scope.spawn(|| {
                while !went.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                if turn % 2 == 0 {
                    (&other).write_all(b"x").expect("there is room");
                }
            });
            went.store(true, Ordering::Relaxed);
            cancel.run(|| (&one).read(&mut [0; 8]))
        });
        sent += u64::from(turn % 2 == 0);
        match result {
            Ok(length) => received += length as u64,
            Err(error) => assert!(Cancel::has_caused(&error), "turn {turn}: {error}"),
        }
        // A call without a cancel: a left-over interrupt would end it.
        net.kernel().system().sleep(Duration::from_micros(100))?;
        one.set_nonblocking(true)?;
        match (&one).read(&mut [0; 8]) {
            Ok(length) => received += length as u64,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "turn {turn}"),
        }
        one.set_nonblocking(false)?;
    }
    assert_eq!(received, sent);
    Ok(())
}

#[test]
fn cancels_nest() -> io::Result<()> {
    let net = net()?;
    let (one, _other) = net.unix_pair()?;
    let (outer, inner) = (Cancel::new(), Cancel::new());
    let work = || outer.run(|| inner.run(|| (&one).read(&mut [0])));
    let result = while_blocked(net.kernel(), work, || outer.cancel());
    assert_eq!(number(result), Some(ECANCELED));
    assert!(!inner.is_cancelled());
    // One function is over, so its cancel has no effect any more.
    one.set_nonblocking(true)?;
    let after = inner.run(|| (&one).read(&mut [0]));
    assert_eq!(kind(after), Some(ErrorKind::WouldBlock));
    Ok(())
}
