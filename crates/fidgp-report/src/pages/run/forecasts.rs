use crate::record::Forecasts;

use crate::charts::{Axis, Chart, Drawing, Extent, Layer, Marker, Shape};

/// Predicted beside true numbers, and coverage of intervals.
pub fn figures(id: &str, data: &Forecasts) -> Vec<Drawing> {
    vec![
        beside_truth(data).figure(&format!("{id}-forecasts")).captioned(truth_caption(data)),
        coverage(data).figure(&format!("{id}-coverage")).captioned(
            "Of all test rows, how many lie in the central interval of each level? On the diagonal the deviations are right; below \
             it the network is overconfident, above it underconfident.",
        ),
    ]
}

fn beside_truth(data: &Forecasts) -> Chart {
    let sd = data.epistemic_sd.iter().zip(&data.noise_sd).map(|(epistemic, noise)| epistemic.hypot(*noise));
    let means = data.observed.iter().zip(&data.mean);
    let bars = means.clone().zip(sd).map(|((x, y), sd)| (*x, *y, 2.0 * sd)).collect();
    let points = means.map(|(x, y)| (*x, *y)).collect();
    let diagonal =
        Extent::of(data.observed.iter().copied()).map_or(Vec::new(), |all| vec![(all.lo, all.lo), (all.hi, all.hi)]);
    Chart::new("Predicted against true", Axis::new("true"), Axis::new("predicted"))
        .with(Layer::new("s1", Shape::ErrorBars(bars)).labelled("±2σ of a new observation"))
        .with(Layer::new("diagonal", Shape::Line(diagonal)).labelled("perfect"))
        .with(Layer::new("s0", Shape::Points(points, Marker::Disc)).labelled("mean"))
        .sized(440.0, 340.0)
}

fn truth_caption(data: &Forecasts) -> String {
    let (shown, rows) = (data.observed.len(), data.rows);
    let which =
        if shown < rows { format!("The first {shown} of {rows} test rows") } else { format!("All {rows} test rows") };
    format!(
        "{which}. Bars of 19 in 20 rows should cross the line; where they are long the network says that it does not know."
    )
}

fn coverage(data: &Forecasts) -> Chart {
    let points: Vec<(f64, f64)> = data.coverage.iter().map(|&[level, inside]| (level, inside)).collect();
    Chart::new(
        "Coverage of central intervals",
        Axis::new("level").range(0.0, 1.0),
        Axis::new("rows inside").range(0.0, 1.0),
    )
    .with(Layer::new("diagonal", Shape::Line(vec![(0.0, 0.0), (1.0, 1.0)])).labelled("perfect"))
    .with(Layer::new("s0", Shape::Line(points.clone())).labelled("this network"))
    .with(Layer::new("s0", Shape::Points(points, Marker::Disc)))
    .sized(440.0, 340.0)
}
