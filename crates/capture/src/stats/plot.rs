//! The figures as a picture: response times above, queue depth below, over the time of the capture.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{PieceReport, Report, SeriesReport};
use super::table::time;

const SIZE: (u32, u32) = (1180, 760);
/// Width of the legend, pixels.
const LEGEND: i32 = 270;
const TITLE: i32 = 64;

/// One for each line, told apart by most eyes on white (after Okabe and Ito); then those of what is left.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(110, 60, 20),
    RGBColor(90, 90, 220),
    RGBColor(60, 60, 60),
    RGBColor(150, 150, 150),
];
const INK: RGBColor = RGBColor(34, 34, 34);
const PALE: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(225, 225, 225);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

impl Report {
    /// An SVG picture of response times and queue depth over time. Fails only where the library that draws it does.
    pub fn plot(&self) -> Result<String, String> {
        let mut out = String::new();
        draw(self, &mut out).map_err(|e| e.to_string())?;
        Ok(out)
    }
}

fn draw(report: &Report, out: &mut String) -> Drawn {
    let root = SVGBackend::with_string(out, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, rest) = root.split_vertically(TITLE);
    title(report, &head)?;
    let (panels, side) = rest.split_horizontally(SIZE.0 as i32 - LEGEND);
    let (upper, lower) = panels.split_vertically((SIZE.1 as i32 - TITLE) * 55 / 100);
    let axis = Axis::of(report.duration_ns.max(report.timeline.piece_ns));
    times(report, &upper, &axis)?;
    depth(report, &lower, &axis)?;
    legend(report, &side)?;
    root.present()
}

fn font(size: i32, colour: RGBColor) -> TextStyle<'static> {
    TextStyle { color: colour.to_backend_color(), ..TextStyle::from(("sans-serif", size)) }
}

fn title(report: &Report, area: &Area<'_>) -> Drawn {
    let first = report.controllers.first();
    let name = match (report.controllers.len(), first.and_then(|c| c.subnqn.as_deref())) {
        (1, Some(nqn)) => nqn.chars().filter(|c| !c.is_control()).take(90).collect(),
        (n, _) => format!("{n} controllers"),
    };
    area.draw_text(&format!("Response time and queue depth of {name}"), &font(21, INK), (14, 12))?;
    let answered: u64 = report.totals.iter().filter_map(|c| c.latency.as_ref()).map(|l| l.count).sum();
    let line = format!(
        "{answered} commands answered in {} on {} connections; a point every {}",
        time(report.duration_ns),
        report.connections,
        time(report.timeline.piece_ns)
    );
    area.draw_text(&line, &font(15, PALE), (14, 38))
}

/// Time since the start, in a unit that suits the length of the capture.
struct Axis {
    unit: &'static str,
    /// Nanoseconds of the unit.
    scale: f64,
    end: f64,
}

impl Axis {
    fn of(duration_ns: u64) -> Self {
        let (unit, scale) = match duration_ns {
            0..10_000 => ("ns", 1.0),
            10_000..10_000_000 => ("µs", 1e3),
            10_000_000..10_000_000_000 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        Self { unit, scale, end: duration_ns as f64 / scale }
    }

    fn at(&self, ns: f64) -> f64 {
        (ns / self.scale).min(self.end)
    }

    fn name(&self) -> String {
        format!("time since the start of the capture, {}", self.unit)
    }
}

fn all(report: &Report) -> impl Iterator<Item = (&SeriesReport, RGBColor)> {
    report.timeline.series.iter().zip(COLOURS)
}

fn times(report: &Report, area: &Area<'_>, axis: &Axis) -> Drawn {
    let values = || report.timeline.series.iter().flat_map(|s| &s.pieces).flat_map(|p| [p.p50_ns, p.p99_ns]).flatten();
    // A logarithmic axis has no 0: times within one microsecond are drawn at its bottom.
    let bottom = values().min().unwrap_or(1000).max(100) as f64;
    let top = values().max().unwrap_or(1_000_000).max(1000) as f64;
    let (low, high) = (10f64.powf(bottom.log10().floor()), 10f64.powf((top * 1.05).log10().ceil()));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..axis.end, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(PALE)
        .label_style(font(14, INK))
        .axis_desc_style(font(15, INK))
        .x_desc(axis.name())
        .y_desc("response time (logarithmic)")
        .x_label_formatter(&|x| plain(*x))
        .y_label_formatter(&|ns| time(ns.round() as u64))
        .draw()?;
    let piece = report.timeline.piece_ns as f64;
    for (series, colour) in all(report) {
        let middle = |p: &PieceReport| axis.at(p.at_ns as f64 + piece / 2.0);
        // A line goes on only while there are answers: over idle times it would tell of commands that were not there.
        let runs = series.pieces.chunk_by(|a, b| b.at_ns - a.at_ns <= 4 * report.timeline.piece_ns);
        for run in runs {
            let of = |get: fn(&PieceReport) -> Option<u64>| {
                run.iter().filter_map(|p| Some((middle(p), (get(p)? as f64).max(low)))).collect::<Vec<_>>()
            };
            let (median, high) = (of(|p| p.p50_ns), of(|p| p.p99_ns));
            chart.draw_series(DashedLineSeries::new(high, 5, 4, colour.mix(0.8).stroke_width(1)))?;
            chart.draw_series(median.iter().map(|at| Circle::new(*at, 2, colour.filled())))?;
            chart.draw_series(LineSeries::new(median, colour.stroke_width(2)))?;
        }
    }
    Ok(())
}

fn depth(report: &Report, area: &Area<'_>, axis: &Axis) -> Drawn {
    let most = report.timeline.series.iter().flat_map(|s| &s.pieces).map(|p| p.depth_max).max().unwrap_or(0).max(1);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..axis.end, 0.0..f64::from(most) * 1.1)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(PALE)
        .label_style(font(14, INK))
        .axis_desc_style(font(15, INK))
        .x_desc(axis.name())
        .y_desc("commands outstanding")
        .y_labels(most.min(8) as usize + 1)
        .x_label_formatter(&|x| plain(*x))
        .y_label_formatter(&|y| plain(*y))
        .draw()?;
    for (series, colour) in all(report) {
        // Nothing is drawn at 0, where one line would hide the others.
        for run in series.pieces.chunk_by(|a, b| b.at_ns - a.at_ns <= report.timeline.piece_ns) {
            let steps = |get: fn(&PieceReport) -> f64| steps(run, report.timeline.piece_ns, axis, get);
            chart.draw_series(DashedLineSeries::new(steps(|p| p.depth_mean), 5, 4, colour.mix(0.8).stroke_width(1)))?;
            chart.draw_series(LineSeries::new(steps(|p| f64::from(p.depth_max)), colour.stroke_width(2)))?;
        }
    }
    Ok(())
}

/// A level for each piece, from 0 up and down to it.
fn steps(run: &[PieceReport], piece_ns: u64, axis: &Axis, get: fn(&PieceReport) -> f64) -> Vec<(f64, f64)> {
    let end = |p: &PieceReport| axis.at(p.at_ns.saturating_add(piece_ns) as f64);
    let mut points: Vec<(f64, f64)> = run.first().map(|p| (axis.at(p.at_ns as f64), 0.0)).into_iter().collect();
    points.extend(run.iter().flat_map(|p| [(axis.at(p.at_ns as f64), get(p)), (end(p), get(p))]));
    points.extend(run.last().map(|p| (end(p), 0.0)));
    points
}

fn legend(report: &Report, area: &Area<'_>) -> Drawn {
    let mut y = 14;
    for (series, colour) in all(report) {
        area.draw(&Rectangle::new([(4, y + 2), (18, y + 14)], colour.filled()))?;
        area.draw_text(&series.name, &font(15, INK), (26, y))?;
        let most = series.pieces.iter().map(|p| p.depth_max).max().unwrap_or(0);
        let answered: u64 = series.pieces.iter().map(|p| p.answered).sum();
        area.draw_text(&format!("{answered} answered, depth at most {most}"), &font(13, PALE), (26, y + 19))?;
        y += 44;
    }
    y += 10;
    let samples = [
        ("median response time,", "most outstanding in between", false),
        ("99th percentile,", "mean outstanding in between", true),
    ];
    for (first, second, dashed) in samples {
        for x in (4..44).step_by(if dashed { 9 } else { 40 }) {
            let end = if dashed { (x + 5).min(44) } else { 44 };
            area.draw(&PathElement::new([(x, y + 8), (end, y + 8)], INK.stroke_width(if dashed { 1 } else { 2 })))?;
        }
        area.draw_text(first, &font(14, INK), (52, y))?;
        area.draw_text(second, &font(14, INK), (52, y + 17))?;
        y += 46;
    }
    for (i, c) in percentiles(report).iter().enumerate() {
        let style = font(if i == 0 { 14 } else { 13 }, if i == 0 { INK } else { PALE }).pos(Pos::new(HPos::Left, VPos::Top));
        area.draw_text(c, &style, (4, y + 18 * i as i32))?;
    }
    Ok(())
}

/// The commands that were sent most, with their percentiles.
fn percentiles(report: &Report) -> Vec<String> {
    let mut rows: Vec<_> = report.totals.iter().filter_map(|c| Some((c, c.latency?))).collect();
    rows.sort_by_key(|(c, _)| std::cmp::Reverse(c.count));
    let mut out = vec!["p50 / p99 over the capture".to_owned()];
    out.extend(rows.iter().take(6).map(|(c, l)| format!("{}: {} / {}", c.command, time(l.p50_ns), time(l.p99_ns))));
    out
}

fn plain(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
