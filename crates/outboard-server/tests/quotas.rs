// SPDX-License-Identifier: GPL-2.0-only
//! Clients that take all that they can get: others go on, and get it when they have ended. Needs
//! the real library.

mod support;

use libc::{
    SYS_close, SYS_fcntl, SYS_ftruncate, SYS_getpid, SYS_memfd_create, SYS_pipe2, SYS_socketpair,
    SYS_unlink, SYS_write,
};
use std::sync::Mutex;
use support::{eventually, Client, MEMORY, PLACE, USER};

/// One test at a time counts memory.
static COUNTED: Mutex<()> = Mutex::new(());

const ENOMEM: i64 = -12;
const EAGAIN: i64 = -11;
const EMFILE: i64 = -24;
const ENFILE: i64 = -23;
const ENOBUFS: i64 = -105;
/// Where the bytes to write lie.
const BYTES: u64 = 4096;
const PIECE: u64 = 128 << 10;

/// Writes to a descriptor until it is refused. Returns how many bytes it took, and the error.
fn fill(client: &mut Client, file: i64, most: u64) -> (u64, i64) {
    let mut taken = 0;
    while taken < most {
        match client.numbers(SYS_write, [file as u64, BYTES, PIECE]) {
            result if result > 0 => taken += result as u64,
            error => return (taken, error),
        }
    }
    (taken, 0)
}

/// A file in memory, until it is refused.
fn fill_file(client: &mut Client, path: &str) -> (u64, i64) {
    let file = client.open(path, libc::O_CREAT | libc::O_RDWR | libc::O_TRUNC);
    assert!(file >= 0, "{file}");
    fill(client, file, 4 * MEMORY)
}

/// What a client does that is no thief.
fn works(client: &mut Client, name: &str) {
    let process = i64::from(client.process);
    assert_eq!(client.numbers(SYS_getpid, [0; 3]), process);
    let file = client.open(name, libc::O_CREAT | libc::O_RDWR);
    assert!(file >= 0, "{file}");
    assert_eq!(fill(client, file, 2 << 20), (2 << 20, 0));
    client.write(PLACE, format!("{name}\0").as_bytes());
    assert_eq!(client.numbers(SYS_unlink, [PLACE, 0, 0]), 0);
    assert_eq!(client.numbers(SYS_close, [file as u64, 0, 0]), 0);
    let copy = client.fork();
    assert!(Client::with_ticket(Some(copy.1), USER).is_some());
}

#[test]
fn files_in_memory_have_a_limit() {
    let _one = COUNTED.lock();
    let (mut thief, mut other) = (Client::new(), Client::new());
    let ticket = thief.fork().1;
    let mut thief_copy = Client::with_ticket(Some(ticket), USER).unwrap();
    let (taken, error) = fill_file(&mut thief, "/quota-file");
    assert_eq!(error, ENOMEM);
    assert!(taken > MEMORY / 2 && taken <= MEMORY, "{taken}");
    works(&mut other, "/other-of-file");
    // A copy has no memory of its own; not even for a file's first page.
    let file = thief_copy.open("/quota-file", libc::O_RDWR | libc::O_APPEND);
    assert!(file == ENOMEM || fill(&mut thief_copy, file, MEMORY).1 == ENOMEM);
    // A file stays when its maker ends.
    drop((thief, thief_copy));
    works(&mut Client::new(), "/other-of-copy");
    other.write(PLACE, b"/quota-file\0");
    assert_eq!(other.numbers(SYS_unlink, [PLACE, 0, 0]), 0);
    eventually("the memory comes back", || {
        let (taken, _) = fill_file(&mut other, "/quota-again");
        other.write(PLACE, b"/quota-again\0");
        assert_eq!(other.numbers(SYS_unlink, [PLACE, 0, 0]), 0);
        taken > MEMORY / 2
    });
}

#[test]
fn memory_files_have_a_limit() {
    let _one = COUNTED.lock();
    let (mut thief, mut other) = (Client::new(), Client::new());
    thief.write(PLACE, b"thief\0");
    let file = thief.numbers(SYS_memfd_create, [PLACE, 0, 0]);
    assert!(file >= 0, "{file}");
    let size = 4 * MEMORY;
    assert_eq!(thief.numbers(SYS_ftruncate, [file as u64, size, 0]), 0);
    let (taken, error) = fill(&mut thief, file, size);
    assert_eq!(error, ENOMEM);
    assert!(taken <= MEMORY, "{taken}");
    works(&mut other, "/other-of-memory");
}

/// Makes pairs, and fills them. Returns how many bytes they took, and the last error.
fn fill_pairs(client: &mut Client, mut make: impl FnMut(&mut Client) -> i64) -> (u64, i64) {
    let mut all = 0;
    loop {
        let made = make(client);
        if made < 0 {
            return (all, made);
        }
        let ends = client.read(PLACE, 8);
        let end = i32::from_ne_bytes(ends[4..].try_into().unwrap());
        // 1 MiB: the most without rights. Sockets have their own.
        client.numbers(SYS_fcntl, [end as u64, libc::F_SETPIPE_SZ as u64, 1 << 20]);
        let (taken, error) = fill(client, end.into(), 1 << 30);
        all += taken;
        if error != EAGAIN {
            return (all, error);
        }
    }
}

#[test]
fn pipes_and_sockets_have_a_limit() {
    let _one = COUNTED.lock();
    let (mut thief, mut other) = (Client::new(), Client::new());
    let pipe = |client: &mut Client| client.numbers(SYS_pipe2, [PLACE, libc::O_NONBLOCK as u64, 0]);
    // Descriptors have a limit, too: copies have more of them, and the same limit of memory.
    let copy = |_| Client::with_ticket(Some(thief.fork().1), USER).unwrap();
    let mut copies: Vec<Client> = (0..8).map(copy).collect();
    let (taken, error) = fill_pairs(&mut thief, pipe);
    assert!(matches!(error, ENOMEM | EMFILE), "{error}");
    assert!(taken <= MEMORY, "{taken}");
    works(&mut other, "/other-of-pipes");
    let mut all = taken;
    for copy in &mut copies {
        let pair = |client: &mut Client| {
            let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
            let call = [libc::AF_UNIX as u64, kind as u64, 0, PLACE];
            client.four(SYS_socketpair, call)
        };
        let (taken, error) = fill_pairs(copy, pair);
        let is_refusal = matches!(error, ENOMEM | EMFILE | ENFILE | ENOBUFS);
        assert!(is_refusal, "{error}");
        all += taken;
    }
    assert!(all <= MEMORY, "{all}");
    works(&mut other, "/other-of-sockets");
    drop((thief, copies));
    eventually("the memory comes back", || {
        fill_pairs(&mut Client::new(), pipe).0 >= taken / 2
    });
}

#[test]
fn copies_have_a_limit() {
    let _one = COUNTED.lock();
    let (mut thief, mut other) = (Client::new(), Client::new());
    let mut copies = 0;
    let error = loop {
        match thief
            .ask(outboard_slot::layout::FORK, [PLACE, 0, 0])
            .unwrap()
        {
            copy if copy > 0 => copies += 1,
            error => break error,
        }
    };
    assert_eq!(error, EAGAIN);
    assert!(copies < 200, "{copies}");
    works(&mut other, "/other-of-copies");
}
