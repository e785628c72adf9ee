// SPDX-License-Identifier: GPL-2.0-only
//! A picture of the throughput of all transfers of a lab, over time.

use crate::quantity::shown_rate;
use crate::report::{LabReport, StepResult};
use crate::svg::escaped;
use crate::throughput::Throughput;

/// Of the picture and of the field with the curves, in pixels.
const SIZE: (f64, f64) = (640.0, 320.0);
const LEFT: f64 = 90.0;
const TOP: f64 = 30.0;
const FIELD: (f64, f64) = (530.0, 240.0);
const STYLE: &str = "text{font:11px sans-serif}.x{text-anchor:middle}.y{text-anchor:end}\
    .grid{stroke:#ddd}polyline{fill:none;stroke-width:1.5}";
const COLOURS: [&str; 6] = [
    "#2b5b84", "#d9772b", "#3a8f3a", "#b22a4a", "#7a56a8", "#777777",
];
/// Lines of the grid in each direction.
const PARTS: u32 = 5;

/// The least of 1, 2 and 5 times a power of ten that is not below a number.
fn rounded_up(number: f64) -> f64 {
    let power = 10f64.powf(number.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    let found = steps.into_iter().find(|step| *step >= number);
    found.unwrap_or(power * 10.0)
}

struct Axes {
    seconds: f64,
    rate: f64,
}

impl Axes {
    fn new(curves: &[(&StepResult, &Throughput)]) -> Self {
        let seconds = curves
            .iter()
            .map(|(_, curve)| curve.interval * curve.bytes.len() as f64);
        let rates = curves.iter().flat_map(|(_, curve)| curve.rates());
        Self {
            seconds: rounded_up(seconds.fold(0.0, f64::max)),
            rate: rounded_up(rates.fold(0.0, f64::max)),
        }
    }

    fn point(&self, seconds: f64, rate: f64) -> (f64, f64) {
        let x = LEFT + seconds / self.seconds * FIELD.0;
        (x, TOP + FIELD.1 * (1.0 - rate / self.rate))
    }

    fn grid(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (right, bottom) = (LEFT + FIELD.0, TOP + FIELD.1);
        for part in 0..=PARTS {
            let share = f64::from(part) / f64::from(PARTS);
            let (x, y) = self.point(self.seconds * share, self.rate * share);
            lines.push(format!(
                "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}M{LEFT} {y:.1}H{right}\"/>"
            ));
            let seconds = format!("{:.3}", self.seconds * share);
            let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
            lines.push(format!(
                "<text class=\"x\" x=\"{x:.1}\" y=\"{}\">{seconds} s</text>",
                bottom + 16.0
            ));
            lines.push(format!(
                "<text class=\"y\" x=\"{}\" y=\"{:.1}\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                shown_rate(self.rate * share)
            ));
        }
        lines
    }

    /// Each rate is in the middle of its interval.
    fn curve(&self, throughput: &Throughput, colour: &str) -> String {
        let points = throughput.rates().enumerate().map(|(index, rate)| {
            let (x, y) = self.point((index as f64 + 0.5) * throughput.interval, rate);
            format!("{x:.1},{y:.1}")
        });
        let points = points.collect::<Vec<_>>().join(" ");
        format!("<polyline stroke=\"{colour}\" points=\"{points}\"/>")
    }
}

/// Draws the throughput of each transfer, with the names of the steps.
pub fn plot(report: &LabReport) -> String {
    let measured = report.steps.iter().filter_map(|step| {
        let throughput = step.throughput.as_ref()?;
        Some((step, throughput))
    });
    let curves: Vec<(&StepResult, &Throughput)> = measured.collect();
    let axes = Axes::new(&curves);
    let (width, height) = SIZE;
    let mut lines = vec![
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\">"),
        format!("<title>{}</title>", escaped(&report.name)),
        format!("<style>{STYLE}</style>"),
    ];
    lines.extend(axes.grid());
    for (index, (step, throughput)) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let name = step.name.as_ref().unwrap_or(&step.action);
        lines.push(axes.curve(throughput, colour));
        lines.push(format!(
            "<text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
            LEFT + 8.0,
            TOP + 14.0 * (index as f64 + 1.0),
            escaped(name)
        ));
    }
    lines.push("</svg>\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: Option<&str>, bytes: &[u64]) -> StepResult {
        StepResult {
            name: name.map(str::to_owned),
            action: "tcp a -> b".to_owned(),
            throughput: Some(Throughput {
                interval: 0.5,
                bytes: bytes.to_vec(),
            }),
            ..StepResult::default()
        }
    }

    #[test]
    fn each_transfer_has_a_curve() {
        let steps = vec![
            StepResult::default(),
            step(Some("one"), &[0, 100, 50]),
            step(None, &[25]),
        ];
        let picture = plot(&LabReport {
            name: "<&>".to_owned(),
            steps,
            ..LabReport::default()
        });
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert!(picture.contains(">one</text>") && picture.contains(">tcp a -&gt; b</text>"));
        // 2 s and 2 kbit/s at the ends: the second rate is 1.6 kbit/s, at 0.75 s.
        assert!(picture.contains("288.8,78.0"), "{picture}");
    }

    #[test]
    fn without_transfers_the_field_is_empty() {
        let picture = plot(&LabReport::default());
        assert_eq!(picture.matches("<polyline").count(), 0);
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }

    #[test]
    fn ends_of_axes_are_round() {
        let ends = [0.3, 1.0, 1.2, 4.0, 51.0].map(rounded_up);
        for (end, right) in ends.into_iter().zip([0.5, 1.0, 2.0, 5.0, 100.0]) {
            assert!((end - right).abs() < 1e-9, "{end} {right}");
        }
    }
}
