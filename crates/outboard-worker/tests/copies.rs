// SPDX-License-Identifier: GPL-2.0-only
//! Copies of this process. It has one thread, as the caller of [`WorkerProcess::copy`] must: so
//! these tests run one after the other, without the usual harness. A process before them ends them
//! if one hangs: a thread could not watch them.

use outboard_error::{install, Error, ErrorKind, Front, Kept, Reported};
use outboard_worker::{
    CopyOptions, Descriptors, Launch, OnStop, Parent, ProcessEnd, WorkerError, WorkerProcess,
};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A copy that adds one to each number, and returns the count of numbers.
type Adder = WorkerProcess<u32, u32, usize>;

/// Long enough for a copy on a busy host.
const LONG: Option<Duration> = Some(Duration::from_secs(60));
/// Long enough for all tests on a busy host.
const PATIENCE: Duration = Duration::from_secs(300);
/// The variable of the process that runs the tests.
const WATCHED: &str = "OUTBOARD_WATCHED";
/// Not long enough for a copy that never answers.
const SHORT: Option<Duration> = Some(Duration::from_millis(1));

/// The warnings of this process, or those of a copy until it has sent them.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The failures that a copy has reported.
static FAILURES: AtomicUsize = AtomicUsize::new(0);

struct Recorder;

impl Front for Recorder {
    fn warning(&self, message: String) {
        WARNINGS.lock().unwrap().push(message);
    }

    fn failure(&self, _: Reported) {
        FAILURES.fetch_add(1, Ordering::Relaxed);
    }

    fn begin_copy(&self) {
        WARNINGS.lock().unwrap().clear();
    }

    fn end_copy(&self) -> Kept {
        let mut kept = Kept::default();
        let mut warnings = WARNINGS.lock().unwrap();
        warnings.drain(..).for_each(|line| kept.warnings.add(line));
        kept
    }

    fn add_of_copy(&self, reports: Kept) {
        WARNINGS.lock().unwrap().extend(reports.warnings.first);
        FAILURES.fetch_add(reports.failures.first.len(), Ordering::Relaxed);
    }
}

fn add(parent: &mut Parent<u32, u32>) -> Result<usize, Error> {
    let mut count = 0;
    while let Some(number) = parent.receive()? {
        parent.send(&(number + 1))?;
        count += 1;
    }
    Ok(count)
}

fn adder(work: impl FnOnce(&mut Parent<u32, u32>) -> Result<usize, Error>) -> Adder {
    Adder::copy(CopyOptions::default(), work).unwrap()
}

fn wait_for_ever() -> ! {
    loop {
        sleep(Duration::from_secs(1000));
    }
}

fn requests_and_a_result() {
    let mut worker = adder(add);
    assert_eq!(worker.ask(&1, LONG).unwrap(), 2);
    assert_eq!(worker.ask(&2, None).unwrap(), 3);
    // Several requests may be under way.
    worker.send(&10, LONG).unwrap();
    worker.send(&20, LONG).unwrap();
    let replies = [worker.receive(LONG).unwrap(), worker.receive(LONG).unwrap()];
    assert_eq!(replies, [11, 21]);
    assert_eq!(worker.finish().unwrap(), 4);
}

fn reports_and_errors_of_the_work() {
    outboard_error::warn("of this process");
    let worker = adder(|_| {
        outboard_error::warn("of the copy");
        Err(Error::known(ErrorKind::NotFound, "not there"))
    });
    let error = worker.finish().unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::NotFound, Some("not there"))
    );
    let lines: Vec<String> = WARNINGS.lock().unwrap().drain(..).collect();
    assert_eq!(lines, ["of this process", "of the copy"]);
}

fn a_result_in_the_place_of_a_reply() {
    let mut worker = adder(|_| Ok(7));
    let reply = worker.receive(LONG);
    assert!(matches!(reply, Err(WorkerError::Finished)), "{reply:?}");
    assert_eq!(worker.finish().unwrap(), 7);
}

fn the_end_without_an_answer() {
    let mut worker = adder(|_| process::exit(3));
    let reply = worker.receive(LONG);
    let Err(WorkerError::Ended(end)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(end, ProcessEnd::Exited(3));
    // The process is gone: so are its requests.
    assert!(worker.ask(&1, LONG).is_err());
    let error = adder(|_| process::exit(3)).finish().unwrap_err();
    let text = "the process in the sandbox ended without a result: it ended with code 3";
    assert_eq!(error.message(), Some(text));
}

fn a_signal() {
    let crash = |_: &mut Parent<u32, u32>| -> Result<usize, Error> { process::abort() };
    let reply = adder(crash).receive(LONG);
    let Err(WorkerError::Ended(end)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(end, ProcessEnd::Killed(libc::SIGABRT));
    let error = adder(crash).finish().unwrap_err();
    let text = format!(
        "the process in the sandbox crashed (signal {})",
        libc::SIGABRT
    );
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Crashed, Some(text.as_str()))
    );
}

/// As when a kernel crashes while the result is sent.
fn a_signal_inside_of_a_message() {
    let mut worker = adder(|parent| {
        let mut socket = File::from(parent.as_fd().try_clone_to_owned().unwrap());
        socket.write_all(b"\x09\0\0\0{\"La").unwrap();
        process::abort()
    });
    let reply = worker.receive(LONG);
    let Err(WorkerError::Ended(end)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(end, ProcessEnd::Killed(libc::SIGABRT));
}

fn a_panic_of_the_kernel() {
    let error = adder(|_| process::exit(70)).finish().unwrap_err();
    assert_eq!(error, Error::Panicked);
    assert_eq!(FAILURES.swap(0, Ordering::Relaxed), 1);
}

/// A value of the caller that must be dropped once.
struct OfCaller<'a>(&'a File);

impl Drop for OfCaller<'_> {
    fn drop(&mut self) {
        self.0.write_all(b"x").unwrap();
    }
}

fn a_panic_of_rust() {
    let file = tempfile();
    let of_caller = OfCaller(&file);
    let mut worker = adder(|_| panic!("expected by this test"));
    let reply = worker.receive(LONG);
    let Err(WorkerError::Ended(end)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(end, ProcessEnd::Exited(101));
    assert_eq!(
        file.metadata().unwrap().len(),
        0,
        "the copy has cleaned up for its caller"
    );
    drop(of_caller);
}

/// A file without a name.
fn tempfile() -> File {
    let path = std::env::temp_dir().join(format!("outboard-worker-{}", process::id()));
    let file = File::options().write(true).create_new(true).open(&path);
    std::fs::remove_file(&path).unwrap();
    file.unwrap()
}

/// Writes bytes that are no message of the protocol.
fn answer_with(bytes: &'static [u8]) -> Adder {
    adder(|parent| {
        let mut socket = File::from(parent.as_fd().try_clone_to_owned().unwrap());
        socket.write_all(bytes).unwrap();
        wait_for_ever()
    })
}

fn answers_that_are_no_messages() {
    let mut longest = answer_with(&[0xff; 4]);
    let reply = longest.receive(LONG);
    assert!(matches!(reply, Err(WorkerError::TooLong)), "{reply:?}");
    // Not JSON, another type, a reply to no request.
    for bytes in [b"\x03\0\0\0{{{", b"\x03\0\0\0\"a\""] {
        let reply = answer_with(bytes).receive(LONG);
        assert!(matches!(reply, Err(WorkerError::Garbage(_))), "{reply:?}");
        let error = answer_with(bytes).finish().unwrap_err();
        let text = "the process in the sandbox ended without a result: its answer makes no sense";
        assert!(error.message().unwrap().starts_with(text), "{error:?}");
    }
    let error = adder(|parent| {
        parent.send(&1)?;
        wait_for_ever()
    });
    let error = error.finish().unwrap_err();
    assert!(
        error.message().unwrap().ends_with("a reply to no request"),
        "{error:?}"
    );
    let options = CopyOptions {
        longest: 100,
        ..CopyOptions::default()
    };
    let work = |_: &mut Parent<(), ()>| Ok("x".repeat(100));
    let longer = WorkerProcess::<(), (), String>::copy(options, work).unwrap();
    let error = longer.finish().unwrap_err();
    assert!(
        error.message().unwrap().ends_with("it ended with code 1"),
        "{error:?}"
    );
}

/// A reader, and what keeps it waiting: the reader finds an end when no process has that any more.
fn connection() -> (UnixStream, UnixStream) {
    let (reader, writer) = UnixStream::pair().unwrap();
    reader.set_read_timeout(LONG).unwrap();
    (reader, writer)
}

fn no_answer_within_the_limit() {
    let (mut alive, writer) = connection();
    let mut worker = adder(|_| wait_for_ever());
    drop(writer);
    let reply = worker.ask(&1, SHORT);
    assert!(matches!(reply, Err(WorkerError::Late)), "{reply:?}");
    // The copy was killed: nobody has the pipe open.
    assert_eq!(alive.read(&mut [0]).unwrap(), 0);
    // A copy whose reply never ends.
    let mut worker = adder(|parent| {
        let mut socket = File::from(parent.as_fd().try_clone_to_owned().unwrap());
        socket.write_all(&[0xff, 0xff, 0xff, 0]).unwrap();
        loop {
            socket.write_all(b"1").unwrap();
            sleep(Duration::from_millis(1));
        }
    });
    let reply = worker.receive(SHORT);
    assert!(matches!(reply, Err(WorkerError::Late)), "{reply:?}");
    // A copy that takes no request.
    let mut worker =
        WorkerProcess::<String, ()>::copy(CopyOptions::default(), |_| wait_for_ever()).unwrap();
    let sent = worker.send(&"x".repeat(1 << 22), SHORT);
    assert!(matches!(sent, Err(WorkerError::Late)), "{sent:?}");
}

fn a_copy_that_is_dropped() {
    let (mut alive, writer) = connection();
    let worker = adder(|_| wait_for_ever());
    drop(writer);
    drop(worker);
    assert_eq!(alive.read(&mut [0]).unwrap(), 0);
}

/// Returns when no process has the other end open, and what they have written.
fn read_to_end(mut pipe: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    bytes
}

fn the_end_of_the_parent() {
    let (alive, mut writer) = connection();
    let mut middle = adder(|parent| {
        let copy = adder(|_| wait_for_ever());
        parent.send(&1)?;
        std::mem::forget(copy);
        // Without any cleaning up, as a process that is killed.
        wait_for_ever()
    });
    assert_eq!(middle.receive(LONG).unwrap(), 1);
    writer.write_all(b"x").unwrap();
    drop(writer);
    middle.kill();
    // The copy of the copy had it open, too.
    assert_eq!(read_to_end(alive), b"x");
}

static ASKED: AtomicBool = AtomicBool::new(false);

fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

fn a_request_to_stop_is_passed_on() {
    outboard_sys::signals::catch().unwrap();
    outboard_sys::signals::poll();
    let options = CopyOptions {
        on_stop: OnStop::PassOn(Box::new(asked), libc::SIGUSR1),
        ..CopyOptions::default()
    };
    let stops = |parent: &mut Parent<(), ()>| {
        parent.send(&())?;
        while !outboard_sys::signals::asked() {
            sleep(Duration::from_millis(1));
        }
        Ok("stopped".to_owned())
    };
    assert!(outboard_sys::signals::may_end());
    let mut worker = WorkerProcess::<(), (), String>::copy(options, stops).unwrap();
    worker.receive(LONG).unwrap();
    // The worker may be changing an image.
    assert!(!outboard_sys::signals::may_end());
    ASKED.store(true, Ordering::Relaxed);
    assert_eq!(worker.finish().unwrap(), "stopped");
    // This process goes on, and was not asked itself.
    assert!(!outboard_sys::signals::asked());
    assert!(outboard_sys::signals::may_end());
    ASKED.store(false, Ordering::Relaxed);
}

fn a_request_to_stop_ends_a_wait() {
    let options = CopyOptions {
        on_stop: OnStop::EndWait(Box::new(|| true)),
        ..CopyOptions::default()
    };
    let mut worker = Adder::copy(options, |_| wait_for_ever()).unwrap();
    let reply = worker.receive(None);
    assert!(matches!(reply, Err(WorkerError::Interrupted)), "{reply:?}");
}

/// The open ones of these descriptors in a copy.
fn open_in_copy(descriptors: Descriptors, numbers: &[RawFd]) -> Vec<RawFd> {
    let options = CopyOptions {
        descriptors,
        ..CopyOptions::default()
    };
    let find = |_: &mut Parent<(), ()>| {
        let is_open = |number: &&RawFd| {
            std::fs::read_link(format!("/proc/self/fd/{number}"))
                .is_ok_and(|target| !target.starts_with("/proc"))
        };
        Ok(numbers.iter().filter(is_open).copied().collect())
    };
    let worker = WorkerProcess::<(), (), Vec<RawFd>>::copy(options, find).unwrap();
    worker.finish().unwrap()
}

fn descriptors_of_a_copy() {
    let (reader, writer) = connection();
    let numbers = [reader.as_raw_fd(), writer.as_raw_fd()];
    assert_eq!(open_in_copy(Descriptors::All, &numbers), numbers);
    let without = Descriptors::Without(vec![writer.as_raw_fd()]);
    assert_eq!(open_in_copy(without, &numbers), [reader.as_raw_fd()]);
    assert!(open_in_copy(Descriptors::Standard, &numbers).is_empty());
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, worker) = (count(), adder(|_| Ok(count())));
    // Its end of the channel, and not that of its parent.
    assert_eq!(worker.finish().unwrap(), before + 1);
    // A worker before does not keep the channel of the next one open, and the next one not its.
    let first = adder(add);
    let second = adder(add);
    assert_eq!(first.finish().unwrap(), 0);
    assert_eq!(second.finish().unwrap(), 0);
}

fn the_umask_of_a_copy() {
    let mask = |options: CopyOptions| {
        let find = |_: &mut Parent<(), ()>| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("Umask:"));
            Ok(line.unwrap_or_default().to_owned())
        };
        let worker = WorkerProcess::<(), (), String>::copy(options, find).unwrap();
        worker.finish().unwrap()
    };
    let usual = mask(CopyOptions::default());
    let wanted = CopyOptions {
        umask: Some(0o123),
        ..CopyOptions::default()
    };
    assert_eq!(mask(wanted), "Umask:\t0123");
    assert_eq!(mask(CopyOptions::default()), usual);
}

fn a_process_with_threads() {
    let (stays, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || ends.recv());
    let refused = Adder::copy(CopyOptions::default(), add).err();
    let number = refused.and_then(|error| error.raw_os_error());
    assert_eq!(number, Some(libc::EBUSY));
    drop(stays);
    thread.join().unwrap().unwrap_err();
}

type Case = (&'static str, fn());

macro_rules! cases {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), $name as fn())),*] };
}

/// Runs the tests in a process of their own, and ends it with its copies if it takes too long.
fn watch(words: &[String]) -> ExitCode {
    let tests = Launch::new(std::env::current_exe().unwrap())
        .arguments(words)
        .variable(WATCHED, "1")
        .ends_with_parent()
        .start()
        .unwrap();
    let start = Instant::now();
    let is_late = || start.elapsed() > PATIENCE;
    let status = tests.process.wait_or_stop(libc::SIGKILL, is_late).unwrap();
    match ProcessEnd::from(status) {
        ProcessEnd::Exited(0) => ExitCode::SUCCESS,
        end => {
            eprintln!("{end} after {} s", start.elapsed().as_secs());
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os(WATCHED).is_none() {
        return watch(&words);
    }
    static RECORDER: Recorder = Recorder;
    install(&RECORDER);
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let cases: &[Case] = &cases![
        requests_and_a_result,
        reports_and_errors_of_the_work,
        a_result_in_the_place_of_a_reply,
        the_end_without_an_answer,
        a_signal,
        a_signal_inside_of_a_message,
        a_panic_of_the_kernel,
        a_panic_of_rust,
        answers_that_are_no_messages,
        no_answer_within_the_limit,
        a_copy_that_is_dropped,
        the_end_of_the_parent,
        a_request_to_stop_is_passed_on,
        a_request_to_stop_ends_a_wait,
        descriptors_of_a_copy,
        the_umask_of_a_copy,
        a_process_with_threads,
    ];
    let chosen = cases.iter().filter(|(name, _)| {
        wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()))
    });
    let mut count = 0;
    for (name, case) in chosen {
        let start = Instant::now();
        println!("{name}");
        case();
        println!("{name}: ok, {} ms", start.elapsed().as_millis());
        count += 1;
    }
    println!("test result: ok. {count} passed");
    ExitCode::SUCCESS
}
