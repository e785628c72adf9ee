// SPDX-License-Identifier: GPL-2.0-only
//! Messages between the lab and its nodes. A node answers each request once, in order.

use crate::routes::NodeRoute;
use crate::throughput::Throughput;
use crate::topology::{Echo, TransferStep};
use outboard_worker::{Parent, WorkerProcess};
use serde::{Deserialize, Serialize};

/// A node, seen from the lab.
pub type NodeProcess = WorkerProcess<NodeRequest, Answer>;
/// The lab, seen from a node.
pub type NodeParent = Parent<NodeRequest, Answer>;

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
