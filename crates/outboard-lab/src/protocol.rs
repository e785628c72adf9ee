// SPDX-License-Identifier: GPL-2.0-only
//! Messages between the lab and its nodes: lines of JSON over a socket. A node answers each request
//! once, in order.

use crate::error::{Error, Result};
use crate::routes::NodeRoute;
use crate::throughput::Throughput;
use crate::topology::{Echo, TransferStep};
use outboard::signals;
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[derive(Debug, Serialize, Deserialize)]
pub enum NodeRequest {
    /// Waits until the other ports of all links answer.
    Meet,
    /// Applies netem and the firewall.
    Worsen,
    Ping(Echo),
    /// Prepares to receive.
    Listen {
        is_tcp: bool,
        transfer: TransferStep,
    },
    Receive {
        is_tcp: bool,
        transfer: TransferStep,
    },
    Send {
        is_tcp: bool,
        transfer: TransferStep,
    },
    TopologyLink {
        interface: usize,
        is_up: bool,
    },
    Routes(Vec<NodeRoute>),
    Sysctl {
        name: String,
        value: String,
    },
    Counters,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Failed(String),
    Ping(EchoResult),
    TransferStep(TransferResult),
    Counters(Vec<InterfaceCounters>),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EchoResult {
    pub sent: u32,
    pub received: u32,
    pub duplicates: u32,
    /// Seconds: the least, the sum, the most.
    pub least: f64,
    pub sum: f64,
    pub most: f64,
    /// Why packets were not sent, or an error that came back.
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TransferResult {
    /// Bytes of TCP, datagrams of UDP.
    pub count: u64,
    pub bytes: u64,
    /// From the first byte to the last.
    pub seconds: f64,
    /// Of the receiver.
    pub throughput: Throughput,
    /// Why it ended early.
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InterfaceCounters {
    pub interface: String,
    pub received_packets: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// Packets that netem or a full queue dropped.
    pub dropped: u64,
}

/// How often a wait looks for a signal.
const LOOK: Duration = Duration::from_millis(100);

/// One end of the connection between the lab and a node.
#[derive(Debug)]
pub struct Channel {
    reader: BufReader<UnixStream>,
}

impl Channel {
    pub fn new(socket: UnixStream) -> Self {
        Self {
            reader: BufReader::with_capacity(4096, socket),
        }
    }

    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// The next message. `None`: the other end is gone.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            Ok(None)
        } else {
            Ok(Some(serde_json::from_slice(&line)?))
        }
    }

    /// The answer of a node, within a time limit.
    pub fn answer(&mut self, node: &str, limit: Duration) -> Result<Answer> {
        let end = Instant::now() + limit;
        let failed = |error: &io::Error| Error::failed(format!("node {node}"), error);
        let socket = self.reader.get_ref();
        socket
            .set_read_timeout(Some(LOOK))
            .map_err(|error| failed(&error))?;
        let mut line = Vec::new();
        loop {
            match self.reader.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => break,
                Ok(_) => return Err(Error::Failed(format!("node {node} has ended"))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(&error)),
            }
            if signals::first().is_some() {
                return Err(Error::Interrupted);
            }
            if Instant::now() > end {
                return Err(Error::Failed(format!("node {node} does not answer")));
            }
        }
        match serde_json::from_slice(&line).map_err(|error| failed(&error.into()))? {
            Answer::Failed(text) => Err(Error::Failed(format!("node {node}: {text}"))),
            answer => Ok(answer),
        }
    }
}
