// SPDX-License-Identifier: GPL-2.0-only
//! The steps of a topology file, and what is expected of them.

use super::{check_name, find, is_of_v6, NameIndex, Topology};
use crate::error::{Error, Result};
use crate::quantity::{number, rate, share, size, time};
use crate::yaml::{MapReader, Yaml};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

const MOST_STEPS: usize = 10_000;
const ACTIONS: [&str; 8] = [
    "ping", "await", "tcp", "udp", "down", "up", "sysctl", "wait",
];

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

/// The metric, comparison and bound of `loss <= 5%`. `names`: steps before this one.
fn comparison(text: &str, names: &NameIndex) -> Option<Expectation> {
    let operators = [
        ("<=", Relation::AtMost),
        (">=", Relation::AtLeast),
        ("<", Relation::Less),
        (">", Relation::More),
        ("=", Relation::Equal),
    ];
    let (metric, comparison, bound) = operators.iter().find_map(|(operator, comparison)| {
        let (left, right) = text.split_once(operator)?;
        Some((left.trim(), *comparison, right.trim()))
    })?;
    let seconds = |text: &str| time(text).map(|time| time.as_secs_f64());
    let (metric, value) = match metric {
        "loss" => (Metric::Loss, share(bound)),
        "rtt" => (Metric::Rtt, seconds(bound)),
        "rate" => (Metric::Rate, rate(bound)),
        "time" => (Metric::Time, seconds(bound)),
        "received" => (
            Metric::Received,
            bound.parse().ok().map(|count: u32| count.into()),
        ),
        _ => return None,
    };
    let times = || {
        let (factor, name) = bound.split_once('*').unwrap_or(("1", bound));
        let factor = factor
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|factor| factor.is_finite())?;
        Some(Bound::Times(factor, *names.get(name.trim())?))
    };
    Some(Expectation::Compare {
        metric,
        comparison,
        bound: value.map(Bound::Value).or_else(times)?,
        text: text.to_owned(),
    })
}

fn expectation(text: &str, names: &NameIndex) -> Option<Expectation> {
    match text {
        "reachable" => Some(Expectation::Reachable),
        "unreachable" => Some(Expectation::Unreachable),
        "any" => Some(Expectation::Any),
        _ => comparison(text, names),
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
    /// Whether a step of this kind measures a metric.
    fn measures(&self, metric: Metric) -> bool {
        match self {
            Self::Ping(_) => matches!(metric, Metric::Loss | Metric::Rtt | Metric::Received),
            Self::Tcp(_) => matches!(metric, Metric::Rate | Metric::Time),
            Self::Udp(_) => matches!(metric, Metric::Loss | Metric::Rate | Metric::Received),
            Self::Await(_) => metric == Metric::Time,
            _ => false,
        }
    }

    /// Whether the step tries to reach another node.
    fn reaches(&self) -> bool {
        matches!(
            self,
            Self::Ping(_) | Self::Await(_) | Self::Tcp(_) | Self::Udp(_)
        )
    }
}

/// What the steps of a file refer to.
struct Context<'a> {
    topology: &'a Topology,
    nodes: &'a NameIndex,
    links: &'a NameIndex,
    /// Steps before the current one, by name.
    steps: NameIndex,
}

impl Context<'_> {
    fn node(&self, members: &MapReader, key: &str, line: usize) -> Result<usize> {
        let yaml = members
            .get(key)
            .ok_or_else(|| Error::topology(line, format!("{key} is missing")))?;
        find(self.nodes, "node", yaml.text(key)?, yaml.line)
    }

    fn family(&self, members: &MapReader) -> Result<Option<bool>> {
        members.parse("ip", |text| match text {
            "4" => Some(false),
            "6" => Some(true),
            _ => None,
        })
    }

    fn address(&self, node: usize, members: &MapReader, line: usize) -> Result<IpAddr> {
        let found = self.topology.address_of(node, self.family(members)?);
        found.ok_or_else(|| {
            let name = &self.topology.nodes[node].name;
            Error::topology(line, format!("node {name:?} has no such address"))
        })
    }

    /// The address in the key `to`: of a node, or as text.
    fn target(&self, members: &MapReader, line: usize) -> Result<IpAddr> {
        let written = members.get("to").and_then(|yaml| yaml.text("to").ok());
        match written.and_then(|text| text.parse().ok()) {
            Some(address) => Ok(address),
            None => self.address(self.node(members, "to", line)?, members, line),
        }
    }

    fn ping(&self, yaml: &Yaml) -> Result<Action> {
        let known = ["from", "to", "ip", "count", "interval", "timeout", "size"];
        let members = yaml.members("ping", &known)?;
        Ok(Action::Ping(Echo {
            from: self.node(&members, "from", yaml.line)?,
            to: self.target(&members, yaml.line)?,
            count: members.parse("count", number(1, 1_000_000))?.unwrap_or(3) as u32,
            interval: members
                .parse("interval", time)?
                .unwrap_or(Duration::from_millis(10)),
            timeout: members
                .parse("timeout", time)?
                .unwrap_or(Duration::from_secs(2)),
            size: members.parse("size", number(8, 65_000))?.unwrap_or(56) as usize,
        }))
    }

    fn await_reply(&self, yaml: &Yaml) -> Result<Action> {
        let members = yaml.members("await", &["from", "to", "ip", "timeout"])?;
        Ok(Action::Await(Echo {
            from: self.node(&members, "from", yaml.line)?,
            to: self.target(&members, yaml.line)?,
            count: 1,
            interval: Duration::ZERO,
            timeout: members
                .parse("timeout", time)?
                .unwrap_or(Duration::from_secs(60)),
            size: 8,
        }))
    }

    fn transfer(&self, yaml: &Yaml, is_tcp: bool) -> Result<TransferStep> {
        let tcp = ["from", "to", "ip", "port", "timeout", "bytes"];
        let udp = [
            "from", "to", "ip", "port", "timeout", "count", "size", "interval",
        ];
        let members = match is_tcp {
            true => yaml.members("tcp", &tcp)?,
            false => yaml.members("udp", &udp)?,
        };
        let bytes = match is_tcp {
            true => members.parse("bytes", size)?.unwrap_or(1_000_000),
            false => members.parse("size", number(8, 65_000))?.unwrap_or(1000),
        };
        let to = self.node(&members, "to", yaml.line)?;
        let from = self.node(&members, "from", yaml.line)?;
        // A node serves one request at a time: it cannot be both ends.
        if from == to {
            let text = "from and to are the same node";
            return Err(Error::topology(yaml.line, text));
        }
        Ok(TransferStep {
            from,
            to,
            address: self.address(to, &members, yaml.line)?,
            port: members.parse("port", number(1, 65535))?.unwrap_or(5001) as u16,
            bytes,
            count: members
                .parse("count", number(1, 10_000_000))?
                .unwrap_or(1000) as u32,
            interval: members
                .parse("interval", time)?
                .unwrap_or(Duration::from_millis(1)),
            timeout: members
                .parse("timeout", time)?
                .unwrap_or(Duration::from_secs(10)),
        })
    }

    fn link(&self, yaml: &Yaml, is_up: bool) -> Result<Action> {
        let name = yaml.text("the name of a link")?;
        let link = find(self.links, "link", name, yaml.line)?;
        Ok(Action::Link { link, is_up })
    }

    fn sysctl(&self, yaml: &Yaml) -> Result<Action> {
        let members = yaml.members("sysctl", &["node", "name", "value"])?;
        let text = |key: &str| {
            let found = members.parse(key, |text| Some(text.to_owned()))?;
            found.ok_or_else(|| Error::topology(yaml.line, format!("{key} is missing")))
        };
        Ok(Action::Sysctl {
            node: self.node(&members, "node", yaml.line)?,
            name: text("name")?,
            value: text("value")?,
        })
    }

    fn action(&self, key: &str, yaml: &Yaml) -> Result<Action> {
        match key {
            "ping" => self.ping(yaml),
            "await" => self.await_reply(yaml),
            "tcp" => self.transfer(yaml, true).map(Action::Tcp),
            "udp" => self.transfer(yaml, false).map(Action::Udp),
            "down" => self.link(yaml, false),
            "up" => self.link(yaml, true),
            "sysctl" => self.sysctl(yaml),
            _ => {
                let text = yaml.text("wait")?;
                let time = time(text).ok_or_else(|| {
                    Error::topology(yaml.line, format!("wait: {text:?} is no time"))
                })?;
                Ok(Action::Wait(time))
            }
        }
    }

    fn expected(&self, yaml: Option<&Yaml>, action: &Action) -> Result<Vec<Expectation>> {
        let Some(yaml) = yaml else {
            return Ok(Vec::from_iter(
                action.reaches().then_some(Expectation::Reachable),
            ));
        };
        let items = yaml.items("expect")?.iter();
        let parsed = items.map(|item| {
            let text = item.text("expect")?;
            let found = expectation(text, &self.steps);
            let fits = found.filter(|found| match found {
                Expectation::Compare { metric, bound, .. } => {
                    let other = match bound {
                        Bound::Times(_, step) => self.topology.steps.get(*step),
                        Bound::Value(_) => None,
                    };
                    action.measures(*metric)
                        && other.is_none_or(|step| step.action.measures(*metric))
                }
                _ => action.reaches(),
            });
            fits.ok_or_else(|| {
                let text = format!("expect: {text:?} does not fit this step: see docs/labs.md");
                Error::topology(item.line, text)
            })
        });
        parsed.collect()
    }

    fn step(&self, yaml: &Yaml) -> Result<LabStep> {
        let known: Vec<&str> = ACTIONS.iter().copied().chain(["expect", "name"]).collect();
        let members = yaml.members("step", &known)?;
        let mut actions = ACTIONS
            .iter()
            .filter_map(|key| members.get(key).map(|yaml| (*key, yaml)));
        let (Some((key, value)), None) = (actions.next(), actions.next()) else {
            let text = format!("a step has one of {}", ACTIONS.join(", "));
            return Err(Error::topology(yaml.line, text));
        };
        let action = self.action(key, value)?;
        let name = members.get("name").map(|yaml| {
            let name = yaml.text("name")?;
            check_name(name, yaml.line)?;
            match self.steps.contains_key(name) {
                true => Err(Error::topology(
                    yaml.line,
                    format!("there are two steps {name:?}"),
                )),
                false => Ok(name.to_owned()),
            }
        });
        Ok(LabStep {
            line: yaml.line,
            name: name.transpose()?,
            expected: self.expected(members.get("expect"), &action)?,
            action,
        })
    }
}

impl Topology {
    pub(super) fn read_steps(
        &mut self,
        yaml: &Yaml,
        nodes: &NameIndex,
        links: &NameIndex,
    ) -> Result<()> {
        let items = yaml.items("steps")?;
        if items.len() > MOST_STEPS {
            let text = format!("more than {MOST_STEPS} steps");
            return Err(Error::topology(yaml.line, text));
        }
        let mut names = NameIndex::new();
        for (index, item) in items.iter().enumerate() {
            let context = Context {
                topology: self,
                nodes,
                links,
                steps: std::mem::take(&mut names),
            };
            let step = context.step(item)?;
            names = context.steps;
            names.extend(step.name.clone().map(|name| (name, index)));
            self.steps.push(step);
        }
        Ok(())
    }
}
