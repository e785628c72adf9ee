// SPDX-License-Identifier: GPL-2.0-only
//! Many clients, which end at any instant and say anything. Nothing is left of them, and others go
//! on meanwhile. Needs the real library.

mod support;

use libc::{
    SYS_getdents64, SYS_getpid, SYS_nanosleep, SYS_pipe2, SYS_poll, SYS_read, SYS_readlink,
    SYS_recvmsg, SYS_sendmsg, SYS_socketpair, SYS_sysinfo, SYS_write,
};
use outboard_protocol::client::ClientNote;
use outboard_server::InsideUser;
use outboard_slot::layout::{CALL, EXEC, FORK, LEAVE};
use std::fs::read_dir;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::Duration;
use support::{eventually, server, Client, PLACE};

/// One test at a time counts.
static COUNTED: Mutex<()> = Mutex::new(());
/// The place of the number of tasks in the answer of sysinfo(2).
const TASKS: u64 = 80;

/// The counts that must be as before.
#[derive(Debug)]
struct Counts {
    /// Tasks of the kernel.
    tasks: usize,
    /// Threads of this process.
    threads: usize,
    /// Open files of this process.
    files: usize,
    clients: usize,
}

fn entries(directory: &str) -> usize {
    read_dir(directory).unwrap().count()
}

fn counts(counter: &mut Client) -> Counts {
    assert_eq!(counter.numbers(SYS_sysinfo, [PLACE, 0, 0]), 0);
    let tasks = counter.read(PLACE + TASKS, 2);
    Counts {
        tasks: u16::from_ne_bytes([tasks[0], tasks[1]]).into(),
        threads: entries("/proc/self/task"),
        files: entries("/proc/self/fd"),
        clients: server().clients().len(),
    }
}

/// The kernel and this process have more for themselves when there was much to do: workers, and
/// what they have open.
const MORE: usize = 8;

/// Waits until not much more is there than before.
fn expect(counter: &mut Client, before: &Counts) {
    eventually(&format!("{before:?} again"), || {
        let now = counts(counter);
        let is_back = now.tasks <= before.tasks + MORE
            && now.threads <= before.threads + MORE
            && now.files <= before.files + MORE
            && now.clients <= before.clients;
        if !is_back {
            println!("{now:?}");
        }
        is_back
    });
}

/// Numbers by chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[test]
fn a_thousand_clients_at_a_time() {
    let _one = COUNTED.lock();
    // Threads and tasks that the first clients leave to the next ones.
    drop((0..20).map(|_| Client::new()).collect::<Vec<_>>());
    let mut counter = Client::new();
    let before = counts(&mut counter);
    let mut clients: Vec<Client> = (0..1000).map(|_| Client::new()).collect();
    for client in &mut clients {
        let process = i64::from(client.process);
        assert_eq!(client.numbers(SYS_getpid, [0; 3]), process);
    }
    assert!(server().clients().len() >= 1000);
    drop(clients);
    expect(&mut counter, &before);
}

/// Leaves a client behind in some state.
fn end_somehow(chance: &mut Chance) {
    let mut client = Client::new();
    match chance.below(8) {
        0 => {}
        1 => {
            client.numbers(SYS_pipe2, [PLACE, 0, 0]);
            client.begin(SYS_read, [0, PLACE, 1]);
        }
        2 => {
            client.fork();
        }
        3 => {
            let (_, ticket) = client.fork();
            let mut copy = Client::with_ticket(Some(ticket), support::USER).unwrap();
            copy.begin(SYS_getpid, [0; 3]);
        }
        4 => {
            client.write(PLACE, b"name\0");
            client.ask(EXEC, [PLACE, 4096, 0]);
        }
        5 => {
            let mut thread = client.thread();
            thread.begin(SYS_getpid, [0; 3]);
        }
        6 => {
            client.note(ClientNote::Thread);
            client.begin_operation(FORK, [PLACE, 0, 0]);
        }
        _ => client.begin_operation(LEAVE, [0; 3]),
    }
    sleep(Duration::from_micros(chance.below(300)));
}

#[test]
fn clients_that_end_in_any_state_leave_nothing() {
    let _one = COUNTED.lock();
    let mut counter = Client::new();
    let before = counts(&mut counter);
    thread::scope(|scope| {
        for seed in 1..=4 {
            scope.spawn(move || {
                let mut chance = Chance(seed);
                (0..250).for_each(|_| end_somehow(&mut chance));
            });
        }
    });
    expect(&mut counter, &before);
}

/// Says anything until it is told to stop, by two threads in one slot.
fn say_anything(seed: u64, stop: &AtomicBool) {
    const NUMBERS: [i64; 9] = [
        SYS_read,
        SYS_write,
        SYS_poll,
        SYS_recvmsg,
        SYS_sendmsg,
        SYS_getdents64,
        SYS_readlink,
        SYS_socketpair,
        SYS_nanosleep,
    ];
    let mut chance = Chance(seed);
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::inside(InsideUser {
            user: 99,
            group: 99,
        });
        client.numbers(SYS_pipe2, [PLACE, libc::O_NONBLOCK as u64, 0]);
        let mut other = client.same_slot();
        thread::scope(|scope| {
            let seed = chance.next() | 1;
            let scribble = scope.spawn(move || {
                let mut chance = Chance(seed);
                for _ in 0..2000 {
                    let bytes = chance.next().to_ne_bytes();
                    other.write(chance.below(1024), &bytes[..]);
                }
            });
            while !scribble.is_finished() {
                let number = NUMBERS[chance.below(9) as usize];
                let operation = match chance.below(50) {
                    0 => chance.next() as u32,
                    _ => CALL,
                };
                let argument = |chance: &mut Chance| match chance.below(4) {
                    0 => chance.below(4),
                    1 => chance.below(1024),
                    2 => chance.below(300_000),
                    _ => chance.next(),
                };
                let a = [(); 3].map(|()| argument(&mut chance));
                client.begin_with(operation, number, a);
            }
        });
    }
}

#[test]
fn a_client_that_says_anything_hurts_itself_only() {
    let _one = COUNTED.lock();
    let mut counter = Client::new();
    let before = counts(&mut counter);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..=2 {
            let stop = &stop;
            scope.spawn(move || say_anything(seed, stop));
        }
        let mut other = Client::new();
        let process = i64::from(other.process);
        for _ in 0..2000 {
            assert_eq!(other.numbers(SYS_getpid, [0; 3]), process);
        }
        stop.store(true, Ordering::Relaxed);
    });
    expect(&mut counter, &before);
}
