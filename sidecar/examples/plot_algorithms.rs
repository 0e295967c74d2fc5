//! Draws `docs/algorithms.svg`: the same requests under each of the three algorithms, decided by the model.
//!
//!     cargo run -p sluice --example plot_algorithms > docs/algorithms.svg

use std::fmt::{self, Display, Formatter};

use sluice::model;
use sluice::policy::{Algorithm, Limit, Rate};

/// An edge of the windows: a multiple of the period since the epoch.
const T0_US: u64 = 1_800_000_000_000_000;
const PERIOD_MS: u32 = 10_000;
const END_MS: u32 = 60_000;
const COUNT: u32 = 10;

/// How many requests there are in each second from one to before another.
const TRAFFIC: [(u32, u32, u32); 8] = [
    // A crowd at the edge of a window,
    (9, 12, 10),
    // a calm client, one request every three seconds,
    (14, 15, 1),
    (17, 18, 1),
    (20, 21, 1),
    (23, 24, 1),
    (26, 27, 1),
    (29, 30, 1),
    // and then three times as much as the rate, for long.
    (33, 58, 3),
];

const WIDTH: u32 = 960;
const LEFT: f64 = 58.0;
const PX_PER_SECOND: f64 = 14.7;
const FIRST_PANEL: f64 = 84.0;
const PANEL: f64 = 206.0;
const PLOT_TOP: f64 = 34.0;
const PLOT: f64 = 132.0;
const MAX_Y: f64 = 22.0;

const ASKED: &str = "#cfd6dd";
const ADMITTED: &str = "#0072b2";
const ROLLING: &str = "#d55e00";
const INK: &str = "#1f2328";
const FAINT: &str = "#59636e";

/// The drawing, as SVG.
pub(crate) struct Plot;

/// One algorithm, and what is to be seen in its panel: at a second and a number of requests, some lines.
struct Panel {
    name: &'static str,
    algorithm: Algorithm,
    has_windows: bool,
    notes: [(u32, u32, &'static [&'static str]); 2],
}

const PANELS: [Panel; 3] = [
    Panel {
        name: "fixed_window, align: true",
        algorithm: Algorithm::FixedWindow { align: true },
        has_windows: true,
        notes: [
            (21, 18, &["The limit once on each side", "of an edge: twice the limit."]),
            (48, 18, &["Then nothing", "until the next edge."]),
        ],
    },
    Panel {
        name: "sliding_window",
        algorithm: Algorithm::SlidingWindow,
        has_windows: true,
        notes: [
            (21, 18, &["After the edge, the window", "before still counts in part."]),
            (44, 18, &["As that slides out, about one", "a second can be admitted."]),
        ],
    },
    Panel {
        name: "token_bucket, burst: 10",
        algorithm: Algorithm::TokenBucket { burst: 10 },
        has_windows: false,
        notes: [
            (21, 18, &["A full bucket can be had at", "once. There are no edges."]),
            (48, 18, &["Then one a second,", "as it refills."]),
        ],
    },
];

/// When requests are made, in milliseconds: those of a second at even distances.
fn asked() -> Vec<u32> {
    let seconds = TRAFFIC.iter().flat_map(|(from, to, count)| (*from..*to).map(move |second| (second, *count)));
    seconds.flat_map(|(second, count)| (0..count).map(move |i| second * 1_000 + i * 1_000 / count)).collect()
}

/// Which of them an algorithm admits.
fn admitted(algorithm: Algorithm, asked: &[u32]) -> Vec<u32> {
    let rate = Rate { count: u64::from(COUNT), period_us: u64::from(PERIOD_MS) * 1_000 };
    let limit = Limit { algorithm, rate, shadow: false };
    let mut state = None;
    let mut is_admitted = |time_ms: u32| {
        let step = model::decide(state.as_ref(), T0_US + u64::from(time_ms) * 1_000, &limit, 1);
        state = step.write.map(|(state, _)| state).or(state.take());
        step.outcome.allowed
    };
    asked.iter().copied().filter(|time_ms| is_admitted(*time_ms)).collect()
}

/// How many there are from a time to before another.
fn between(times: &[u32], from_ms: u32, to_ms: u32) -> u32 {
    times.iter().filter(|time| (from_ms..to_ms).contains(time)).map(|_| 1).sum()
}

/// The most within any time of this length.
fn most_within(times: &[u32], length_ms: u32) -> u32 {
    times.iter().map(|from| between(times, *from, from + length_ms)).max().unwrap_or(0)
}

fn x(time_ms: u32) -> f64 {
    LEFT + f64::from(time_ms) / 1_000.0 * PX_PER_SECOND
}

fn y(top: f64, requests: u32) -> f64 {
    top + PLOT * (1.0 - f64::from(requests) / MAX_Y)
}

fn text(f: &mut Formatter<'_>, x: f64, y: f64, attributes: &str, text: &str) -> fmt::Result {
    writeln!(f, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{text}</text>"#)
}

fn line(f: &mut Formatter<'_>, from: (f64, f64), to: (f64, f64), attributes: &str) -> fmt::Result {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(f, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" {attributes}/>"#)
}

fn bars(f: &mut Formatter<'_>, top: f64, times: &[u32], color: &str) -> fmt::Result {
    for second in 0..END_MS / 1_000 {
        let from = second * 1_000;
        let count = between(times, from, from + 1_000);
        if count > 0 {
            let (x, y, width) = (x(from) + 1.5, y(top, count), PX_PER_SECOND - 3.0);
            let height = top + PLOT - y;
            writeln!(f, r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{color}"/>"#)?;
        }
    }
    Ok(())
}

/// A line of how many were admitted within the period before each moment.
fn rolling(f: &mut Formatter<'_>, top: f64, times: &[u32]) -> fmt::Result {
    write!(f, r#"<path fill="none" stroke="{ROLLING}" stroke-width="2" d="M{:.1} {:.1}"#, x(0), y(top, 0))?;
    let mut before = 0;
    for now in (0..=END_MS).step_by(100) {
        let count = between(times, (now + 1).saturating_sub(PERIOD_MS), now + 1);
        if count != before {
            write!(f, "H{:.1}V{:.1}", x(now), y(top, count))?;
            before = count;
        }
    }
    writeln!(f, r#"H{:.1}"/>"#, x(END_MS))
}

fn panel(f: &mut Formatter<'_>, title_y: f64, panel: &Panel) -> fmt::Result {
    let (top, asked) = (title_y + PLOT_TOP, asked());
    let bottom = top + PLOT;
    let admitted = admitted(panel.algorithm, &asked);

    text(f, LEFT, title_y + 14.0, &format!(r#"font-size="15" font-weight="bold" fill="{INK}""#), panel.name)?;
    let summary = format!(
        "admitted {} of {}; at most {} within 2 s, {} within 10 s",
        admitted.len(),
        asked.len(),
        most_within(&admitted, 2_000),
        most_within(&admitted, PERIOD_MS),
    );
    text(f, x(END_MS), title_y + 14.0, &format!(r#"font-size="13" text-anchor="end" fill="{INK}""#), &summary)?;

    for requests in [0, 10, 20] {
        let y = y(top, requests);
        line(f, (LEFT, y), (x(END_MS), y), r##"stroke="#e6e9ec""##)?;
        let attributes = format!(r#"font-size="12" text-anchor="end" fill="{FAINT}""#);
        text(f, LEFT - 8.0, y + 4.0, &attributes, &requests.to_string())?;
    }
    let middle = top + PLOT / 2.0;
    let turned = format!(
        r#"font-size="12" text-anchor="middle" fill="{FAINT}" transform="rotate(-90 {:.1} {middle:.1})""#,
        LEFT - 38.0
    );
    text(f, LEFT - 38.0, middle + 4.0, &turned, "requests")?;

    bars(f, top, &asked, ASKED)?;
    bars(f, top, &admitted, ADMITTED)?;
    if panel.has_windows {
        for edge in (0..=END_MS).step_by(10_000) {
            let attributes = format!(r#"stroke="{FAINT}" stroke-dasharray="2 3""#);
            line(f, (x(edge), y(top, 14)), (x(edge), bottom), &attributes)?;
        }
    }
    let limit = y(top, COUNT);
    line(f, (LEFT, limit), (x(END_MS), limit), &format!(r#"stroke="{INK}" stroke-dasharray="7 4""#))?;
    rolling(f, top, &admitted)?;
    line(f, (LEFT, bottom), (x(END_MS), bottom), &format!(r#"stroke="{INK}""#))?;

    let attributes = format!(r#"font-size="13" fill="{INK}""#);
    for (second, requests, lines) in &panel.notes {
        let mut baseline = y(top, *requests);
        for words in *lines {
            text(f, x(second * 1_000), baseline, &attributes, words)?;
            baseline += 17.0;
        }
    }
    for second in (0..=END_MS / 1_000).step_by(10) {
        let label = if second == END_MS / 1_000 { format!("{second} s") } else { second.to_string() };
        let attributes = format!(r#"font-size="12" text-anchor="middle" fill="{FAINT}""#);
        text(f, x(second * 1_000), bottom + 17.0, &attributes, &label)?;
    }
    Ok(())
}

fn legend(f: &mut Formatter<'_>, y: f64) -> fmt::Result {
    let label = |f: &mut Formatter<'_>, x: f64, words: &str| {
        text(f, x, y + 4.0, &format!(r#"font-size="13" fill="{INK}""#), words)
    };
    for (x, color, words) in [(58.0, ASKED, "asked, per second"), (218.0, ADMITTED, "admitted, per second")] {
        writeln!(f, r#"<rect x="{x:.1}" y="{:.1}" width="12" height="12" fill="{color}"/>"#, y - 6.0)?;
        label(f, x + 18.0, words)?;
    }
    let lines = [
        (396.0, format!(r#"stroke="{ROLLING}" stroke-width="2""#), "admitted within the last 10 s"),
        (642.0, format!(r#"stroke="{INK}" stroke-dasharray="7 4""#), "the limit, 10"),
        (786.0, format!(r#"stroke="{FAINT}" stroke-dasharray="2 3""#), "edge of a window"),
    ];
    for (x, attributes, words) in lines {
        line(f, (x, y), (x + 25.0, y), &attributes)?;
        label(f, x + 32.0, words)?;
    }
    Ok(())
}

impl Display for Plot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let height = 714;
        writeln!(
            f,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" role="img">"#
        )?;
        let title = "The same requests under three limits of 10 per 10 s";
        writeln!(f, "<title>{title}</title>")?;
        writeln!(f, r#"<rect width="{WIDTH}" height="{height}" fill="white"/>"#)?;
        text(f, LEFT, 32.0, &format!(r#"font-size="19" font-weight="bold" fill="{INK}""#), title)?;
        legend(f, 58.0)?;
        let mut top = FIRST_PANEL;
        for one in &PANELS {
            panel(f, top, one)?;
            top += PANEL;
        }
        writeln!(f, "</svg>")
    }
}

fn main() {
    print!("{Plot}");
}
