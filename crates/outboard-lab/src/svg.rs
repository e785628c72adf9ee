// SPDX-License-Identifier: GPL-2.0-only
//! A picture of a topology with its traffic. Springs pull linked nodes together, and all nodes push
//! each other away.

use crate::report::{InterfaceReport, LabReport};
use crate::topology::{Node, Topology};
use std::fmt::Write;

type Point = (f64, f64);

/// Work for the layout: steps times pairs of points.
const WORK: usize = 20_000_000;
/// The length of a link at rest, in pixels.
const LENGTH: f64 = 110.0;
const MARGIN: f64 = 60.0;
const STYLE: &str = "text{font:11px sans-serif;text-anchor:middle}\
    .node{fill:#dbe9f6;stroke:#2b5b84}.router{fill:#2b5b84}.router+text{fill:#fff}\
    .hub{fill:#777}line{stroke:#999}.counter{fill:#555;font-size:9px}.drop{fill:#b00}";

/// Nodes first, then a point for each link with more than two nodes.
struct Picture {
    points: Vec<Point>,
    /// Two points, and the link.
    lines: Vec<(usize, usize, usize)>,
}

impl Picture {
    fn new(topology: &Topology) -> Self {
        let mut lines = Vec::new();
        let mut count = topology.nodes.len();
        for (index, link) in topology.links.iter().enumerate() {
            match &link.ports[..] {
                [one, other] => lines.push((one.node, other.node, index)),
                ports => {
                    lines.extend(ports.iter().map(|port| (port.node, count, index)));
                    count += 1;
                }
            }
        }
        let radius = LENGTH * count as f64 / 6.0;
        let on_circle = |index: usize| {
            let angle = index as f64 * std::f64::consts::TAU / count as f64;
            (radius * angle.cos(), radius * angle.sin())
        };
        Self {
            points: (0..count).map(on_circle).collect(),
            lines,
        }
    }

    fn lay_out(&mut self) {
        let pairs = self.points.len().pow(2).max(1);
        let steps = (WORK / pairs).clamp(20, 400);
        for step in 0..steps {
            let most = LENGTH * (1.0 - step as f64 / steps as f64);
            let forces = self.forces();
            for (point, force) in self.points.iter_mut().zip(forces) {
                let length = force.0.hypot(force.1).max(1e-9);
                let scale = length.min(most) / length;
                *point = (point.0 + force.0 * scale, point.1 + force.1 * scale);
            }
        }
    }

    fn forces(&self) -> Vec<Point> {
        let mut forces = vec![(0.0, 0.0); self.points.len()];
        let mut push = |one: usize, other: usize, strength: &dyn Fn(f64) -> f64| {
            let (a, b) = (self.points[one], self.points[other]);
            let (x, y) = (b.0 - a.0, b.1 - a.1);
            let distance = x.hypot(y).max(1.0);
            let force = strength(distance) / distance;
            forces[one] = (forces[one].0 - x * force, forces[one].1 - y * force);
            forces[other] = (forces[other].0 + x * force, forces[other].1 + y * force);
        };
        for one in 0..self.points.len() {
            for other in one + 1..self.points.len() {
                push(one, other, &|distance| LENGTH * LENGTH / distance);
            }
        }
        for &(one, other, _) in &self.lines {
            push(one, other, &|distance| -distance * distance / LENGTH);
        }
        forces
    }

    /// Moves everything to the first quadrant. Returns the size of the picture.
    fn place(&mut self) -> Point {
        let least = |value: fn(&Point) -> f64| {
            self.points.iter().map(value).fold(f64::INFINITY, f64::min) - MARGIN
        };
        let (left, top) = (least(|point| point.0), least(|point| point.1));
        for point in &mut self.points {
            *point = (point.0 - left, point.1 - top);
        }
        let most =
            |value: fn(&Point) -> f64| self.points.iter().map(value).fold(0.0, f64::max) + MARGIN;
        (most(|point| point.0), most(|point| point.1))
    }
}

/// Text of a name, as a part of XML.
pub(crate) fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.chars()
        .filter(|character| !character.is_control())
        .collect()
}

/// Bytes for people, in units of 1000.
fn shown_bytes(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        10_000_000..=9_999_999_999 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// The traffic of a link: what its nodes have sent, and what was dropped.
fn traffic(report: &LabReport, link: &str) -> (u64, u64) {
    let interfaces = report
        .interfaces
        .iter()
        .filter(|interface| interface.link == link);
    interfaces.fold(
        (0, 0),
        |(bytes, dropped), InterfaceReport { counters, .. }| {
            (bytes + counters.sent_bytes, dropped + counters.dropped)
        },
    )
}

/// Draws a lab after it has run.
pub fn draw(topology: &Topology, report: &LabReport) -> String {
    let mut drawing = Picture::new(topology);
    drawing.lay_out();
    let (width, height) = drawing.place();
    let mut lines = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\">"
        ),
        format!("<title>{}</title>", escaped(&topology.name)),
        format!("<style>{STYLE}</style>"),
    ];
    lines.extend(draw_links(topology, report, &drawing));
    let points = drawing.points.iter().enumerate();
    lines.extend(points.map(|(index, point)| draw_point(topology.nodes.get(index), *point)));
    lines.push("</svg>\n".to_owned());
    lines.join("\n")
}

/// The lines between points, each link with its traffic once.
fn draw_links(topology: &Topology, report: &LabReport, drawing: &Picture) -> Vec<String> {
    let mut lines = Vec::new();
    let links = topology.links.iter();
    let traffic: Vec<(u64, u64)> = links.map(|link| traffic(report, &link.name)).collect();
    let mut is_labelled = vec![false; topology.links.len()];
    for &(one, other, link) in &drawing.lines {
        let (a, b) = (drawing.points[one], drawing.points[other]);
        let (bytes, dropped) = traffic[link];
        let width = 1.0 + (bytes as f64 + 1.0).log10() / 2.0;
        lines.push(format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" \
             stroke-width=\"{width:.1}\"/>",
            a.0, a.1, b.0, b.1
        ));
        if std::mem::replace(&mut is_labelled[link], true) {
            continue;
        }
        let (x, y) = ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
        let mut label = format!("{}: {}", topology.links[link].name, shown_bytes(bytes));
        if dropped > 0 {
            let _ = write!(label, " <tspan class=\"drop\">-{dropped}</tspan>");
        }
        lines.push(format!(
            "<text class=\"counter\" x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>"
        ));
    }
    lines
}

/// A node, or the middle of a link of several nodes.
fn draw_point(node: Option<&Node>, (x, y): Point) -> String {
    let Some(node) = node else {
        return format!("<circle class=\"hub\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
    };
    let class = if node.forwards { "node router" } else { "node" };
    let half = 10.0 + node.name.len() as f64 * 3.5;
    format!(
        "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" \
         width=\"{:.1}\" height=\"22\" rx=\"6\"/>\
         <text x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
        x - half,
        y - 11.0,
        half * 2.0,
        y + 4.0,
        node.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::InterfaceCounters;

    #[test]
    fn a_picture_has_all_nodes_and_links() {
        let text = "
name: <a & b>
nodes: {a: , b: {forward: true}, c: , d: }
links: {two: {nodes: [a, b]}, three: {nodes: [b, c, d]}}
";
        let topology = Topology::parse(text).unwrap();
        let picture = draw(&topology, &LabReport::default());
        assert!(picture.contains("<title>&lt;a &amp; b&gt;</title>"));
        assert_eq!(picture.matches("<rect").count(), 4);
        assert_eq!(picture.matches("<line").count(), 4);
        assert_eq!(picture.matches("class=\"counter\"").count(), 2);
        assert!(!picture.contains("NaN"));
    }

    #[test]
    fn a_picture_has_the_bytes_and_drops_of_each_link() {
        let text = "nodes: {a: , b: }\nlinks: {one: {nodes: [a, b]}, other: {nodes: [a, b]}}";
        let interface = |link: &str, sent_bytes, dropped| InterfaceReport {
            link: link.to_owned(),
            node: "a".to_owned(),
            counters: InterfaceCounters {
                sent_bytes,
                dropped,
                ..InterfaceCounters::default()
            },
        };
        let report = LabReport {
            interfaces: vec![
                interface("one", 40_000, 3),
                interface("other", 700, 0),
                interface("one", 2_000, 4),
            ],
            ..LabReport::default()
        };
        let picture = draw(&Topology::parse(text).unwrap(), &report);
        assert!(picture.contains(">one: 42 kB <tspan class=\"drop\">-7</tspan><"));
        assert!(picture.contains(">other: 700 B<"));
    }
}
