// SPDX-License-Identifier: MIT
//! The client against a server without a kernel, which can lie.

mod fake;

use fake::{Call, FakeServer, COPY, SLOT};
use outboard_client::{Client, ForkSide, Reconnect};
use outboard_protocol::client::{ClientAnswer, VERSION};
use outboard_protocol::frames::Frame;
use outboard_slot::ServerSlot;
use rustix::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

const READ: u64 = 0;
const WRITE: u64 = 1;
const FSTAT: u64 = 5;
const PAUSE: u64 = 34;
const GETPID: u64 = 39;
const GETTID: u64 = 186;

/// A file of 200,000 bytes at descriptor 3; pause(2) waits for an interrupt.
fn answer(call: &Call) -> i64 {
    let [descriptor, place, length, ..] = call.request.arguments;
    match call.request.number {
        GETPID => call.process.into(),
        GETTID => call.thread.into(),
        FSTAT => {
            let mode = libc::S_IFREG.to_ne_bytes();
            call.slot.write(place as usize + 24, &mode);
            0
        }
        READ if descriptor == 3 => {
            call.slot
                .write(place as usize, &vec![b'r'; length as usize]);
            length as i64
        }
        WRITE => {
            let bytes = call.bytes(1, length as usize);
            assert!(bytes.iter().all(|&byte| byte == b'w'));
            length as i64
        }
        PAUSE => {
            let own = (call.thread, call.number);
            call.server.wait(|seen| seen.interrupted.contains(&own));
            -i64::from(libc::EINTR)
        }
        _ => -i64::from(libc::EBADF),
    }
}

/// A test of both kinds of servers.
macro_rules! near_and_far {
    ($($name:ident),* $(,)?) => {
        mod near {
            $(#[test] fn $name() { super::$name(&super::FakeServer::new(super::answer)); })*
        }
        mod far {
            $(#[test] fn $name() { super::$name(&super::FakeServer::far(super::answer)); })*
        }
    };
}

near_and_far!(
    each_thread_has_a_slot_and_leaves,
    calls_larger_than_a_slot_are_whole,
    a_signal_ends_a_call,
    a_lost_server_ends_calls_and_the_next_one_connects_again,
    a_child_is_the_copy_in_the_kernel,
    a_fork_of_the_host_has_no_connection,
    an_exit_has_a_status,
);

/// A call without pointers.
fn call(client: &Client, number: u64) -> i64 {
    // SAFETY: no argument is a pointer.
    unsafe { client.call(number, [0; 6]) }
}

fn errno(number: i32) -> i64 {
    -i64::from(number)
}

fn each_thread_has_a_slot_and_leaves(server: &FakeServer) {
    let client = server.client();
    let process = client.process().unwrap();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let own = call(&client, GETTID);
                for _ in 0..1000 {
                    assert_eq!(call(&client, GETTID), own);
                    assert_eq!(call(&client, GETPID), i64::from(process));
                }
            });
        }
    });
    server.shared.wait(|seen| seen.left.len() == 20);
    let mut left = server.shared.seen.lock().unwrap().left.clone();
    left.sort_unstable();
    left.dedup();
    assert_eq!(left.len(), 20);
    drop(client);
    server.shared.wait(|seen| seen.ended == [process]);
}

fn calls_larger_than_a_slot_are_whole(server: &FakeServer) {
    let client = server.client();
    let mut bytes = vec![0_u8; 5 * SLOT + 7];
    let length = bytes.len() as u64;
    let arguments = [3, bytes.as_mut_ptr() as u64, length, 0, 0, 0];
    // SAFETY: the bytes outlive the call.
    assert_eq!(unsafe { client.call(READ, arguments) }, length as i64);
    assert!(bytes.iter().all(|&byte| byte == b'r'));
    bytes.fill(b'w');
    // SAFETY: as above.
    assert_eq!(unsafe { client.call(WRITE, arguments) }, length as i64);
}

extern "C" fn nothing(_signal: i32) {}

fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handler is safe in a signal, and the structure is filled.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

fn a_signal_ends_a_call(server: &FakeServer) {
    handle(libc::SIGUSR1, nothing);
    let client = server.client();
    thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let caller = scope.spawn(|| {
            // SAFETY: has no arguments.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            drop(sender);
            call(&client, PAUSE)
        });
        let thread = receiver.recv().unwrap();
        while !caller.is_finished() {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(caller.join().unwrap(), errno(libc::EINTR));
    });
}

/// The client whose call a handler interrupts, and the result of the handler's own call.
static NESTED: std::sync::OnceLock<Client> = std::sync::OnceLock::new();
static NESTED_RESULT: AtomicI64 = AtomicI64::new(0);

extern "C" fn call_in_handler(_signal: i32) {
    if let Some(client) = NESTED.get() {
        // The least: a signal can also come between two calls.
        NESTED_RESULT.fetch_min(call(client, GETPID), Ordering::SeqCst);
    }
}

#[test]
fn a_handler_cannot_call_inside_a_call() {
    handle(libc::SIGUSR2, call_in_handler);
    let server = FakeServer::new(answer);
    let client = NESTED.get_or_init(|| server.client());
    let (sender, receiver) = std::sync::mpsc::channel();
    let caller = thread::spawn(move || {
        assert!(call(client, GETPID) > 0);
        // SAFETY: has no arguments.
        sender.send(unsafe { libc::pthread_self() }).unwrap();
        call(client, PAUSE)
    });
    let thread = receiver.recv().unwrap();
    // A signal may come before the thread sleeps, and interrupts nothing then.
    while !caller.is_finished() {
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(caller.join().unwrap(), errno(libc::EINTR));
    assert_eq!(NESTED_RESULT.load(Ordering::SeqCst), errno(libc::EDEADLK));
}

fn a_lost_server_ends_calls_and_the_next_one_connects_again(server: &FakeServer) {
    let client = server.client();
    client.set_reconnect(Reconnect::For(Duration::from_secs(5)));
    let first = call(&client, GETPID);
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            assert_eq!(call(&client, PAUSE), errno(libc::ENOTCONN));
            call(&client, GETPID)
        });
        thread::sleep(Duration::from_millis(50));
        server.break_connections();
        let second = caller.join().unwrap();
        assert!(second > 0 && second != first, "{second}");
        assert_eq!(call(&client, GETPID), second);
    });
}

#[test]
fn without_a_policy_a_lost_connection_stays_lost() {
    let server = FakeServer::new(answer);
    let client = server.client();
    assert!(call(&client, GETPID) > 0);
    server.break_connections();
    for _ in 0..3 {
        let result = call(&client, GETPID);
        // The slot may answer once more: it is memory that both still have.
        if result > 0 {
            thread::sleep(Duration::from_millis(200));
        }
    }
    assert_eq!(call(&client, GETPID), errno(libc::ENOTCONN));
    assert_eq!(client.process(), None);
    client.disconnect();
    assert_eq!(call(&client, GETPID), errno(libc::ENOTCONN));
}

/// Runs the code in a child, and returns the status with which it ends.
fn in_child(side: Result<ForkSide, i32>, code: impl FnOnce(&Client) -> i32) -> (i32, i32) {
    match side.unwrap() {
        ForkSide::Child { client, error } => {
            let status = if error.is_some() { 99 } else { code(&client) };
            // SAFETY: ends the child, and runs nothing of the parent.
            unsafe { libc::_exit(status) }
        }
        ForkSide::Parent { process, host } => (process, status_of(host)),
    }
}

fn status_of(host: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    assert_eq!(unsafe { libc::waitpid(host, &mut status, 0) }, host);
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

fn a_child_is_the_copy_in_the_kernel(server: &FakeServer) {
    let client = server.client();
    let own = call(&client, GETPID);
    // SAFETY: the child uses the client alone, and ends.
    let side = unsafe { client.fork() };
    let (process, status) = in_child(side, |child| {
        i32::from(call(child, GETPID) != i64::from(COPY) || call(&client, GETPID) != -107)
    });
    assert_eq!((process, status), (COPY, 0));
    assert_eq!(call(&client, GETPID), own);
    server.shared.wait(|seen| seen.ended == [COPY]);
}

fn a_fork_of_the_host_has_no_connection(server: &FakeServer) {
    let client = server.client();
    let own = client.process().unwrap();
    assert_eq!(call(&client, GETPID), i64::from(own));
    let mut pipe = [0; 2];
    // SAFETY: the array outlives the call.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child makes one call, which fails, waits for its parent, and ends.
    let host = unsafe { libc::fork() };
    if host == 0 {
        let result = call(&client, GETPID);
        // SAFETY: the child's own descriptors and memory; then it ends.
        unsafe {
            libc::close(pipe[1]);
            libc::read(pipe[0], (&raw mut pipe).cast(), 1);
            libc::_exit(i32::from(result != errno(libc::ENOTCONN)));
        }
    }
    // The child lives, but does not hold the connection.
    drop(client);
    server.shared.wait(|seen| seen.ended == [own]);
    // SAFETY: the parent's descriptors.
    unsafe {
        libc::close(pipe[1]);
        libc::close(pipe[0]);
    }
    assert_eq!(status_of(host), 0);
}

fn an_exit_has_a_status(server: &FakeServer) {
    let client = server.client();
    assert!(call(&client, GETPID) > 0);
    assert_eq!(client.exit(7), Ok(()));
    assert_eq!(server.shared.seen.lock().unwrap().statuses, [7]);
    assert_eq!(client.exit(7), Err(libc::ENOTCONN));
    assert_eq!(call(&client, GETPID), errno(libc::ENOTCONN));
}

/// The first answer of a server, and the client's result.
fn outcome(lie: impl FnOnce(&UnixStream) + Send + 'static) -> String {
    let (_directory, path, listener) = fake::listen();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        // A connection that ends before the request has come is another error.
        Frame::read(&mut &stream).unwrap();
        lie(&stream);
    });
    let error = Client::connect(format!("unix:{}", path.display())).unwrap_err();
    server.join().unwrap();
    error.to_string()
}

fn attached(version: u32, slot_size: u64) -> ClientAnswer {
    ClientAnswer::Attached {
        version,
        process: 1,
        thread: 1,
        slot_size,
    }
}

fn slot_file(size: usize) -> OwnedFd {
    let (_slot, file) = ServerSlot::new(size).unwrap();
    file
}

#[test]
fn a_server_that_lies_is_refused() {
    let size = SLOT as u64;
    let expect = |text: &str, lie: Box<dyn FnOnce(&UnixStream) + Send>| {
        let found = outcome(lie);
        assert!(
            found.starts_with("cannot connect to unix:/") && found.contains(text),
            "{found}"
        );
    };
    let with_file = |answer: ClientAnswer, size| -> Box<dyn FnOnce(&UnixStream) + Send> {
        Box::new(move |stream| fake::send(stream, &answer, Some(slot_file(size).as_fd())))
    };
    expect("version 9", with_file(attached(9, size), SLOT));
    expect("a wrong size", with_file(attached(VERSION, 0), SLOT));
    expect("a wrong size", with_file(attached(VERSION, u64::MAX), SLOT));
    expect(
        "not as it was told",
        with_file(attached(VERSION, size), 2 * SLOT),
    );
    expect(
        "an answer to nothing",
        with_file(ClientAnswer::Thread { thread: 3 }, SLOT),
    );
    let no_file = move |stream: &UnixStream| fake::send(stream, &attached(VERSION, size), None);
    expect("no slot", Box::new(no_file));
    let weak = move |stream: &UnixStream| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096 + size).unwrap();
        fake::send(stream, &attached(VERSION, size), Some(file.as_fd()));
    };
    expect("", Box::new(weak));
    let failed = |stream: &UnixStream| {
        let reason = "too many clients".to_owned();
        fake::send(stream, &ClientAnswer::Failed { reason, code: 1 }, None);
    };
    expect("too many clients", Box::new(failed));
    for garbage in [
        &b""[..],
        b"\x02\0\0\0\0{}",
        b"\xff\xff\xff\xff\0",
        b"\x01\0\0\0\x09x",
        b"\x10",
    ] {
        let bytes = garbage.to_vec();
        let send = move |stream: &UnixStream| fake::send_bytes(stream, &bytes, None);
        expect("", Box::new(send));
    }
}

#[test]
fn no_server_is_an_error() {
    let error = Client::connect("unix:/nowhere/socket").unwrap_err();
    assert_eq!(error.errno(), libc::ENOENT);
    let text = "cannot connect to unix:/nowhere/socket: No such file or directory";
    assert!(error.to_string().starts_with(text), "{error}");
}
