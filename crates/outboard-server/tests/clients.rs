// SPDX-License-Identifier: GPL-2.0-only
//! Clients of a real kernel, which fill their slots by hand. Needs the real library.

mod support;

use libc::{
    SYS_close, SYS_fcntl, SYS_getpid, SYS_getuid, SYS_kill, SYS_mmap, SYS_pipe2, SYS_prctl,
    SYS_read, SYS_setresuid, SYS_wait4, SYS_write,
};
use outboard_protocol::client::ClientNote;
use outboard_server::InsideUser;
use outboard_slot::layout::{DATA_SIZES, EXEC, EXIT};
use std::thread::{self, sleep};
use std::time::Duration;
use support::{eventually, server, Client, PLACE, USER};

const OTHER: u64 = PLACE + 4096;
const NOBODY: InsideUser = InsideUser {
    user: 65534,
    group: 65534,
};

#[test]
fn clients_are_processes_of_their_own() {
    let (mut a, mut b) = (Client::new(), Client::new());
    assert_eq!(a.numbers(SYS_getpid, [0; 3]), i64::from(a.process));
    assert_eq!(b.numbers(SYS_getpid, [0; 3]), i64::from(b.process));
    assert_ne!(a.process, b.process);
    let file = a.open("/clients-own", libc::O_CREAT | libc::O_RDWR);
    assert_eq!(file, 0, "a process begins without descriptors");
    a.write(PLACE, b"of one");
    assert_eq!(a.numbers(SYS_write, [0, PLACE, 6]), 6);
    assert_eq!(b.numbers(SYS_read, [0, PLACE, 6]), -9);
    assert_eq!(b.open("/clients-own", libc::O_RDONLY), 0);
    assert_eq!(b.numbers(SYS_read, [0, OTHER, 100]), 6);
    assert_eq!(&b.read(OTHER, 6), b"of one");
}

#[test]
fn nothing_leads_outside_of_a_slot() {
    let mut client = Client::new();
    let end = client.size() as u64;
    client.open("/dev/null", libc::O_RDWR);
    let mut read = |offset, length| client.numbers(SYS_read, [0, offset, length]);
    assert_eq!(read(end - 10, 11), -14);
    assert_eq!(read(PLACE, end), -14);
    assert_eq!(read(u64::MAX, 2), -14);
    assert_eq!(read(u64::MAX - 1, u64::MAX), -14);
    assert_eq!(client.numbers(SYS_mmap, [0, 4096, 3]), -95);
    assert_eq!(client.numbers(99_999, [0; 3]), -38);
    assert_eq!(client.ask(77, [0; 3]), Some(-22));
}

#[test]
fn a_copy_is_a_child() {
    let mut parent = Client::new();
    parent.open("/dev/null", libc::O_RDWR);
    let (copy, ticket) = parent.fork();
    let mut child = Client::with_ticket(Some(ticket), USER).unwrap();
    assert_eq!(i64::from(child.process), copy);
    assert_eq!(child.numbers(SYS_getpid, [0; 3]), copy);
    assert_eq!(child.numbers(SYS_close, [0; 3]), 0);
    assert_eq!(
        parent.numbers(SYS_close, [0; 3]),
        0,
        "closed in the copy only"
    );
    assert_eq!(child.ask(EXIT, [3, 0, 0]), Some(0));
    assert_eq!(parent.numbers(SYS_wait4, [copy as u64, PLACE, 0]), copy);
    assert_eq!(parent.read(PLACE, 4), [0, 3, 0, 0]);
    eventually("the copy's connection ends", || !child.is_connected());
}

#[test]
fn a_ticket_is_good_once_and_for_its_user() {
    let mut parent = Client::new();
    let (_, ticket) = parent.fork();
    assert!(Client::with_ticket(Some(ticket), USER + 1).is_none());
    let child = Client::with_ticket(Some(ticket), USER);
    assert!(child.is_some());
    assert!(Client::with_ticket(Some(ticket), USER).is_none());
}

#[test]
fn a_copy_for_which_nobody_comes_ends() {
    let mut parent = Client::new();
    let (copy, _) = parent.fork();
    let (cancelled, ticket) = parent.fork();
    parent.note(ClientNote::Cancel { ticket });
    for number in [cancelled, copy] {
        assert_eq!(parent.numbers(SYS_wait4, [number as u64, PLACE, 0]), number);
        assert_eq!(parent.read(PLACE, 4), [9, 0, 0, 0], "killed");
    }
}

#[test]
fn the_end_of_a_connection_is_the_end_of_its_process() {
    let mut watcher = Client::new();
    let mut client = Client::new();
    let (number, mut thread) = (client.process as u64, client.thread());
    assert_eq!(client.numbers(SYS_pipe2, [PLACE, 0, 0]), 0);
    // A thread blocks in the kernel meanwhile.
    let blocked = thread::spawn(move || thread.numbers(SYS_read, [0, PLACE, 1]));
    sleep(Duration::from_millis(50));
    assert_eq!(watcher.numbers(SYS_kill, [number, 0, 0]), 0);
    client.disconnect();
    eventually("the process ends", || {
        watcher.numbers(SYS_kill, [number, 0, 0]) == -3
    });
    assert!(blocked.join().unwrap() < 0);
    eventually("it is no client any more", || {
        let rows = server().clients();
        rows.iter().all(|row| row.process != number as i32)
    });
}

#[test]
fn a_process_that_is_killed_loses_its_connection() {
    let mut killer = Client::new();
    let mut killed = Client::new();
    assert_eq!(killer.numbers(SYS_kill, [killed.process as u64, 9, 0]), 0);
    eventually("the connection ends", || !killed.is_connected());
    assert!(killed
        .ask(0, [SYS_getpid as u64, 0, 0])
        .is_none_or(|result| result < 0));
}

#[test]
fn an_exec_keeps_the_process() {
    let mut client = Client::new();
    let mut second = client.thread();
    client.open("/dev/null", libc::O_RDWR);
    client.open("/dev/null", libc::O_RDWR | libc::O_CLOEXEC);
    client.write(PLACE, b"new-name\0");
    assert_eq!(client.ask(EXEC, [PLACE, OTHER, 0]), Some(0));
    let ticket = client.ticket(OTHER);
    assert!(
        second.numbers(SYS_getpid, [0; 3]) < 0,
        "other threads have ended"
    );
    let process = client.process;
    drop(client);
    let mut next = Client::with_ticket(Some(ticket), USER).unwrap();
    assert_eq!((next.process, next.thread_number), (process, process));
    assert_eq!(next.numbers(SYS_getpid, [0; 3]), i64::from(process));
    assert_eq!(next.numbers(SYS_close, [0; 3]), 0);
    assert_eq!(next.numbers(SYS_close, [1, 0, 0]), -9);
    assert_eq!(
        next.numbers(SYS_prctl, [libc::PR_GET_NAME as u64, PLACE, 0]),
        0
    );
    assert_eq!(&next.read(PLACE, 9), b"new-name\0");
    assert!(next.thread().numbers(SYS_getpid, [0; 3]) == i64::from(process));
}

#[test]
fn a_program_that_does_not_come_ends_the_process() {
    let mut watcher = Client::new();
    let mut client = Client::new();
    client.write(PLACE, b"x\0");
    assert_eq!(client.ask(EXEC, [PLACE, OTHER, 0]), Some(0));
    let number = client.process as u64;
    drop(client);
    assert_eq!(watcher.numbers(SYS_kill, [number, 0, 0]), 0);
    eventually("the process ends", || {
        watcher.numbers(SYS_kill, [number, 0, 0]) == -3
    });
}

#[test]
fn an_old_program_may_go_on() {
    let mut client = Client::new();
    client.write(PLACE, b"x\0");
    assert_eq!(client.ask(EXEC, [PLACE, OTHER, 0]), Some(0));
    let ticket = client.ticket(OTHER);
    client.note(ClientNote::Cancel { ticket });
    sleep(Duration::from_millis(1800));
    let process = i64::from(client.process);
    assert_eq!(client.numbers(SYS_getpid, [0; 3]), process);
}

#[test]
fn rights_are_those_inside() {
    let mut root = Client::new();
    let file = root.open("/secret", libc::O_CREAT | libc::O_RDWR);
    assert_eq!(root.numbers(libc::SYS_fchmod, [file as u64, 0o600, 0]), 0);
    let mut nobody = Client::inside(NOBODY);
    assert_eq!(nobody.numbers(SYS_getuid, [0; 3]), 65534);
    assert_eq!(nobody.open("/secret", libc::O_RDONLY), -13);
    assert_eq!(nobody.numbers(SYS_kill, [root.process as u64, 9, 0]), -1);
}

#[test]
fn a_new_thread_has_no_more_rights_than_the_others() {
    let mut client = Client::new();
    assert_eq!(client.numbers(SYS_setresuid, [5, 5, 5]), 0);
    let mut thread = client.thread();
    assert_eq!(thread.numbers(SYS_getuid, [0; 3]), 5);
    let mut root = Client::new();
    let file = root.open("/not-for-5", libc::O_CREAT | libc::O_RDWR);
    assert_eq!(root.numbers(libc::SYS_fchmod, [file as u64, 0o600, 0]), 0);
    assert_eq!(thread.open("/not-for-5", libc::O_RDONLY), -13);
}

#[test]
fn threads_share_descriptors_and_have_a_limit() {
    let mut client = Client::new();
    let mut threads: Vec<_> = (0..19).map(|_| client.thread()).collect();
    client.note(ClientNote::Thread);
    assert!(client.answer().is_none(), "there are 20 already");
    let last = threads.len() - 1;
    assert_eq!(threads[last].open("/dev/null", libc::O_RDWR), 0);
    assert_eq!(client.numbers(SYS_fcntl, [0, libc::F_GETFD as u64, 0]), 0);
    threads.pop().unwrap().leave();
    eventually("a thread has left", || client.try_thread().is_some());
}

#[test]
fn open_files_have_a_limit() {
    let mut client = Client::new();
    let opened = (0..64).filter(|_| client.open("/dev/null", libc::O_RDWR) >= 0);
    assert_eq!(opened.count(), 64);
    assert_eq!(client.open("/dev/null", libc::O_RDWR), -24);
}

#[test]
fn a_signal_ends_a_call() {
    let mut client = Client::new();
    let mut thread = client.thread();
    assert_eq!(client.numbers(SYS_pipe2, [PLACE, 0, 0]), 0);
    let number = thread.thread_number;
    let blocked = thread::spawn(move || thread.numbers(SYS_read, [0, PLACE, 1]));
    let mut stale = 0;
    while !blocked.is_finished() {
        // Of the thread's first request; no other one is meant.
        client.note(ClientNote::Interrupt {
            thread: number,
            request: 1,
        });
        client.note(ClientNote::Interrupt {
            thread: number,
            request: 2,
        });
        sleep(Duration::from_millis(5));
        stale += 1;
    }
    assert!(stale > 0);
    assert_eq!(blocked.join().unwrap(), -4);
}

#[test]
fn garbage_ends_a_connection_and_nothing_else() {
    let mut other = Client::new();
    for bytes in [
        &b"\xff\xff\xff\xff\x00"[..],
        b"\x02\0\0\0\0{}",
        b"\x01\0\0\0\x09x",
    ] {
        let client = Client::new();
        client.send_bytes(bytes);
        client.skip_answer();
        eventually("the connection ends", || !client.is_connected());
    }
    assert_eq!(other.numbers(SYS_getpid, [0; 3]), i64::from(other.process));
    assert!(DATA_SIZES.contains(&other.size()));
}
