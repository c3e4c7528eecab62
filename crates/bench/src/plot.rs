//! Draws the run over time as SVG: one panel of arrivals per second, one of latencies.

use std::io;
use std::ops::Range;

use indicatif::HumanFloatCount;
use plotters::chart::{ChartBuilder, LabelAreaPosition, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::{
    DashedLineSeries, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea, IntoLogRange, LineSeries, RGBColor,
    SVGBackend, Text,
};
use plotters::style::{BLACK, Color, ShapeStyle, WHITE};

use crate::durations::Durations;
use crate::figures::number;

const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 320;
const MARGIN: u32 = 12;
const LEFT: u32 = 70;
const BOTTOM: u32 = 30;
/// Numbers beside an axis at most.
const TICKS_MAX: usize = 10;
const FONT: (&str, u32) = ("sans-serif", 12);
const TITLE_FONT: (&str, u32) = ("sans-serif", 14);
/// The length of a line's sample in the legend, and of a dash and a gap in a dashed line, in pixels.
const SAMPLE_LENGTH: i32 = 24;
const DASH: u32 = 5;
const GAP: u32 = 3;
/// Intervals of time through which a line of arrivals is drawn.
const SLICES: usize = 100;
/// Groups of calls in a line of latencies at most, and calls in a group at least.
const LATENCY_SLICES_MAX: usize = 50;
const LATENCY_SLICE_CALLS: usize = 25;
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x1f, 0x6f, 0xeb),
    RGBColor(0xd2, 0x99, 0x22),
    RGBColor(0x82, 0x50, 0xdf),
    RGBColor(0x1a, 0x7f, 0x37),
];

/// When notifications arrived, in microseconds, in ascending order.
pub(crate) struct Arrived {
    pub(crate) name: &'static str,
    pub(crate) times: Vec<u64>,
}

/// When calls were made and how long their notifications took, in microseconds.
pub(crate) struct Latencies {
    pub(crate) name: String,
    pub(crate) calls: Vec<(u64, u64)>,
}

/// A line of a panel, with its points.
struct Line {
    name: String,
    colour: RGBColor,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

/// Draws everything that was measured over time.
pub(crate) fn draw(arrived: &[Arrived], latencies: &[Latencies]) -> io::Result<String> {
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
    let mut svg = String::new();
    draw_panels(&mut svg, &throughput.collect::<Vec<_>>(), &slow).map_err(io::Error::other)?;
    Ok(svg)
}

type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

fn draw_panels(svg: &mut String, throughput: &[Line], slow: &[Line]) -> Drawn {
    let area = SVGBackend::with_string(svg, (WIDTH, 2 * PANEL_HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(PANEL_HEIGHT);
    panel(&upper, "arrivals a second", throughput, from_nothing(values(throughput)))?;
    let title = "from the call to the arrival, in milliseconds";
    panel(&lower, title, slow, whole_decades(values(slow)).log_scale())?;
    area.present()
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value))
}

/// From 0 to the highest value.
fn from_nothing(values: impl Iterator<Item = f64>) -> Range<f64> {
    let highest = values.fold(0.0, f64::max);
    0.0..if highest > 0.0 { highest } else { 1.0 }
}

/// From the power of ten below the lowest value to the one above the highest.
fn whole_decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let seen = values.filter(|value| *value > 0.0);
    let (low, high) = seen.fold((f64::MAX, 0.0), |(low, high), value| (value.min(low), value.max(high)));
    if high <= 0.0 {
        return 1.0..10.0;
    }
    let first = low.log10().floor();
    // At least one decade, if all values are the same power of ten.
    10_f64.powf(first)..10_f64.powf(high.log10().ceil().max(first + 1.0))
}

/// One panel, with the given axis for the values.
fn panel<Y>(area: &DrawingArea<SVGBackend<'_>, Shift>, title: &str, lines: &[Line], vertical: Y) -> Drawn
where
    Y: AsRangedCoord<Value = f64, CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>>,
{
    let seconds = from_nothing(lines.iter().flat_map(|line| line.points.iter().map(|(at, _)| *at)));
    let mut chart = ChartBuilder::on(area)
        .caption(title, TITLE_FONT)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
        .build_cartesian_2d(seconds, vertical)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .label_style(FONT)
        .x_labels(TICKS_MAX)
        .y_labels(TICKS_MAX)
        .x_label_formatter(&|at| format!("{} s", HumanFloatCount(*at)))
        .y_label_formatter(&|value| HumanFloatCount(*value).to_string())
        .draw()?;
    if lines.is_empty() {
        let middle = (i32::try_from(WIDTH / 2).unwrap_or(0), i32::try_from(PANEL_HEIGHT / 2).unwrap_or(0));
        return area.draw(&Text::new("not measured", middle, FONT));
    }
    for line in lines {
        let (points, style) = (line.points.iter().copied(), ShapeStyle::from(line.colour).stroke_width(2));
        let drawn = if line.dashed {
            chart.draw_series(DashedLineSeries::new(points, DASH, GAP, style))?
        } else {
            chart.draw_series(LineSeries::new(points, style))?
        };
        let gap = if line.dashed { GAP } else { 0 };
        drawn.label(&line.name).legend(move |start| {
            let end = (start.0 + SAMPLE_LENGTH, start.1);
            DashedPathElement::new([start, end], DASH, gap, style)
        });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .label_font(FONT)
        .draw()
}

/// Arrivals per second in each interval from the first to the last.
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

/// A percentile of each group of calls, in milliseconds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_drawn_and_named() {
        let arrived = [Arrived { name: "batched", times: (0..1_000).map(|at| at * 500).collect() }];
        let calls = (0..500).map(|at| (at * 2_000, 1_300 + at)).collect();
        let latencies = [Latencies { name: "50/s".to_owned(), calls }];
        let svg = draw(&arrived, &latencies).unwrap();
        for text in ["arrivals a second", "batched", "50/s p99", "50/s p50", "0.1 s", "2,000"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(!svg.contains("not measured"), "{svg}");
    }

    #[test]
    fn nothing_to_draw_is_no_fault() {
        let svg = draw(&[], &[]).unwrap();
        assert_eq!(svg.matches("not measured").count(), 2, "{svg}");
    }

    #[test]
    fn latencies_stand_between_powers_of_ten() {
        let decades = |values: &[f64]| format!("{:?}", whole_decades(values.iter().copied()));
        assert_eq!(decades(&[1.3, 14.0]), "1.0..100.0");
        assert_eq!(decades(&[0.4, 0.9]), "0.1..1.0");
        assert_eq!(decades(&[10.0]), "10.0..100.0");
        assert_eq!(decades(&[]), "1.0..10.0");
    }
}
