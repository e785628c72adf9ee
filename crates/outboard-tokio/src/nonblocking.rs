// SPDX-License-Identifier: GPL-2.0-only
//! A socket of the kernel whose calls wait as tasks do.
//!
//! A task makes its call. If the call would block, the task leaves its waker and makes the call
//! again, because the socket may have become ready in between. The bridge wakes the task for every
//! later change. So no wake-up is lost, and nothing needs to be remembered of earlier ones.

use outboard::net::{Net, Ready, Source, Watch};
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{ready, Context, Poll, Waker};
use tokio::task::coop::poll_proceed;

/// What a task waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// The waker of the functions whose name begins with `poll`: the last caller's. Other callers have
/// numbers of their own.
const POLLED: u64 = 0;

/// The wakers of one direction, with their numbers.
#[derive(Debug, Default)]
struct Waiters(Mutex<Vec<(u64, Waker)>>);

impl Waiters {
    fn list(&self) -> MutexGuard<'_, Vec<(u64, Waker)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, number: u64, waker: &Waker) {
        let mut list = self.list();
        match list.iter_mut().find(|(other, _)| *other == number) {
            Some((_, place)) => place.clone_from(waker),
            None => list.push((number, waker.clone())),
        }
    }

    fn remove(&self, number: u64) {
        self.list().retain(|(other, _)| *other != number);
    }

    fn wake_all(&self) {
        // Without the lock: a waker may run anything.
        let list = std::mem::take(&mut *self.list());
        list.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

#[derive(Debug, Default)]
struct Tasks {
    reading: Waiters,
    writing: Waiters,
    next: AtomicU64,
}

impl Tasks {
    fn of(&self, direction: Direction) -> &Waiters {
        match direction {
            Direction::Read => &self.reading,
            Direction::Write => &self.writing,
        }
    }

    fn wake(&self, ready: Ready) {
        if ready.is_readable() {
            self.reading.wake_all();
        }
        if ready.is_writable() {
            self.writing.wake_all();
        }
    }
}

/// A future that is dropped takes its waker away.
struct Waiter<'a> {
    waiters: &'a Waiters,
    number: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.remove(self.number);
    }
}

#[derive(Debug)]
pub(crate) struct Nonblocking<S> {
    tasks: Arc<Tasks>,
    // Dropped before the socket.
    _watch: Watch,
    socket: S,
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl<S: Source> Nonblocking<S> {
    /// `socket`: a nonblocking one.
    pub(crate) fn new(net: &Net, socket: S) -> io::Result<Self> {
        let tasks = Arc::new(Tasks::default());
        let woken = Arc::clone(&tasks);
        let watch = net.watch(&socket, move |ready| woken.wake(ready))?;
        Ok(Self {
            tasks,
            _watch: watch,
            socket,
        })
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    fn poll_as<T>(
        &self,
        context: &mut Context<'_>,
        number: u64,
        direction: Direction,
        mut call: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        // A task whose socket is always ready lets others run now and then.
        let turn = ready!(poll_proceed(context));
        let mut result = call(&self.socket);
        if would_block(&result) {
            self.tasks.of(direction).add(number, context.waker());
            result = call(&self.socket);
            if would_block(&result) {
                return Poll::Pending;
            }
        }
        turn.made_progress();
        Poll::Ready(result)
    }

    /// For functions that have one caller at a time.
    pub(crate) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        direction: Direction,
        call: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_as(context, POLLED, direction, call)
    }

    /// Makes a call when it does not block. Any number of tasks may wait.
    pub(crate) async fn call<T>(
        &self,
        direction: Direction,
        mut call: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        let number = 1 + self.tasks.next.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter {
            waiters: self.tasks.of(direction),
            number,
        };
        poll_fn(|context| self.poll_as(context, number, direction, &mut call)).await
    }
}

/// `AsyncRead` and `AsyncWrite` of a stream, by value and by reference.
macro_rules! stream_traits {
    ($name:ident) => {
        impl AsyncRead for &$name {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let room = buffer.initialize_unfilled();
                let length = ready!(self
                    .0
                    .poll(context, Direction::Read, |mut socket| { socket.read(room) }))?;
                buffer.advance(length);
                Poll::Ready(Ok(()))
            }
        }

        impl AsyncWrite for &$name {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.0
                    .poll(context, Direction::Write, |mut socket| socket.write(bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(context, Direction::Write, |mut socket| {
                    socket.write_vectored(parts)
                })
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.0.socket().shutdown(Shutdown::Write))
            }
        }

        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut &*self).poll_read(context, buffer)
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self).poll_write(context, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut &*self).poll_write_vectored(context, parts)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut &*self).poll_flush(context)
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut &*self).poll_shutdown(context)
            }
        }
    };
}

pub(crate) use stream_traits;
