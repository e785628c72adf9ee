// SPDX-License-Identifier: GPL-2.0-only
//! The firewall of a node: the rules of a topology file.

use crate::error::{Error, Result};
use crate::yaml::Yaml;
use outboard::net::{ConnectionState, FirewallRule, IpProtocol, Prefix, Verdict};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Firewall {
    /// The fate of packets that no rule decides on.
    pub policy: Verdict,
    pub rules: Vec<FirewallRule>,
}

fn verdict(text: &str) -> Option<Verdict> {
    match text {
        "accept" => Some(Verdict::Accept),
        "drop" => Some(Verdict::Drop),
        _ => None,
    }
}

/// `80`, or `8000-8080`.
fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = (first.parse().ok()?, last.parse().ok()?);
    (range.0 <= range.1).then_some(range)
}

/// `accept established`, `accept tcp port 80 from 10.0.0.0/8 to 10.1.0.0/16`, ...
fn rule(text: &str) -> Option<FirewallRule> {
    let mut words = text.split_whitespace();
    let mut rule = FirewallRule {
        verdict: verdict(words.next()?)?,
        ..FirewallRule::default()
    };
    let protocol = |rule: &mut FirewallRule, protocol| rule.protocol.replace(protocol).is_none();
    let state = |rule: &mut FirewallRule, state| rule.state.replace(state).is_none();
    while let Some(word) = words.next() {
        let mut network = || words.next()?.parse::<Prefix>().ok();
        let is_new = match word {
            "icmp" => protocol(&mut rule, IpProtocol::Icmp),
            "icmpv6" => protocol(&mut rule, IpProtocol::IcmpV6),
            "tcp" => protocol(&mut rule, IpProtocol::Tcp),
            "udp" => protocol(&mut rule, IpProtocol::Udp),
            "new" => state(&mut rule, ConnectionState::New),
            "established" => state(&mut rule, ConnectionState::Established),
            "invalid" => state(&mut rule, ConnectionState::Invalid),
            "from" => rule.source.replace(network()?).is_none(),
            "to" => rule.destination.replace(network()?).is_none(),
            "port" => rule.ports.replace(ports(words.next()?)?).is_none(),
            _ => false,
        };
        if !is_new {
            return None;
        }
    }
    Some(rule)
}

impl Firewall {
    pub(crate) fn read(yaml: &Yaml) -> Result<Self> {
        let members = yaml.members("firewall", &["policy", "rules"])?;
        let mut firewall = Self {
            policy: members
                .parse("policy", |text| {
                    verdict(text).ok_or_else(|| "write accept or drop".to_owned())
                })?
                .unwrap_or_default(),
            rules: Vec::new(),
        };
        let Some(rules) = members.get("rules") else {
            return Ok(firewall);
        };
        for item in rules.items("rules")? {
            let text = item.text("rules")?;
            let wrong = |why: &str| {
                Error::topology(item.line, format!("rules: {text:?} is no rule: {why}"))
            };
            let hint = "write it as in accept tcp port 80 from 10.0.0.0/8";
            let found = rule(text).ok_or_else(|| wrong(hint))?;
            found.check().map_err(|error| wrong(&error.to_string()))?;
            firewall.rules.push(found);
        }
        Ok(firewall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_words() {
        let found = rule("accept new tcp port 80-90 from 10.0.0.0/8 to 10.1.0.0/16").unwrap();
        assert_eq!(found.ports, Some((80, 90)));
        assert_eq!(found.protocol, Some(IpProtocol::Tcp));
        assert_eq!(found.state, Some(ConnectionState::New));
        assert_eq!(rule("drop").unwrap().verdict, Verdict::Drop);
    }

    #[test]
    fn wrong_rules_are_refused() {
        for text in [
            "",
            "allow tcp",
            "accept tcp udp",
            "accept tcp port",
            "accept tcp port 90-80",
            "accept tcp port 65536",
            "accept from here",
            "accept tcp port 1 port 2",
        ] {
            assert_eq!(rule(text), None, "{text}");
        }
    }

    #[test]
    fn rules_for_no_packet_are_refused_with_the_reason() {
        for (rule, why) in [
            ("accept port 80", "needs tcp or udp"),
            ("accept icmp port 80", "needs tcp or udp"),
            ("drop from 10.0.0.0/8 to fd00::/8", "for IPv4 or for IPv6"),
            ("drop icmpv6 from 10.0.0.0/8", "for IPv4 or for IPv6"),
        ] {
            let yaml = crate::yaml::parse(&format!("rules:\n- {rule:?}")).unwrap();
            let error = Firewall::read(&yaml).unwrap_err().to_string();
            assert!(
                error.starts_with("line 2: ") && error.contains(why),
                "{error}"
            );
        }
    }
}
