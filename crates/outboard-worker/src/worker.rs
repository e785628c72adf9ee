// SPDX-License-Identifier: GPL-2.0-only
//! A second process that takes requests and sends replies. A copy of this process sends its result
//! and its reports at the end. An image may control the second process: nothing that comes from it
//! is trusted.
//!
//! | state | the worker | becomes |
//! |---|---|---|
//! | started | prepares itself | ready with its first reply, ended, killed |
//! | ready | waits for a request; none may come | working with a request, ended, killed |
//! | working | does what the request says | ready with its reply, ended, killed |
//! | ended | has sent its result, or has ended otherwise | |
//! | killed | did not answer in time, broke the protocol, or was dropped | |
//!
//! Each wait of this process ends with a reply, or the worker has ended or is killed: no late reply
//! is taken for that of another request. A copy is killed when this process ends. A program finds
//! its channel closed then.

use crate::channel::{Channel, WaitCheck};
use crate::error::WorkerError;
use crate::launch::Launch;
use crate::line_relay::LineRelay;
use crate::process::{Process, ProcessEnd};
use outboard_error::{front, Error, Kept};
use outboard_sys::signals::Guard;
use outboard_sys::{close_of_parent, end_at_once, fork, fork_apart, send_fd, Child, System};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::{self, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes of a message, unless a worker has another limit.
const LONGEST: usize = 1 << 30;
/// The exit code of Rust for a program that panics.
const RUST_PANIC: i32 = 101;

type StopCheck = Box<dyn Fn() -> bool + Send>;

/// The action of a wait for the worker when this process is asked to stop.
pub enum OnStop {
    /// It goes on.
    Ignore,
    /// It ends with [`WorkerError::Interrupted`] as soon as the check is true.
    EndWait(StopCheck),
    /// The worker gets a signal, once, and the wait goes on. While the worker lives, only SIGKILL
    /// ends this process: the worker may be changing an image.
    PassOn(StopCheck, i32),
}

/// Which descriptors of this process a copy of it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descriptors {
    /// All.
    All,
    /// All but these, which belong to the caller's functions.
    Without(Vec<RawFd>),
    /// The standard ones and its channel. The copy must use no file of the caller, and ends without
    /// cleaning up.
    Standard,
}

/// How a copy of this process works.
pub struct CopyOptions {
    /// The file mode mask of the copy. `None`: that of this process.
    pub umask: Option<u32>,
    /// The copy's descriptors.
    pub descriptors: Descriptors,
    /// The action when this process is asked to stop.
    pub on_stop: OnStop,
    /// Most bytes of a message.
    pub longest: usize,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            umask: None,
            descriptors: Descriptors::All,
            on_stop: OnStop::Ignore,
            longest: LONGEST,
        }
    }
}

/// The last message of a copy.
#[derive(Serialize, Deserialize)]
struct Answer<T> {
    result: Result<T, Error>,
    /// Failures and warnings that the copy has reported to its front.
    reports: Kept,
}

/// A message of the worker.
#[derive(Serialize, Deserialize)]
enum FromWorker<Reply, T> {
    Reply(Reply),
    Last(Answer<T>),
}

/// A second process that takes `Request`s and sends `Reply`s. `T`: the result of a copy's work.
/// Dropping this kills a copy, and a program that was not started to outlive this process.
pub struct WorkerProcess<Request, Reply, T = ()> {
    process: Process,
    channel: Channel,
    on_stop: OnStop,
    /// The worker got the signal of [`OnStop::PassOn`].
    has_signal: bool,
    /// The answer, if it came instead of a reply.
    last: Option<Answer<T>>,
    relay: Option<LineRelay>,
    _guard: Option<Guard>,
    messages: PhantomData<fn(Request) -> Reply>,
}

/// The process that started this one, seen from the worker.
pub struct Parent<Request, Reply> {
    channel: Channel,
    messages: PhantomData<fn(Reply) -> Request>,
}

impl OnStop {
    fn guard(&self) -> Option<Guard> {
        matches!(self, OnStop::PassOn(..)).then(Guard::new)
    }

    fn check(&self, process: &Process, has_signal: &mut bool) -> Result<(), WorkerError> {
        match self {
            OnStop::EndWait(asked) if asked() => Err(WorkerError::Interrupted),
            OnStop::PassOn(asked, signal) if !*has_signal && asked() => {
                *has_signal = true;
                Ok(process.signal(*signal)?)
            }
            _ => Ok(()),
        }
    }
}

impl<Request, Reply, T> WorkerProcess<Request, Reply, T>
where
    Request: Serialize + DeserializeOwned,
    Reply: Serialize + DeserializeOwned,
    T: Serialize + DeserializeOwned,
{
    /// Starts `work` in a copy of this process, which must have one thread. The work restricts
    /// itself.
    pub fn copy(
        options: CopyOptions,
        work: impl FnOnce(&mut Parent<Request, Reply>) -> Result<T, Error>,
    ) -> io::Result<Self> {
        // The copy inherits the guard.
        let guard = options.on_stop.guard();
        let (ours, theirs) = UnixStream::pair()?;
        // Buffered output would be written twice.
        io::stdout().flush()?;
        let (umask, longest) = (options.umask, options.longest);
        let run = |socket: OwnedFd| run_copy(Parent::new(socket, longest), umask, work);
        let child = match options.descriptors {
            Descriptors::Standard => fork_apart(theirs.into(), |socket| {
                end_at_once(run(socket));
            })?,
            Descriptors::All => copy_with(ours.as_fd(), &[], || run(theirs.into()))?,
            Descriptors::Without(closed) => {
                copy_with(ours.as_fd(), &closed, || run(theirs.into()))?
            }
        };
        let process = Process::new(child, false, None);
        Ok(Self::new(
            process,
            Channel::new(ours, longest),
            options.on_stop,
            guard,
        ))
    }

    /// Starts a program, whose standard output is the channel: [`Parent::of_program`]. `longest`:
    /// most bytes of a message.
    pub fn program(launch: Launch, longest: usize) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let started = launch.stdout(OwnedFd::from(theirs)).start()?;
        let channel = Channel::new(ours, longest);
        Ok(Self::new(started.process, channel, OnStop::Ignore, None))
    }

    /// As [`WorkerProcess::program`]. `line` gets each line that the program writes on standard
    /// error.
    pub fn program_with_lines(
        launch: Launch,
        longest: usize,
        line: impl FnMut(&[u8]) + Send + 'static,
    ) -> io::Result<Self> {
        let (relay, stderr) = LineRelay::start(line)?;
        let mut worker = Self::program(launch.stderr(stderr), longest)?;
        worker.relay = Some(relay);
        Ok(worker)
    }

    fn new(process: Process, channel: Channel, on_stop: OnStop, guard: Option<Guard>) -> Self {
        Self {
            process,
            channel,
            on_stop,
            has_signal: false,
            last: None,
            relay: None,
            _guard: guard,
            messages: PhantomData,
        }
    }

    /// Sends a request. `limit`: the longest time until the worker has taken it.
    pub fn send(&mut self, request: &Request, limit: Option<Duration>) -> Result<(), WorkerError> {
        self.exchange(limit, |channel, check| channel.send(request, check))
    }

    /// Sends a descriptor, of which the worker gets a copy. A worker that is not there to take it
    /// is noticed by the next [`WorkerProcess::receive`].
    pub fn send_descriptor(&self, descriptor: BorrowedFd) {
        let _ = send_fd(&self.channel, descriptor);
    }

    /// Waits for a reply.
    pub fn receive(&mut self, limit: Option<Duration>) -> Result<Reply, WorkerError> {
        match self.next(limit)? {
            FromWorker::Reply(reply) => Ok(reply),
            FromWorker::Last(answer) => {
                self.last = Some(answer);
                Err(WorkerError::Finished)
            }
        }
    }

    /// Sends a request and waits for the reply.
    pub fn ask(
        &mut self,
        request: &Request,
        limit: Option<Duration>,
    ) -> Result<Reply, WorkerError> {
        self.send(request, limit)?;
        self.receive(limit)
    }

    /// Waits for the result of a copy, which gets no more requests, and for its end. The front of
    /// this process gets the reports of the copy.
    pub fn finish(mut self) -> Result<T, Error> {
        self.end_requests();
        let answer = match self.last.take() {
            Some(answer) => answer,
            None => match self.next(None)? {
                FromWorker::Last(answer) => answer,
                FromWorker::Reply(_) => {
                    let text = "a reply to no request".to_owned();
                    return Err(self.give_up(WorkerError::Garbage(text)).into());
                }
            },
        };
        match ProcessEnd::from(self.process.reap().map_err(WorkerError::Host)?) {
            // The result came before the end.
            ProcessEnd::Exited(_) => {
                front().add_of_copy(answer.reports);
                answer.result
            }
            end => Err(WorkerError::Ended(end).into()),
        }
    }

    /// The worker gets no more requests.
    pub fn end_requests(&self) {
        self.channel.end_messages();
    }

    /// Waits for the end of a program, which gets no more requests.
    pub fn end(mut self) -> io::Result<ExitStatus> {
        self.end_requests();
        let status = self.process.reap();
        self.end_lines();
        status
    }

    /// Waits on a thread for the end of a program. The program goes on when this is dropped.
    pub fn watch_end(
        &mut self,
        tell: impl FnOnce(io::Result<ExitStatus>) + Send + 'static,
    ) -> io::Result<()> {
        let process = self.process.take();
        thread::Builder::new().spawn(move || tell(process.wait()))?;
        Ok(())
    }

    /// Returns when all lines that the program has written are handed over. Later ones are lost.
    pub fn end_lines(&mut self) {
        self.relay.take().into_iter().for_each(LineRelay::finish);
    }

    /// Kills the worker, without waiting for its end.
    pub fn kill(&self) {
        // It may have ended.
        let _ = self.process.signal(libc::SIGKILL);
    }

    fn next(&mut self, limit: Option<Duration>) -> Result<FromWorker<Reply, T>, WorkerError> {
        let message = self.exchange(limit, |channel, check| channel.receive(check))?;
        message.ok_or_else(|| self.ended())
    }

    fn exchange<R>(
        &mut self,
        limit: Option<Duration>,
        exchange: impl FnOnce(&mut Channel, WaitCheck) -> Result<R, WorkerError>,
    ) -> Result<R, WorkerError> {
        let end = limit.map(|limit| Instant::now() + limit);
        let (process, on_stop, has_signal) = (&self.process, &self.on_stop, &mut self.has_signal);
        let mut check = || match end {
            Some(end) if Instant::now() > end => Err(WorkerError::Late),
            _ => on_stop.check(process, has_signal),
        };
        let can_end = end.is_some() || !matches!(on_stop, OnStop::Ignore);
        let check: WaitCheck = if can_end { Some(&mut check) } else { None };
        let done = exchange(&mut self.channel, check);
        done.map_err(|error| self.give_up(error))
    }

    /// The worker has closed the channel. It ends, or is no worker any more.
    fn ended(&mut self) -> WorkerError {
        let status = self.process.kill();
        self.end_lines();
        status.map_or_else(WorkerError::Host, |status| {
            WorkerError::Ended(status.into())
        })
    }

    /// Kills the worker because of an error.
    fn give_up(&mut self, error: WorkerError) -> WorkerError {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let ended = self.ended();
        match &error {
            WorkerError::Host(host) => match host.kind() {
                BrokenPipe | ConnectionReset | UnexpectedEof => ended,
                _ => error,
            },
            _ => error,
        }
    }
}

/// Copies this process. `run` returns the exit code of the copy, which has neither `ours` nor the
/// `closed` descriptors.
fn copy_with(ours: BorrowedFd, closed: &[RawFd], run: impl FnOnce() -> i32) -> io::Result<Child> {
    if let Some(child) = fork()? {
        return Ok(child);
    }
    // With this end, the copy would not see that it is closed.
    close_of_parent(ours.as_raw_fd());
    closed.iter().copied().for_each(close_of_parent);
    process::exit(run())
}

/// Runs in the copy. Returns its exit code.
fn run_copy<Request, Reply, T>(
    parent: Parent<Request, Reply>,
    umask: Option<u32>,
    work: impl FnOnce(&mut Parent<Request, Reply>) -> Result<T, Error>,
) -> i32
where
    Request: DeserializeOwned,
    Reply: Serialize,
    T: Serialize,
{
    // The end of the process closes the channel, so that it tells of that.
    let mut parent = ManuallyDrop::new(parent);
    if let Some(mask) = umask {
        System::Host.umask(mask);
    }
    front().begin_copy();
    // A panic must not unwind the functions of the caller: they clean up after the original.
    let Ok(result) = catch_unwind(AssertUnwindSafe(|| work(&mut parent))) else {
        return RUST_PANIC;
    };
    let last = FromWorker::<(), T>::Last(Answer {
        result,
        reports: front().end_copy(),
    });
    i32::from(parent.channel.send(&last, None).is_err())
}

impl<Request: DeserializeOwned, Reply: Serialize> Parent<Request, Reply> {
    fn new(socket: impl Into<OwnedFd>, longest: usize) -> Self {
        Self {
            channel: Channel::new(socket, longest),
            messages: PhantomData,
        }
    }

    /// The parent of a program that [`WorkerProcess::program`] has started.
    pub fn of_program() -> io::Result<Self> {
        let socket = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::new(socket, LONGEST))
    }

    /// Sends a reply.
    pub fn send(&mut self, reply: &Reply) -> Result<(), WorkerError> {
        self.channel
            .send(&FromWorker::<&Reply, ()>::Reply(reply), None)
    }

    /// Waits for a request. `None`: there are no more, or the parent has ended.
    pub fn receive(&mut self) -> Result<Option<Request>, WorkerError> {
        self.channel.receive(None)
    }
}

/// The channel.
impl<Request, Reply> AsFd for Parent<Request, Reply> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
