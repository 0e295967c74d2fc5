//! Draws docs/performance.svg: each row as a share of the row without a rule.

use std::fmt::{self, Display, Formatter};

use super::figures::Figure;
use super::report::Line;
use super::rows::Setup;

/// The drawing, as SVG.
pub struct Chart<'a>(pub &'a [Line]);

const WIDTH: f64 = 960.0;
const LABELS: f64 = 200.0;
/// The width of a panel's plot, and the space behind it.
const PLOT: f64 = 340.0;
const GAP: f64 = 40.0;
const TOP: f64 = 84.0;
const BAR: f64 = 11.0;
const ROW_GAP: f64 = 12.0;

/// One for each number of connections.
const COLORS: [&str; 4] = ["#cfd6dd", "#56b4e9", "#0072b2", "#1f2328"];
const INK: &str = "#1f2328";
const FAINT: &str = "#59636e";

/// A figure, and what its axis shows at most.
const PANELS: [(&str, Figure, f64); 2] = [
    ("requests per second (more is better)", Figure::RequestsPerSecond, 2.0),
    ("Envoy's CPU per request (less is better)", Figure::EnvoyCpuUs, 4.5),
];

impl Chart<'_> {
    /// The rows, in order, without what is no way of a request.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for line in self.0.iter().filter(|line| line.row.setup != Setup::Callout) {
            if !names.contains(&line.name.as_str()) {
                names.push(&line.name);
            }
        }
        names
    }

    fn connections(&self) -> Vec<u32> {
        let mut connections: Vec<u32> = self.0.iter().map(|line| line.connections).collect();
        connections.dedup();
        connections.truncate(COLORS.len());
        connections
    }

    fn ratio(&self, name: &str, connections: u32, figure: Figure) -> Option<f64> {
        let line = self.0.iter().find(|line| line.name == name && line.connections == connections)?;
        line.ratio.get(&figure).copied()
    }
}

fn text(f: &mut Formatter<'_>, (x, y): (f64, f64), attributes: &str, text: &str) -> fmt::Result {
    writeln!(f, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{text}</text>"#)
}

fn rect(f: &mut Formatter<'_>, (x, y): (f64, f64), (width, height): (f64, f64), color: &str) -> fmt::Result {
    writeln!(f, r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{color}"/>"#)
}

impl Chart<'_> {
    fn panel(&self, f: &mut Formatter<'_>, left: f64, bottom: f64, panel: (&str, Figure, f64)) -> fmt::Result {
        let (title, figure, most) = panel;
        let x = |ratio: f64| left + ratio.min(most) / most * PLOT;
        text(f, (left, TOP - 14.0), &format!(r#"font-size="13" fill="{INK}""#), title)?;
        let connections = self.connections();
        let height = BAR * connections.len() as f64 + ROW_GAP;
        for (index, name) in self.names().iter().enumerate() {
            let top = TOP + ROW_GAP / 2.0 + height * index as f64;
            for (number, (count, color)) in connections.iter().zip(COLORS).enumerate() {
                let Some(ratio) = self.ratio(name, *count, figure) else { continue };
                let y = top + BAR * number as f64;
                rect(f, (left, y), (x(ratio) - left, BAR - 1.0), color)?;
                let attributes = format!(r#"font-size="10" fill="{FAINT}""#);
                text(f, (x(ratio) + 4.0, y + BAR - 2.5), &attributes, &format!("{ratio:.2}"))?;
            }
        }
        // What everything is compared with.
        writeln!(
            f,
            r#"<line x1="{0:.1}" y1="{TOP:.1}" x2="{0:.1}" y2="{bottom:.1}" stroke="{INK}" stroke-dasharray="7 4"/>"#,
            x(1.0)
        )?;
        writeln!(f, r#"<line x1="{left:.1}" y1="{TOP:.1}" x2="{left:.1}" y2="{bottom:.1}" stroke="{INK}"/>"#)
    }
}

impl Display for Chart<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (names, connections) = (self.names(), self.connections());
        let row = BAR * connections.len() as f64 + ROW_GAP;
        let bottom = TOP + row * names.len() as f64;
        let height = bottom + 24.0;
        writeln!(
            f,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0} {height:.0}" font-family="sans-serif" role="img">"#
        )?;
        writeln!(f, "<title>Each row as a share of the row in which no rule matches</title>")?;
        rect(f, (0.0, 0.0), (WIDTH, height), "#ffffff")?;
        let head = format!(r#"font-size="16" font-weight="bold" fill="{INK}""#);
        text(f, (16.0, 26.0), &head, "As a share of what the plugin does when no rule matches")?;
        for (index, (count, color)) in connections.iter().zip(COLORS).enumerate() {
            let x = 16.0 + 150.0 * index as f64;
            rect(f, (x, 39.0), (12.0, 12.0), color)?;
            let words = if *count == 1 { "1 connection".to_owned() } else { format!("{count} connections") };
            text(f, (x + 18.0, 49.0), &format!(r#"font-size="13" fill="{INK}""#), &words)?;
        }
        for (index, name) in names.iter().enumerate() {
            let middle = TOP + row * index as f64 + row / 2.0 + 4.0;
            let attributes = format!(r#"font-size="13" text-anchor="end" fill="{INK}""#);
            text(f, (LABELS - 10.0, middle), &attributes, name)?;
        }
        for (index, panel) in PANELS.into_iter().enumerate() {
            self.panel(f, LABELS + (PLOT + GAP) * index as f64, bottom, panel)?;
        }
        writeln!(f, "</svg>")
    }
}
