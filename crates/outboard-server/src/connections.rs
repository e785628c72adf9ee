// SPDX-License-Identifier: GPL-2.0-only
//! Connections to a kernel in this process.
//!
//! | thread | does |
//! |---|---|
//! | of each socket | accepts connections, until they end |
//! | of a connection | serves one request ([`Request`]) |
//!
//! A client that stops reading holds up its own connection, and nothing else.

use crate::answers::failed;
use crate::listener::NewConnection;
use crate::parting::send_last;
use crate::peer::ClientPeer;
use outboard::Fd;
use outboard_protocol::frames::{Frame, Request, RunAnswer};
use outboard_slot::forks::ClosedInChildren;
use std::collections::HashMap;
use std::io;
use std::mem::take;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a connection may take until its request begins, in milliseconds.
const REQUEST_PATIENCE: i32 = 10_000;
/// How long connections may take to end, and between two looks at those that are left.
const END_PATIENCE: Duration = Duration::from_secs(10);
const END_INTERVAL: Duration = Duration::from_millis(10);
/// After an error.
const PAUSE: Duration = Duration::from_millis(100);

/// The service behind connections.
pub trait Service: Send + Sync + 'static {
    /// Most connections at a time, if this one is the last of them.
    fn most(&self, peer: &ClientPeer) -> usize;

    /// Serves a connection that begins with this request, until it ends. Blocks. Nobody learns of
    /// an error: the connection has ended.
    fn serve(&self, socket: UnixStream, peer: ClientPeer, request: Request) -> io::Result<()>;

    /// A connection of a network is refused, for this reason.
    fn refused(&self, _reason: &str) {}
}

/// The connections of a service.
pub struct Connections<S> {
    /// The service.
    pub service: S,
    state: Mutex<State>,
    /// A connection has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    open: HashMap<u64, OpenConnection>,
    accepting: Vec<JoinHandle<()>>,
    /// No further connection is served.
    is_over: bool,
}

/// A connection, by which its thread is ended.
struct OpenConnection {
    socket: UnixStream,
    _closed: Vec<ClosedInChildren>,
}

impl OpenConnection {
    fn of(connection: &NewConnection) -> io::Result<Self> {
        let numbers = connection.descriptors().into_iter();
        Ok(Self {
            socket: connection.stream().try_clone()?,
            _closed: numbers.filter_map(ClosedInChildren::of).collect(),
        })
    }
}

/// One of the connections at this moment.
struct Counted<S: Service> {
    connections: Arc<Connections<S>>,
    number: u64,
}

impl<S: Service> Drop for Counted<S> {
    fn drop(&mut self) {
        self.connections.state().open.remove(&self.number);
        self.connections.ended.notify_all();
    }
}

impl<S> Connections<S> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Service> Connections<S> {
    /// There are none yet.
    pub fn new(service: S) -> Arc<Self> {
        Arc::new(Self {
            service,
            state: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Accepts connections from now on, until all [end](Self::end).
    pub fn start(
        self: &Arc<Self>,
        accept: impl Fn() -> io::Result<NewConnection> + Send + 'static,
    ) -> io::Result<()> {
        let all = Arc::clone(self);
        let accept_all = move || loop {
            match accept() {
                Ok(connection) => all.accept(connection),
                Err(_) if all.state().is_over => return,
                // There are too many files, which others close.
                Err(_) => thread::sleep(PAUSE),
            }
        };
        let thread = thread::Builder::new()
            .name("accept".to_owned())
            .spawn(accept_all)?;
        self.state().accepting.push(thread);
        Ok(())
    }

    /// Whether there are connections.
    pub fn is_used(&self) -> bool {
        !self.state().open.is_empty()
    }

    /// Ends all connections, and accepts no other one: the caller has shut the sockets down that
    /// listen. `disconnect` is called again and again meanwhile. Blocks until all have ended, for
    /// 10 s at most.
    pub fn end(&self, disconnect: impl Fn()) {
        let until = Instant::now() + END_PATIENCE;
        let mut state = self.state();
        state.is_over = true;
        for connection in state.open.values() {
            // It may have ended.
            let _ = connection.socket.shutdown(Shutdown::Both);
        }
        while !state.open.is_empty() && Instant::now() < until {
            drop(state);
            disconnect();
            let waited = self.ended.wait_timeout(self.state(), END_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let accepting = take(&mut state.accepting);
        drop(state);
        for thread in accepting {
            // A panic has ended it before.
            let _ = thread.join();
        }
    }

    /// Counts a connection. The error: an answer to it.
    fn count(
        self: &Arc<Self>,
        connection: &NewConnection,
    ) -> Result<(Counted<S>, ClientPeer), RunAnswer> {
        let peer = connection.peer.clone()?;
        let open = OpenConnection::of(connection);
        let open = open.map_err(|error| failed(format!("cannot serve: {error}")))?;
        let mut state = self.state();
        let others = state.open.len();
        if others >= self.service.most(&peer) {
            return Err(failed(format!("{others} connections are in use already")));
        }
        if state.is_over {
            return Err(failed("the server ends"));
        }
        let number = state.next;
        state.next += 1;
        state.open.insert(number, open);
        let connections = Arc::clone(self);
        let counted = Counted {
            connections,
            number,
        };
        Ok((counted, peer))
    }

    fn accept(self: &Arc<Self>, connection: NewConnection) {
        match self.count(&connection) {
            Ok((counted, peer)) => {
                let serve = move || {
                    // Nobody is left to tell.
                    let _ = counted.connections.serve(connection, peer);
                };
                // Without a thread, the connection ends.
                let _ = thread::Builder::new()
                    .name("connection".to_owned())
                    .spawn(serve);
            }
            Err(refused) => {
                let _ = Frame::send(&mut connection.stream(), &refused);
            }
        }
    }

    fn serve(&self, connection: NewConnection, peer: ClientPeer) -> io::Result<()> {
        let far = connection.far_end();
        let report = |reason: &str| {
            if let Some(far) = &far {
                self.service.refused(&format!("{}: {reason}", far.address));
            }
        };
        let socket = match connection.proven() {
            Ok(socket) => socket,
            Err(socket) => {
                report("the client does not know the token");
                return send_last(&socket, &failed("this is not the token of the server"));
            }
        };
        let waiting = Fd::from(OwnedFd::from(socket.try_clone()?));
        if !waiting.wait_to_read(REQUEST_PATIENCE)? {
            return Ok(());
        }
        drop(waiting);
        let Some(frame) = Frame::read(&mut &socket).ok().flatten() else {
            let failure = far.as_ref().and_then(|far| far.failure.get());
            failure.into_iter().for_each(|reason| report(reason));
            return Ok(());
        };
        match frame.message() {
            Ok(request) => self.service.serve(socket, peer, request),
            Err(error) => Frame::send(&mut &socket, &failed(error.to_string())),
        }
    }
}
