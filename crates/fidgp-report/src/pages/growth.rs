//! The growth of times as tables and charts.

use std::path::{Path, PathBuf};

use maud::{Markup, html};

use super::html::{figures, grid, page, section};
use crate::charts::{Axis, Chart, Drawing, Layer, Marker, Shape, series_class, stacked};
use crate::record::growth::{Grown, Growth, Line, Point};
use crate::record::{Result, write_atomically, write_json};

/// Column heads of [`rows`], after the axis.
pub const HEADS: [&str; 6] = ["train, ms", "x first", "counted", "predict, ms", "x first", "counted"];

/// The table of an axis: for training step and prediction the least time, that relative to the first point, and the
/// relative count of multiply-accumulates.
pub fn rows(line: &Line) -> Vec<Vec<String>> {
    let first = line.points.first();
    let ratio = |now: Option<f64>, then: Option<f64>| {
        now.zip(then)
            .filter(|(_, then)| *then > 0.0)
            .map_or_else(|| "–".to_owned(), |(now, then)| format!("{:.2}", now / then))
    };
    let cells = |point: &Point| {
        let parts = PARTS.iter().flat_map(|(_, part)| {
            let ((ms, macs), (first_ms, first_macs)) = (part(point), first.map_or((None, None), part));
            let time = ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.1}"));
            [time, ratio(ms, first_ms), ratio(macs, first_macs)]
        });
        std::iter::once(point.value.to_string()).chain(parts).collect()
    };
    line.points.iter().map(cells).collect()
}

/// Least milliseconds and multiply-accumulates.
type Part = fn(&Point) -> (Option<f64>, Option<f64>);

const PARTS: [(&str, Part); 2] = [
    ("training step", |point| {
        (point.train.as_ref().map(|time| time.least_ms), point.train_macs.map(|macs| macs as f64))
    }),
    ("prediction", |point| (Some(point.predict.least_ms), Some(point.predict_macs as f64))),
];

/// Writes `growth.json`, `report.html`, a figure for each axis and one of all, `growth.svg`, into a folder.
///
/// # Errors
/// When the disk fails.
pub fn write(growth: &Growth, out: &Path) -> Result<PathBuf> {
    write_json(&out.join("growth.json"), growth)?;
    let charts: Vec<_> = growth.axes.iter().map(|line| chart(growth, line)).collect();
    let drawn = growth.axes.iter().zip(&charts).map(|(line, chart)| {
        let drawing = chart.figure(&format!("growth-{}", line.axis.name()));
        drawing.captioned("Points: measured. Lines: our count of multiply-accumulates, at the pace of the last point.")
    });
    let drawn: Vec<Drawing> = drawn.collect();
    let all = stacked("growth", &title(growth), &charts);
    for figure in drawn.iter().chain([&all]) {
        write_atomically(&out.join(format!("{}.svg", figure.id)), figure.standalone().as_bytes())?;
    }
    let html = out.join("report.html");
    write_atomically(&html, page(&title(growth), &body(growth, &drawn)).as_bytes())?;
    Ok(html)
}

fn title(growth: &Growth) -> String {
    format!("How time grows: {}", growth.name)
}

fn body(growth: &Growth, drawn: &[Drawing]) -> Markup {
    let Growth { hardware, batch, draws, rounds, .. } = growth;
    let place = hardware.gpu.as_ref().unwrap_or(&hardware.cpu);
    let load = growth.load_before.map_or(String::new(), |load| format!(", load before it {load:.1}"));
    let intro = format!(
        "{} on {place} ({} threads{load}); batch {batch} and K = {draws} where they do not vary; the least of {rounds} samples, which others' work disturbs least. Commit {}. {}",
        growth.method,
        hardware.threads,
        growth.commit,
        growth.command.as_deref().unwrap_or_default()
    );
    let sections = growth.axes.iter().zip(drawn).map(|(line, drawing)| {
        let head: Vec<_> = std::iter::once(line.axis.name()).chain(HEADS).collect();
        let body = html! { (grid(&head, rows(line).into_iter())) (figures(std::slice::from_ref(drawing))) };
        section(line.axis.name(), &format!("Growing {}", line.axis.about()), lead(line.axis), &body)
    });
    html! {
        header { h1 { (title(growth)) } p { (intro) } }
        @for section in sections { (section) }
    }
}

fn lead(axis: Grown) -> &'static str {
    match axis {
        Grown::M => {
            "Counted: multiply-accumulates relative to the first point, factors and draw included. A size that exceeds a \
             layer's width is cut to it, and rules of the config keep their own."
        }
        Grown::K => "A training step has one draw. What stands before the first Bayesian layer is computed once.",
        Grown::Batch => "Factors and draws do not depend on the batch: the smaller it is, the more they weigh.",
        Grown::Layers => {
            "0: plain weights, a single pass. Up to 4: the last of the paper's four. With a Bayesian first layer nothing is \
             shared between draws."
        }
    }
}

fn chart(growth: &Growth, line: &Line) -> Chart {
    let (batch, draws) = (format!("batch {}", growth.batch), format!("K = {}", growth.draws));
    let fixed = match line.axis {
        Grown::K => batch,
        Grown::Batch => draws,
        Grown::M | Grown::Layers => format!("{batch}, {draws}"),
    };
    let x = Axis::new(line.axis.about());
    let x = if line.axis == Grown::Layers { x } else { x.log() };
    let mut chart = Chart::new(format!("ms against {} ({fixed})", line.axis.about()), x, Axis::new("ms").log());
    chart = chart.sized(620.0, 300.0);
    chart.room = 0.05;
    let of = |value: &dyn Fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        line.points.iter().filter_map(|point| Some((point.value as f64, value(point)?))).collect()
    };
    for (index, (name, part)) in PARTS.into_iter().enumerate() {
        let last = line.points.last().map_or((None, None), part);
        let pace = last.0.zip(last.1).map(|(ms, macs)| ms / macs.max(1.0));
        let counted = of(&|point| Some(part(point).1? * pace?));
        let measured = of(&|point| part(point).0);
        if measured.is_empty() {
            continue;
        }
        let class = series_class(index);
        chart = chart
            .with(Layer::new(class.clone(), Shape::Line(counted)))
            .with(Layer::new(class, Shape::Points(measured, Marker::of(index))).labelled(name));
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::growth::Measured;

    fn point(value: i64, ms: f64, macs: i64) -> Point {
        let time = |what: &str| Measured { what: what.into(), median_ms: ms, least_ms: ms, largest_ms: ms };
        let (train, predict) = (Some(time("train step")), time("predict"));
        Point { value, train, train_macs: Some(3 * macs), predict, predict_macs: macs }
    }

    #[test]
    fn times_and_counts_are_relative_to_the_first_point() {
        let mut line = Line { axis: Grown::Batch, points: vec![point(1, 10.0, 100), point(8, 25.0, 800)] };
        assert_eq!(rows(&line)[1], ["8", "25.0", "2.50", "8.00", "25.0", "2.50", "8.00"]);
        for point in &mut line.points {
            (point.train, point.train_macs) = (None, None);
        }
        assert_eq!(rows(&line)[1], ["8", "–", "–", "–", "25.0", "2.50", "8.00"]);
    }
}
