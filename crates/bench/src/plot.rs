//! What happened over time, drawn as SVG: one panel of arrivals a second, one of latencies.

use std::fmt::Write;

use crate::axis::Axis;
use crate::durations::Durations;
use crate::figures::number;

const WIDTH: f64 = 960.0;
const PANEL_HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
/// Room for the names of the lines.
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 45.0;
/// Slices of time that a line of arrivals is drawn through.
const SLICES: usize = 100;
/// Slices of a line of latencies at most, and calls that a slice has at least.
const LATENCY_SLICES_MAX: usize = 50;
const LATENCY_SLICE_CALLS: usize = 25;
const COLOURS: [&str; 4] = ["#1f6feb", "#d29922", "#8250df", "#1a7f37"];

/// When notifications arrived, in microseconds and in this order.
pub(crate) struct Arrived {
    pub(crate) name: &'static str,
    pub(crate) times: Vec<u64>,
}

/// When calls were due and how long their notifications took, in microseconds.
pub(crate) struct Latencies {
    pub(crate) name: String,
    pub(crate) calls: Vec<(u64, u64)>,
}

/// A line of a panel, through points of its two axes.
struct Line {
    name: String,
    colour: &'static str,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

/// All that was measured over time.
pub(crate) fn draw(arrived: &[Arrived], latencies: &[Latencies]) -> String {
    let throughput = arrived.iter().zip(COLOURS).map(|(arrived, colour)| Line {
        name: arrived.name.to_owned(),
        colour,
        dashed: false,
        points: rates(&arrived.times),
    });
    let mut slow = Vec::new();
    for (latencies, colour) in latencies.iter().zip(COLOURS) {
        for (part, what, dashed) in [(0.99, "p99", false), (0.5, "p50", true)] {
            let (name, points) = (format!("{} {what}", latencies.name), percentiles(&latencies.calls, part));
            slow.push(Line { name, colour, dashed, points });
        }
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        2.0 * PANEL_HEIGHT
    );
    let throughput: Vec<Line> = throughput.collect();
    panel(&mut svg, 0.0, "arrivals a second", &throughput, &Axis::linear(values(&throughput)));
    let title = "from the call to the arrival, in milliseconds";
    panel(&mut svg, PANEL_HEIGHT, title, &slow, &Axis::logarithmic(values(&slow)));
    svg.push_str("</svg>\n");
    svg
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value))
}

/// One panel, its upper edge at the given height.
fn panel(svg: &mut String, top: f64, title: &str, lines: &[Line], vertical: &Axis) {
    let seconds = lines.iter().flat_map(|line| line.points.iter().map(|(at, _)| *at));
    let horizontal = Axis::linear(seconds);
    let (width, height) = (WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM);
    let x = |at: f64| LEFT + width * horizontal.place(at);
    let y = |value: f64| top + TOP + height * (1.0 - vertical.place(value));
    let (right, bottom) = (LEFT + width, top + TOP + height);
    let mut draw = |text: String| {
        svg.push_str(&text);
        svg.push('\n');
    };
    draw(format!("<text x=\"{LEFT}\" y=\"{}\" font-size=\"14\">{title}</text>", top + 24.0));
    for (value, label) in vertical.ticks() {
        let at = y(value);
        draw(format!("<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>"));
        let (x, y) = (LEFT - 8.0, at + 4.0);
        draw(format!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"#555\">{label}</text>"));
    }
    for (value, label) in horizontal.ticks() {
        let at = x(value);
        draw(format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\" stroke=\"#555\"/>",
            bottom + 5.0
        ));
        let y = bottom + 18.0;
        draw(format!("<text x=\"{at:.1}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#555\">{label} s</text>"));
    }
    draw(format!("<path d=\"M{LEFT} {} V{bottom} H{right}\" fill=\"none\" stroke=\"#555\"/>", top + TOP));
    for (position, line) in lines.iter().enumerate() {
        let dashes = if line.dashed { " stroke-dasharray=\"5 3\"" } else { "" };
        let style = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{dashes}", line.colour);
        let points = line.points.iter().fold(String::new(), |mut points, (at, value)| {
            // Writing into a text cannot fail.
            let _ = write!(points, "{:.1},{:.1} ", x(*at), y(*value));
            points
        });
        draw(format!("<polyline {style} points=\"{}\"/>", points.trim_end()));
        let (from, at) = (right + 12.0, top + TOP + 10.0 + 20.0 * number(position));
        draw(format!("<line x1=\"{from}\" x2=\"{}\" y1=\"{at}\" y2=\"{at}\" {style}/>", from + 24.0));
        draw(format!("<text x=\"{}\" y=\"{}\">{}</text>", from + 32.0, at + 4.0, line.name));
    }
    if lines.is_empty() {
        draw(format!(
            "<text x=\"{}\" y=\"{}\" fill=\"#555\">not measured</text>",
            LEFT + 20.0,
            top + TOP + 40.0
        ));
    }
}

/// Arrivals a second in each slice of the time from the first to the last.
fn rates(times: &[u64]) -> Vec<(f64, f64)> {
    let Some((first, last)) = times.first().zip(times.last()) else { return Vec::new() };
    let slice = (last - first).div_ceil(u64::try_from(SLICES).unwrap_or(1)).max(1);
    let mut counts = [0_u32; SLICES];
    for at in times {
        let position = usize::try_from((at - first) / slice).unwrap_or(SLICES);
        counts[position.min(SLICES - 1)] += 1;
    }
    let seconds = number(slice) / 1e6;
    let points = counts.iter().enumerate();
    points
        .map(|(position, count)| ((number(position) + 0.5) * seconds, f64::from(*count) / seconds))
        .collect()
}

/// A percentile of each slice of calls, in milliseconds.
fn percentiles(calls: &[(u64, u64)], part: f64) -> Vec<(f64, f64)> {
    let slices = (calls.len() / LATENCY_SLICE_CALLS).clamp(1, LATENCY_SLICES_MAX);
    let first = calls.first().map_or(0, |(at, _)| *at);
    let slices = calls.chunks(calls.len().div_ceil(slices).max(1));
    slices
        .map(|slice| {
            let took: Durations = slice.iter().map(|(_, took)| *took).collect();
            let middle = slice[slice.len() / 2].0.saturating_sub(first);
            (number(middle) / 1e6, took.percentile(part) / 1e3)
        })
        .collect()
}
