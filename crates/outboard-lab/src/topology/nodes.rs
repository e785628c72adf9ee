// SPDX-License-Identifier: GPL-2.0-only
//! The nodes of a topology file.

use super::model::{Node, StaticRoute, Topology};
use super::names::{expand, NameIndex, MOST_NODES};
use crate::error::{Error, Result};
use crate::firewall::Firewall;
use crate::quantity::{number, ParseResult};
use crate::yaml::Yaml;
use outboard::net::Prefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `true` and `false`, as YAML has them.
pub(super) fn truth(text: &str) -> ParseResult<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// `DESTINATION via GATEWAY`; the destination may be `default`.
fn route(text: &str, line: usize) -> Option<StaticRoute> {
    let (destination, gateway) = text.split_once(" via ")?;
    let gateway: IpAddr = gateway.trim().parse().ok()?;
    let everything = match gateway {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let destination = match destination.trim() {
        "default" => Prefix::new(everything, 0)?,
        other => other.parse::<Prefix>().ok()?.network(),
    };
    let is_one_family = destination.address().is_ipv6() == gateway.is_ipv6();
    is_one_family.then_some(StaticRoute {
        line,
        destination,
        gateway,
    })
}

fn routes(yaml: &Yaml) -> Result<Vec<StaticRoute>> {
    let items = yaml.items("routes")?.iter();
    let parsed = items.map(|item| {
        let text = item.text("routes")?;
        route(text, item.line).ok_or_else(|| {
            let text =
                format!("routes: {text:?} is no route: write it as in 10.2.0.0/16 via 10.0.0.1");
            Error::topology(item.line, text)
        })
    });
    parsed.collect()
}

fn sysctls(yaml: &Yaml) -> Result<Vec<(String, String)>> {
    let pairs = yaml.pairs("sysctls")?.iter();
    let texts = pairs.map(|(key, value)| Ok((key.name.clone(), value.text(&key.name)?.to_owned())));
    texts.collect()
}

fn node(yaml: &Yaml, what: &str) -> Result<Node> {
    let known = ["forward", "sysctls", "routes", "firewall", "vcpus"];
    let members = yaml.members(what, &known)?;
    Ok(Node {
        name: String::new(),
        forwards: members.parse("forward", truth)?.unwrap_or(false),
        vcpus: members.parse("vcpus", number(1, 16))?.unwrap_or(1) as u32,
        sysctls: members.get("sysctls").map_or(Ok(Vec::new()), sysctls)?,
        routes: members.get("routes").map_or(Ok(Vec::new()), routes)?,
        firewall: members.get("firewall").map(Firewall::read).transpose()?,
        loopbacks: Vec::new(),
        links: Vec::new(),
        tunnel: None,
    })
}

impl Topology {
    pub(super) fn read_nodes(&mut self, yaml: &Yaml) -> Result<NameIndex> {
        let mut names = NameIndex::new();
        for (key, value) in yaml.pairs("nodes")? {
            let found = node(value, &key.name)?;
            for name in expand(&key.name, key.line)? {
                if names.insert(name.clone(), self.nodes.len()).is_some() {
                    let text = format!("there are two nodes {name:?}");
                    return Err(Error::topology(key.line, text));
                }
                if self.nodes.len() == MOST_NODES {
                    let text = format!("more than {MOST_NODES} nodes");
                    return Err(Error::topology(key.line, text));
                }
                self.nodes.push(Node {
                    name,
                    ..found.clone()
                });
            }
        }
        if self.nodes.is_empty() {
            Err(Error::topology(yaml.line, "there are no nodes"))
        } else {
            Ok(names)
        }
    }
}
