//! What arrived over time, drawn as SVG.

use super::figures::number;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 320.0;
const MARGIN: f64 = 50.0;
/// Slices of time that a line is drawn through.
const SLICES: usize = 100;
const COLOURS: [&str; 3] = ["#1f6feb", "#d29922", "#8250df"];

/// A line for each run: arrivals a second, from its first arrival to its last.
pub(super) fn throughput(runs: &[(&'static str, Vec<u64>)]) -> String {
    let lines: Vec<(&str, f64, Vec<f64>)> =
        runs.iter().map(|(name, times)| (*name, seconds(times), rates(times))).collect();
    let longest = lines.iter().map(|(_, seconds, _)| *seconds).fold(0.1, f64::max);
    let highest = lines.iter().flat_map(|(_, _, rates)| rates.iter().copied()).fold(1.0, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\">arrivals a second, at most {highest:.0}, over {longest:.1} s</text>\n"
    );
    for (position, (name, seconds, rates)) in lines.iter().enumerate() {
        let colour = COLOURS[position % COLOURS.len()];
        let points: Vec<String> = rates
            .iter()
            .enumerate()
            .map(|(slice, rate)| {
                let x =
                    MARGIN + (WIDTH - 2.0 * MARGIN) * (number(slice) / number(SLICES)) * (seconds / longest);
                let y = HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * rate / highest;
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let line = format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{name}</text>\n",
            points.join(" "),
            WIDTH - 2.5 * MARGIN,
            20.0 + 16.0 * number(position),
        );
        svg.push_str(&line);
    }
    svg.push_str("</svg>\n");
    svg
}

fn seconds(times: &[u64]) -> f64 {
    times.first().zip(times.last()).map_or(0.0, |(first, last)| number(last - first) / 1e6)
}

fn rates(times: &[u64]) -> Vec<f64> {
    let (Some(first), length) = (times.first(), seconds(times)) else { return Vec::new() };
    let slice = length / number(SLICES);
    let mut counts = vec![0.0; SLICES];
    for at in times {
        let part = number(at - first) / 1e6 / length.max(1e-6) * number(SLICES);
        let position = counts.iter().enumerate().position(|(slice, _)| part < number(slice + 1));
        counts[position.unwrap_or(SLICES - 1)] += 1.0 / slice.max(1e-6);
    }
    counts
}
