// SPDX-License-Identifier: GPL-2.0-only
//! A step of an experiment.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct LabStep {
    pub line: usize,
    /// The name by which later steps compare themselves with this one.
    pub name: Option<String>,
    pub action: Action,
    pub expected: Vec<Expectation>,
}

#[derive(Clone, Debug)]
pub enum Action {
    Ping(Echo),
    /// Echo requests until there is one reply.
    Await(Echo),
    Tcp(TransferStep),
    Udp(TransferStep),
    Link {
        link: usize,
        is_up: bool,
    },
    Sysctl {
        node: usize,
        name: String,
        value: String,
    },
    Wait(Duration),
}

/// Echo requests of ICMP.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Echo {
    pub from: usize,
    pub to: IpAddr,
    pub count: u32,
    pub interval: Duration,
    pub timeout: Duration,
    pub size: usize,
}

/// Data from one node to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransferStep {
    pub from: usize,
    pub to: usize,
    pub address: IpAddr,
    pub port: u16,
    /// TCP: all bytes. UDP: the bytes of a datagram.
    pub bytes: u64,
    /// Datagrams.
    pub count: u32,
    /// Between datagrams.
    pub interval: Duration,
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Expectation {
    Reachable,
    Unreachable,
    /// No failure, whatever happens.
    Any,
    Compare {
        metric: Metric,
        comparison: Relation,
        bound: Bound,
        /// As it is in the file.
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Loss,
    Rtt,
    Rate,
    Time,
    Received,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    AtMost,
    AtLeast,
    Less,
    More,
    Equal,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Value(f64),
    /// So many times the same metric of the step with this index.
    Times(f64, usize),
}

impl Relation {
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::AtMost => value <= bound,
            Self::AtLeast => value >= bound,
            Self::Less => value < bound,
            Self::More => value > bound,
            Self::Equal => value == bound,
        }
    }
}

impl LabStep {
    /// Whether it has an address or a setting of IPv6.
    pub(super) fn has_v6(&self) -> bool {
        match &self.action {
            Action::Ping(echo) | Action::Await(echo) => echo.to.is_ipv6(),
            Action::Tcp(transfer) | Action::Udp(transfer) => transfer.address.is_ipv6(),
            Action::Sysctl { name, .. } => is_of_v6(name),
            Action::Link { .. } | Action::Wait(_) => false,
        }
    }
}

impl Action {
    /// The quantity that a step of this kind measures, and the same in words.
    pub(super) fn metrics(&self) -> (&'static [Metric], &'static str) {
        use Metric::{Loss, Rate, Received, Rtt, Time};
        match self {
            Self::Ping(_) => (
                &[Loss, Rtt, Received],
                "ping measures loss, rtt and received",
            ),
            Self::Tcp(_) => (&[Rate, Time], "tcp measures rate and time"),
            Self::Udp(_) => (
                &[Loss, Rate, Received],
                "udp measures loss, rate and received",
            ),
            Self::Await(_) => (&[Time], "await measures time"),
            Self::Link { .. } | Self::Sysctl { .. } | Self::Wait(_) => (&[], "it measures nothing"),
        }
    }

    pub(super) fn measures(&self, metric: Metric) -> bool {
        self.metrics().0.contains(&metric)
    }

    /// Whether the step tries to reach another node.
    pub(super) fn reaches(&self) -> bool {
        matches!(
            self,
            Self::Ping(_) | Self::Await(_) | Self::Tcp(_) | Self::Udp(_)
        )
    }
}

/// Whether a setting is one of IPv6.
pub(super) fn is_of_v6(name: &str) -> bool {
    name.contains("ipv6")
}
