// SPDX-License-Identifier: GPL-2.0-only
//! A topology: nodes, links between them, and the steps of an experiment. `parse` reads and checks
//! a file; everything after it can trust the indexes and names here.

mod addresses;
mod hosts;
mod links;
mod model;
mod names;
mod networks;
mod nodes;
mod step;
mod steps;

use crate::error::{Error, Result};
use crate::quantity;
use crate::yaml::{self, Yaml};

pub use model::{Node, Port, Topology};
pub(crate) use names::NameIndex;
pub use step::{Action, Bound, Echo, Expectation, LabStep, Metric, TransferStep};

impl Topology {
    /// Parses and checks the text of a file.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > yaml::LARGEST {
            let most = yaml::LARGEST >> 20;
            return Err(Error::topology(
                0,
                format!("the file has more than {most} MiB"),
            ));
        }
        Self::read(&yaml::parse(text)?)
    }

    fn read(file: &Yaml) -> Result<Self> {
        let known = [
            "name",
            "addresses",
            "loopbacks",
            "nodes",
            "links",
            "routing",
            "seed",
            "steps",
        ];
        let members = file.members("the file", &known)?;
        let missing = |name: &str| Error::topology(file.line, format!("{name} are missing"));
        let mut topology = Self {
            name: members
                .parse("name", |text| Ok(text.to_owned()))?
                .unwrap_or_default(),
            seed: members.parse("seed", quantity::number(0, u64::MAX))?,
            ..Self::default()
        };
        let computed = members.parse("routing", |text| match text {
            "computed" => Ok(true),
            "static" => Ok(false),
            _ => Err("write static or computed".to_owned()),
        })?;
        topology.computes_routes = computed.unwrap_or(false);
        let nodes = members.get("nodes").ok_or_else(|| missing("nodes"))?;
        let names = topology.read_nodes(nodes)?;
        if let Some(pools) = members.get("loopbacks") {
            addresses::assign_loopbacks(&mut topology, pools)?;
        }
        let link_names = match members.get("links") {
            Some(links) => topology.read_links(links, &names, members.get("addresses"))?,
            None => NameIndex::new(),
        };
        hosts::check(&topology)?;
        networks::check(&topology)?;
        if let Some(steps) = members.get("steps") {
            topology.read_steps(steps, &names, &link_names)?;
        }
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_have_names_of_their_own() {
        let text = "
nodes: {a: , b-c: , c: , tunnel: }
links:
  a-b: {nodes: [a, c]}
  a: {nodes: [a, b-c]}
";
        let topology = Topology::parse(text).unwrap();
        let ends = [(0, 0), (0, 2), (1, 0), (1, 1)];
        let names = ends.map(|(link, node)| topology.capture_name(link, node));
        let wanted = ["a-b-a.pcapng", "a-b.c.pcapng", "a-a.pcapng", "a.b-c.pcapng"];
        assert_eq!(names, wanted);
    }
}
