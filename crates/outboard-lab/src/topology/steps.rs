// SPDX-License-Identifier: GPL-2.0-only
//! The steps of a topology file, and what is expected of them.

use super::model::Topology;
use super::names::{check_name, find, NameIndex};
use super::step::{Action, Bound, Echo, Expectation, LabStep, Metric, Relation, TransferStep};
use crate::error::{Error, Result};
use crate::quantity::{number, rate, share, size, time, ParseResult};
use crate::yaml::{MapReader, Yaml};
use std::net::IpAddr;
use std::time::Duration;

const MOST_STEPS: usize = 10_000;
const ACTIONS: [&str; 8] = [
    "ping", "await", "tcp", "udp", "down", "up", "sysctl", "wait",
];

/// So many times the result of a step, as in `2 * cubic`. `names`: steps before this one.
fn times(text: &str, names: &NameIndex) -> ParseResult<Bound> {
    let (factor, name) = text.split_once('*').unwrap_or(("1", text));
    let (factor, name) = (factor.trim(), name.trim());
    let number = factor.parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite());
    let number = number.ok_or_else(|| format!("{factor:?} is no number: write 2 * STEP"))?;
    let step = names.get(name);
    let step = step.ok_or_else(|| format!("no earlier step has the name {name:?}"))?;
    Ok(Bound::Times(number, *step))
}

/// Whether a text is meant as a number with or without a unit, and not as the name of a step.
fn is_quantity(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '.' | '-'))
        && !text.contains('*')
}

/// The metric, comparison and bound of `loss <= 5%`. `names`: steps before this one.
fn comparison(text: &str, names: &NameIndex) -> ParseResult<Expectation> {
    let operators = [
        ("<=", Relation::AtMost),
        (">=", Relation::AtLeast),
        ("<", Relation::Less),
        (">", Relation::More),
        ("=", Relation::Equal),
    ];
    let found = operators.iter().find_map(|(operator, comparison)| {
        let (left, right) = text.split_once(operator)?;
        Some((left.trim(), *comparison, right.trim()))
    });
    let hint = "write reachable, unreachable, any, or a comparison, as loss <= 5%";
    let (metric, comparison, bound) = found.ok_or(hint)?;
    let seconds = |text: &str| time(text).map(|time| time.as_secs_f64());
    let (metric, value) = match metric {
        "loss" => (Metric::Loss, share(bound)),
        "rtt" => (Metric::Rtt, seconds(bound)),
        "rate" => (Metric::Rate, rate(bound)),
        "time" => (Metric::Time, seconds(bound)),
        "received" => (
            Metric::Received,
            number(0, u32::MAX.into())(bound).map(|count| count as f64),
        ),
        _ => return Err("compare loss, rtt, rate, time or received".to_owned()),
    };
    let bound = value.map(Bound::Value).or_else(|hint| {
        let other = times(bound, names);
        other.map_err(|reason| if is_quantity(bound) { hint } else { reason })
    });
    Ok(Expectation::Compare {
        metric,
        comparison,
        bound: bound?,
        text: text.to_owned(),
    })
}

fn expectation(text: &str, names: &NameIndex) -> ParseResult<Expectation> {
    match text {
        "reachable" => Ok(Expectation::Reachable),
        "unreachable" => Ok(Expectation::Unreachable),
        "any" => Ok(Expectation::Any),
        _ => comparison(text, names),
    }
}

/// The names that the steps of a file refer to.
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
            "4" => Ok(false),
            "6" => Ok(true),
            _ => Err("write 4 or 6".to_owned()),
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
        let members = if is_tcp {
            yaml.members("tcp", &tcp)?
        } else {
            yaml.members("udp", &udp)?
        };
        let bytes = if is_tcp {
            members.parse("bytes", size)?.unwrap_or(1_000_000)
        } else {
            members.parse("size", number(8, 65_000))?.unwrap_or(1000)
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
            let found = members.parse(key, |text| Ok(text.to_owned()))?;
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
                let wrong = |hint| format!("wait: {text:?} is refused: {hint}");
                let time = time(text).map_err(|hint| Error::topology(yaml.line, wrong(hint)))?;
                Ok(Action::Wait(time))
            }
        }
    }

    /// Whether a step of this kind, and the one that it is compared with, have such a result.
    fn check_fit(&self, expectation: &Expectation, action: &Action) -> ParseResult<()> {
        let Expectation::Compare { metric, bound, .. } = expectation else {
            let hint = "it does not fit this step, which reaches no node";
            return action
                .reaches()
                .then_some(())
                .ok_or_else(|| hint.to_owned());
        };
        let other = match bound {
            Bound::Times(_, step) => self.topology.steps.get(*step),
            Bound::Value(_) => None,
        };
        if !action.measures(*metric) {
            return Err(format!("it does not fit this step: {}", action.metrics().1));
        }
        match other.filter(|other| !other.action.measures(*metric)) {
            Some(other) => {
                let (_, metrics) = other.action.metrics();
                Err(format!(
                    "it does not fit the step in line {}: {metrics}",
                    other.line
                ))
            }
            None => Ok(()),
        }
    }

    fn expected(&self, yaml: Option<&Yaml>, action: &Action) -> Result<Vec<Expectation>> {
        let Some(yaml) = yaml else {
            return Ok(Vec::from_iter(
                action.reaches().then_some(Expectation::Reachable),
            ));
        };
        let items = yaml.items("expect")?;
        if items.is_empty() {
            let text = "expect: nothing is expected: write any, or leave expect out";
            return Err(Error::topology(yaml.line, text));
        }
        let parsed = items.iter().map(|item| {
            let text = item.text("expect")?;
            let wrong = |hint| {
                let text = format!("expect: {text:?} is refused: {hint}");
                Error::topology(item.line, text)
            };
            let found = expectation(text, &self.steps).map_err(wrong)?;
            self.check_fit(&found, action).map_err(wrong)?;
            Ok(found)
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
            if self.steps.contains_key(name) {
                Err(Error::topology(
                    yaml.line,
                    format!("there are two steps {name:?}"),
                ))
            } else {
                Ok(name.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a file with this step after a ping and a transfer named `cubic`.
    fn error(step: &str) -> String {
        let text = format!(
            "nodes: {{a: , b: }}\nlinks: {{l: {{nodes: [a, b]}}}}\nsteps:\n\
             - {{ping: {{from: a, to: b}}, name: echo}}\n\
             - {{tcp: {{from: a, to: b}}, name: cubic}}\n- {step}\n"
        );
        let parsed = Topology::parse(&text);
        parsed.map_or_else(|error| error.to_string(), |_| String::new())
    }

    fn expected(step: &str, expectation: &str) -> String {
        error(&format!(
            "{step}: {{from: a, to: b}}\n  expect: {expectation}"
        ))
    }

    #[test]
    fn messages_about_expectations_say_what_is_possible() {
        for (step, text, mentioned) in [
            (
                "tcp",
                "rate >= 2 * nosuch",
                "no earlier step has the name \"nosuch\"",
            ),
            (
                "tcp",
                "rate >= nosuch",
                "no earlier step has the name \"nosuch\"",
            ),
            ("tcp", "rate >= x * cubic", "\"x\" is no number"),
            ("tcp", "rate >= 5", "kbit/s"),
            ("ping", "rtt <= 5", "us, ms, s or min"),
            ("ping", "loss <= 120%", "0% to 100%"),
            (
                "ping",
                "received >= many",
                "no earlier step has the name \"many\"",
            ),
            ("ping", "received >= 2.5", "a whole number"),
            (
                "ping",
                "rate >= 1 Mbit/s",
                "ping measures loss, rtt and received",
            ),
            ("udp", "rtt <= 1s", "udp measures loss, rate and received"),
            ("await", "rtt <= 1s", "await measures time"),
            (
                "tcp",
                "rate >= 2 * echo",
                "the step in line 4: ping measures",
            ),
            ("ping", "delay <= 1s", "compare loss, rtt"),
            ("ping", "reached", "write reachable"),
        ] {
            let found = expected(step, text);
            let start = format!("line 7: expect: {text:?} is refused: ");
            assert!(
                found.starts_with(&start) && found.contains(mentioned),
                "{found}"
            );
        }
        assert!(error("down: l\n  expect: reachable").contains("reaches no node"));
    }

    #[test]
    fn expectations_that_fit_are_accepted() {
        for (step, text) in [
            ("tcp", "[reachable, rate >= 2 * cubic, time <= 2s]"),
            ("tcp", "rate >= cubic"),
            ("ping", "[loss <= 5%, rtt <= 10ms, received >= 1]"),
            ("ping", "any"),
        ] {
            assert_eq!(expected(step, text), "", "{step}: {text}");
        }
    }

    #[test]
    fn an_expectation_has_a_value() {
        for value in ["", "[]"] {
            let found = expected("ping", value);
            assert!(
                found.starts_with("line 7: expect: nothing is expected"),
                "{found}"
            );
        }
    }

    #[test]
    fn messages_about_values_have_units_and_ranges() {
        for (step, wanted) in [
            (
                "ping: {from: a, to: b, count: 0}",
                "count: \"0\" is refused: write a whole number of 1",
            ),
            (
                "ping: {from: a, to: b, interval: 5}",
                "interval: \"5\" is refused: write a time with us",
            ),
            (
                "ping: {from: a, to: b, ip: 5}",
                "ip: \"5\" is refused: write 4 or 6",
            ),
            (
                "tcp: {from: a, to: b, bytes: 2 TB}",
                "bytes: \"2 TB\" is refused: the largest size is 1000 GB",
            ),
            (
                "tcp: {from: a, to: b, port: 0}",
                "port: \"0\" is refused: write a whole number of 1 to 65535",
            ),
            (
                "wait: 5",
                "wait: \"5\" is refused: write a time with us, ms, s or min",
            ),
        ] {
            let found = error(step);
            assert!(found.starts_with(&format!("line 6: {wanted}")), "{found}");
        }
    }
}
