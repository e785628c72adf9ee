// SPDX-License-Identifier: MIT
//! The two halves of a slot, as two threads.

use outboard_protocol::CallRequest;
use outboard_slot::{layout, ClientSlot, Peer, ServerSlot};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const SIZE: usize = 64 << 10;

/// A server whose end the test decides, and which counts interrupts.
#[derive(Default)]
struct TestPeer {
    is_gone: AtomicBool,
    interrupted: AtomicU32,
}

impl Peer for TestPeer {
    fn is_alive(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }
    fn interrupt(&self, request: u32) {
        self.interrupted.store(request, Ordering::Relaxed);
    }
}

fn request(number: u64) -> CallRequest {
    CallRequest {
        number,
        arguments: [1, 2, 3, 4, 5, u64::MAX],
    }
}

/// Serves `count` requests: the result is the number, negated.
fn serve(slot: &ServerSlot, count: u64) {
    let mut taker = slot.taker();
    for _ in 0..count {
        let taken = taker.take().expect("the slot is open");
        assert_eq!(taken.call.arguments, request(0).arguments);
        taker.finish(-(taken.call.number as i64));
    }
}

#[test]
fn each_request_gets_its_reply() {
    let (slot, file) = ServerSlot::new(SIZE).unwrap();
    thread::scope(|scope| {
        const COUNT: u64 = 100_000;
        scope.spawn(|| serve(&slot, COUNT));
        let mut client = ClientSlot::new(&file, SIZE).unwrap();
        for number in 0..COUNT {
            if number % 10_000 == 0 {
                // Long enough that both sleep.
                thread::sleep(Duration::from_millis(1));
            }
            let result = client.call(layout::CALL, &request(number), &TestPeer::default());
            assert_eq!(result, Some(-(number as i64)));
        }
    });
}

#[test]
fn a_closed_slot_wakes_its_taker() {
    let (slot, _file) = ServerSlot::new(SIZE).unwrap();
    thread::scope(|scope| {
        let taker = scope.spawn(|| slot.taker().take());
        while !taker.is_finished() {
            slot.close();
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(taker.join().unwrap(), None);
    });
}

#[test]
fn a_client_without_a_server_does_not_wait() {
    let (_slot, file) = ServerSlot::new(SIZE).unwrap();
    let mut client = ClientSlot::new(&file, SIZE).unwrap();
    let peer = TestPeer::default();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.call(layout::CALL, &request(1), &peer));
        thread::sleep(Duration::from_millis(150));
        assert!(!waiting.is_finished());
        peer.is_gone.store(true, Ordering::Relaxed);
        assert_eq!(waiting.join().unwrap(), None);
    });
}

extern "C" fn handle(_signal: i32) {}

#[test]
fn a_signal_is_told_to_the_server() {
    // SAFETY: the handler does nothing; all-zero is valid for the structure.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    let (slot, file) = ServerSlot::new(SIZE).unwrap();
    let (peer, sent) = (TestPeer::default(), AtomicBool::new(false));
    // SAFETY: has no arguments.
    let client_thread = unsafe { libc::pthread_self() } as usize;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut taker = slot.taker();
            taker.take().expect("the slot is open");
            while peer.interrupted.load(Ordering::Relaxed) == 0 {
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(client_thread as libc::pthread_t, libc::SIGUSR1) };
                sent.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
            taker.finish(-4);
        });
        let mut client = ClientSlot::new(&file, SIZE).unwrap();
        assert_eq!(client.call(layout::CALL, &request(1), &peer), Some(-4));
    });
    assert!(sent.load(Ordering::Relaxed));
    assert_eq!(peer.interrupted.load(Ordering::Relaxed), 1);
}

#[test]
fn a_client_that_writes_what_it_likes_ends_nothing() {
    let (slot, file) = ServerSlot::new(SIZE).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut taker = slot.taker();
            let mut taken = 0_u64;
            while taker.take().is_some() {
                taken += 1;
                taker.finish(0);
            }
            taken
        });
        scope.spawn(|| {
            let mut clients: Vec<ClientSlot> = (0..2)
                .map(|_| ClientSlot::new(&file, SIZE).unwrap())
                .collect();
            while !stop.load(Ordering::Relaxed) {
                clients
                    .iter_mut()
                    .for_each(|client| client.send(99, &request(1)));
            }
        });
        thread::sleep(Duration::from_millis(100));
        while !taker.is_finished() {
            slot.close();
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(taker.join().unwrap() > 0);
    });
}
