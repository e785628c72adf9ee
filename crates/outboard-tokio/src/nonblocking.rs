// SPDX-License-Identifier: GPL-2.0-only
//! A socket of the kernel whose calls wait as tasks do.
//!
//! A task makes its call. If the call would block, the task leaves its waker and makes the call
//! again, because the socket may have become ready in between. The bridge wakes the task for every
//! later change. So no wake-up is lost, and nothing needs to be remembered of earlier ones.

use outboard::net::{EventSource, Net, Ready, Watch};
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{ready, Context, Poll, Waker};
use tokio::task::coop::poll_proceed;

/// An event that a task waits for.
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

impl<S: EventSource> Nonblocking<S> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::net::UnixStream;
    use outboard::Kernel;
    use std::future::Future;
    use std::io::{Read, Write};
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::task::Wake;
    use std::time::{Duration, Instant};

    /// A guard against hangs, not a measure.
    const PATIENCE: Duration = Duration::from_secs(300);

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn wait_for(flag: &Flag) {
        let start = Instant::now();
        while !flag.0.load(Ordering::SeqCst) {
            assert!(start.elapsed() < PATIENCE, "a waker is lost");
            std::thread::yield_now();
        }
    }

    /// A nonblocking socket and the other end.
    fn pair(net: &Net) -> io::Result<(Nonblocking<UnixStream>, UnixStream)> {
        let (one, other) = net.unix_pair()?;
        one.set_nonblocking(true)?;
        Ok((Nonblocking::new(net, one)?, other))
    }

    fn boot() -> io::Result<Net> {
        Ok(Kernel::builder().vcpus(1).memory(64 << 20).boot()?.net())
    }

    fn read(mut socket: &UnixStream) -> io::Result<usize> {
        socket.read(&mut [0])
    }

    /// The socket becomes ready after the call and before the waker is left.
    #[test]
    fn an_event_before_the_waker_is_not_lost() -> io::Result<()> {
        let net = boot()?;
        let (one, mut other) = pair(&net)?;
        let (sender, receiver) = mpsc::channel();
        // The events of this watch and of `one` come in either order, hence the pause below.
        let copy = one.socket().try_clone()?;
        let report = move |ready: Ready| sender.send(ready.is_readable()).unwrap_or(());
        let _watch = net.watch(&copy, report)?;
        let mut is_first = true;
        let call = |socket: &UnixStream| {
            let result = read(socket);
            if std::mem::take(&mut is_first) {
                other.write_all(b"x").expect("there is room");
                while !receiver.recv_timeout(PATIENCE).expect("an event") {}
                std::thread::sleep(Duration::from_millis(20));
            }
            result
        };
        let mut context = Context::from_waker(Waker::noop());
        match one.poll(&mut context, Direction::Read, call) {
            Poll::Ready(result) => assert_eq!(result?, 1),
            Poll::Pending => panic!("the wake-up is lost"),
        }
        Ok(())
    }

    #[test]
    fn each_waiting_task_is_woken() -> io::Result<()> {
        let net = boot()?;
        let (one, mut other) = pair(&net)?;
        let flags = [0; 2].map(|_| Arc::new(Flag::default()));
        let mut first = pin!(one.call(Direction::Read, read));
        let mut second = pin!(one.call(Direction::Read, read));
        let wakers = flags.clone().map(Waker::from);
        let is_pending = |poll: Poll<io::Result<usize>>| poll.is_pending();
        assert!(is_pending(
            first.as_mut().poll(&mut Context::from_waker(&wakers[0]))
        ));
        assert!(is_pending(
            second.as_mut().poll(&mut Context::from_waker(&wakers[1]))
        ));
        other.write_all(b"x")?;
        flags.iter().for_each(|flag| wait_for(flag));
        Ok(())
    }

    #[test]
    fn a_dropped_future_leaves_no_waker() -> io::Result<()> {
        let net = boot()?;
        let (one, _other) = pair(&net)?;
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            let mut future = pin!(one.call(Direction::Read, read));
            assert!(future.as_mut().poll(&mut context).is_pending());
            assert_eq!(one.tasks.reading.list().len(), 1);
        }
        assert!(one.tasks.reading.list().is_empty());
        Ok(())
    }
}
