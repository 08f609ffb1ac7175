//! Size against quality, by every way of choosing sizes.

use fidgp_report::charts::{Axis, Chart, Drawing, Layer, Marker, Shape, series_class, stacked};

use super::{CompressReport, Point, Way};

/// The figures' name, without ending.
pub const FIGURE: &str = "compress";

/// One number of a point.
type Value = fn(&Point) -> f64;

const PANELS: [(&str, Value); 3] = [
    ("accuracy, %", |point| 100.0 * point.accuracy),
    ("NLL", |point| point.nll),
    ("ECE, %", |point| 100.0 * point.ece),
];
const WAYS: [Way; 4] = [Way::Plain, Way::OneSize, Way::OneSizeWeighted, Way::ByLayer];

impl CompressReport {
    /// Accuracy, NLL and ECE against parameters.
    pub fn figure(&self) -> Drawing {
        let charts: Vec<Chart> = PANELS.iter().map(|(name, value)| self.chart(name, *value)).collect();
        stacked(FIGURE, &format!("Size against quality: {}", self.name), &charts)
    }

    fn chart(&self, name: &str, value: Value) -> Chart {
        let chart = Chart::new(format!("{name} against parameters"), Axis::new("parameters"), Axis::new(name));
        WAYS.into_iter().enumerate().fold(chart.sized(620.0, 260.0), |chart, (index, way)| {
            let mut points: Vec<_> = self.points().filter(|point| point.way == way).collect();
            points.sort_by_key(|point| point.parameters);
            let at: Vec<_> = points.iter().map(|point| (point.parameters as f64, value(point))).collect();
            let line = Layer::new(series_class(index), Shape::Line(at.clone()));
            let marks = Layer::new(series_class(index), Shape::Points(at, Marker::of(index)));
            chart.with(line).with(marks.labelled(way.words()))
        })
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        [&self.trained, &self.chosen].into_iter().chain(&self.curve)
    }
}
