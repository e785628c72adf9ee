// SPDX-License-Identifier: GPL-2.0-only
//! The bridge from the kernel's epoll to functions and to descriptors of the host.

use crate::support::*;
use outboard::net::{Event, Net, Poller, Ready};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;

const LOCAL: &str = "127.0.0.1:0";
const ROUNDS: usize = 20_000;
const IDLE: usize = 1000;

/// Waits for events. Panics if none come.
fn wait(poller: &Poller) -> Vec<Event> {
    let events = poller.wait(Some(PATIENCE)).expect("it can be polled");
    assert!(!events.is_empty(), "a wake-up was lost");
    events
}

#[test]
fn a_function_runs_when_a_socket_becomes_ready() -> io::Result<()> {
    let net = net()?;
    let listener = net.tcp_listen(LOCAL)?;
    let (sender, receiver) = mpsc::channel();
    let watch = net.watch(&listener, move |ready| sender.send(ready).unwrap_or(()))?;
    let client = net.tcp_connect(listener.local_addr()?)?;
    let ready = receiver.recv_timeout(PATIENCE).expect("it runs");
    assert!(ready.is_readable() && !ready.is_closed());
    let (server, _) = listener.accept()?;
    drop(watch);
    // This ends when the function is dropped.
    receiver.iter().for_each(drop);

    let (sender, receiver) = mpsc::channel();
    let _watch = net.watch(&server, move |ready| sender.send(ready).unwrap_or(()))?;
    let first = receiver
        .recv_timeout(PATIENCE)
        .expect("it is ready to write");
    assert!(first.is_writable() && !first.is_readable());
    drop(client);
    while !receiver
        .recv_timeout(PATIENCE)
        .expect("it is closed")
        .is_closed()
    {}
    Ok(())
}

#[test]
fn a_function_that_panics_does_not_stop_others() -> io::Result<()> {
    let net = net()?;
    let (one, other) = net.unix_pair()?;
    let _bad = net.watch(&one, |_| panic!("on purpose"))?;
    let (sender, receiver) = mpsc::channel();
    let _good = net.watch(&one, move |ready| sender.send(ready).unwrap_or(()))?;
    (&other).write_all(b"x")?;
    while !receiver
        .recv_timeout(PATIENCE)
        .expect("it runs")
        .is_readable()
    {}
    Ok(())
}

/// One thread writes a byte after the reader has got the one before, so each wake-up counts: if one
/// is lost, both wait for ever.
fn race(net: &Net, rounds: usize) -> io::Result<()> {
    let (one, other) = net.unix_pair()?;
    one.set_nonblocking(true)?;
    let poller = Poller::new()?;
    let _registration = poller.add(net, &one, 1)?;
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let mut byte = [0];
            for _ in 0..rounds {
                (&other).write_all(b"x")?;
                (&other).read_exact(&mut byte)?;
            }
            io::Result::Ok(())
        });
        let mut received = 0;
        while received < rounds {
            match (&one).read(&mut [0; 8]) {
                Ok(length) => {
                    received += length;
                    (&one).write_all(b"y")?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait(&poller);
                }
                Err(error) => return Err(error),
            }
        }
        echo.join().expect("no panic")
    })
}

#[test]
fn no_wake_up_is_lost() -> io::Result<()> {
    let net = net()?;
    thread::scope(|scope| {
        let races: Vec<_> = (0..2).map(|_| scope.spawn(|| race(&net, ROUNDS))).collect();
        races
            .into_iter()
            .try_for_each(|race| race.join().expect("no panic"))
    })
}

fn count(calls: &AtomicUsize) {
    calls.fetch_add(1, Ordering::SeqCst);
}

/// Watches come and go while events arrive.
#[test]
fn watches_come_and_go() -> io::Result<()> {
    let net = net()?;
    let (one, other) = net.unix_pair()?;
    let calls = Arc::new(AtomicUsize::new(0));
    for _ in 0..2000 {
        let counted = Arc::clone(&calls);
        let watch = net.watch(&one, move |_| count(&counted))?;
        (&other).write_all(b"x")?;
        drop(watch);
        (&one).read_exact(&mut [0])?;
    }
    // The functions are freed, and their captured references with them.
    wait_until("no function is left", || Arc::strong_count(&calls) == 1);
    Ok(())
}

/// Nanoseconds of processor time of the bridge's threads of this process.
fn time_of_bridges() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("it is there");
    let of_task = |task: io::Result<std::fs::DirEntry>| {
        let path = task.ok()?.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let times = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let time = times.split(' ').next()?.parse::<u64>().ok()?;
        name.starts_with("outboard-ready").then_some(time)
    };
    tasks.filter_map(of_task).sum()
}

#[test]
fn idle_connections_cost_nothing() -> io::Result<()> {
    let net = net()?;
    let listener = net.tcp_listen(LOCAL)?;
    let poller = Poller::new()?;
    let mut ends = Vec::new();
    for token in 0..IDLE as u64 {
        let client = net.tcp_connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        let registration = poller.add(&net, &server, token)?;
        ends.push((client, server, registration));
    }
    // Each is ready to write at first.
    let mut ready = std::collections::HashSet::new();
    while ready.len() < IDLE {
        ready.extend(wait(&poller).iter().map(|event| event.token));
    }
    assert!(poller.wait(Some(Duration::ZERO))?.is_empty());
    // Other tests have bridges, too: those may work meanwhile, but not for ever.
    let is_idle = || {
        let before = time_of_bridges();
        thread::sleep(Duration::from_millis(300));
        time_of_bridges() - before < 3_000_000
    };
    wait_until("the bridges are idle", is_idle);
    (&ends[700].0).write_all(b"x")?;
    let events = wait(&poller);
    assert_eq!(events.len(), 1);
    assert!(events[0].token == 700 && events[0].ready.is_readable());
    Ok(())
}

#[test]
fn the_bridge_ends_with_the_kernel() -> io::Result<()> {
    let net = net()?;
    let (one, _other) = net.unix_pair()?;
    let (sender, receiver) = mpsc::channel();
    let watch = net.watch(&one, move |ready: Ready| sender.send(ready).unwrap_or(()))?;
    let poller = Poller::new()?;
    let _registration = poller.add(&net, &one, 9)?;
    wait(&poller);
    receiver
        .recv_timeout(PATIENCE)
        .expect("it is ready to write");
    net.kernel().clone().halt()?;
    while !receiver
        .recv_timeout(PATIENCE)
        .expect("the halt")
        .is_closed()
    {}
    assert!(wait(&poller)[0].ready.is_closed());
    // The function is dropped though its watch lives.
    let end = receiver.recv_timeout(PATIENCE);
    assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected));
    drop(watch);
    Ok(())
}

/// A kernel halts with its last handle, though its bridge has a thread.
#[test]
fn the_bridge_does_not_keep_the_kernel() -> io::Result<()> {
    let net = net()?;
    let (one, _other) = net.unix_pair()?;
    let (sender, receiver) = mpsc::channel();
    let watch = net.watch(&one, move |ready: Ready| sender.send(ready).unwrap_or(()))?;
    drop(net);
    while !receiver
        .recv_timeout(PATIENCE)
        .expect("the halt")
        .is_closed()
    {}
    assert_eq!(number((&one).read(&mut [0])), Some(ENODEV));
    drop(watch);
    Ok(())
}
