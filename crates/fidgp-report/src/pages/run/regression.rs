use crate::record::{Grid, Points, Regression1d};

use super::bands::{SIGMAS, interpolate, pairs, total_sd};
use super::verdict;
use crate::charts::{Axis, Chart, Drawing, Extent, Layer, Marker, Shape};
use crate::words::format::short;

/// The curve with its bands above, the two deviations below.
pub fn figure(id: &str, data: &Regression1d, gap_ratio: Option<f64>) -> Drawing {
    let title = format!("Mean and ±3σ of the prediction, {}", kl_words(data.kl_weight));
    let x = x_range(data);
    let panels = [curve(&title, data, x).panel(&format!("{id}-curve")), deviations(data, x).panel(&format!("{id}-sd"))];
    Drawing::of(id, &title, &panels).captioned(verdict::caption(data, gap_ratio, is_cut(data)))
}

/// A weight other than 1 is a different posterior, and is called so.
fn kl_words(weight: f64) -> String {
    #[expect(clippy::float_cmp, reason = "1 is exact")]
    if weight == 1.0 {
        "KL weight 1".to_owned()
    } else {
        format!("KL weight {} (a tempered posterior, not the full one)", short(weight))
    }
}

fn x_range(data: &Regression1d) -> Option<(f64, f64)> {
    let extent = Extent::of(data.grid.x.iter().chain(&data.train.x).chain(&data.test.x).copied())?;
    Some((extent.lo, extent.hi))
}

/// Test points drawn; more would hide the rest.
const SHOWN: usize = 100;

/// The test points under the training points, the first of them where there are too many to see anything else.
fn test_points(test: &Points) -> Layer {
    let shown = test.x.len().min(SHOWN);
    let label = if shown < test.x.len() { format!("test ({shown} of {})", test.x.len()) } else { "test".to_owned() };
    Layer::new("test", Shape::Points(pairs(&test.x[..shown], &test.y[..shown.min(test.y.len())]), Marker::Cross))
        .labelled(label)
}

fn curve(title: &str, data: &Regression1d, x: Option<(f64, f64)>) -> Chart {
    let grid = &data.grid;
    let (inner, outer) = (band(grid, &grid.epistemic_sd), band(grid, &total_sd(grid)));
    let mut chart =
        Chart::new(title, Axis { range: x, ..Axis::new("x") }, Axis { range: y_range(data), ..Axis::new("y") });
    chart.layers = data.gaps.iter().map(|&[from, to]| Layer::new("", Shape::Span(from, to))).collect();
    if let Some(first) = chart.layers.first_mut() {
        first.label = Some("no training data".to_owned());
    }
    let layers = [
        Layer::new("epistemic", Shape::Band(inner.clone())).labelled("±3σ epistemic"),
        Layer::new("noise", between(&outer, &inner, |edges| edges.2)).labelled("… with noise: ±3σ total"),
        Layer::new("noise", between(&inner, &outer, |edges| edges.1)),
        Layer::new("truth", Shape::Line(pairs(&grid.x, &grid.truth))).labelled("truth"),
        Layer::new("mean", Shape::Line(pairs(&grid.x, &grid.mean))).labelled("mean"),
        test_points(&data.test),
        Layer::new("train", Shape::ErrorBars(error_bars(data))).labelled("training ± 1 noise σ"),
        Layer::new("train", Shape::Points(pairs(&data.train.x, &data.train.y), Marker::Disc)),
    ];
    chart.layers.extend(layers);
    chart.sized(860.0, 430.0)
}

/// `(x, mean − 3σ, mean + 3σ)`.
fn band(grid: &Grid, sd: &[f64]) -> Vec<(f64, f64, f64)> {
    zip3(&grid.x, &grid.mean, sd).map(|(x, mean, sd)| (x, mean - SIGMAS * sd, mean + SIGMAS * sd)).collect()
}

/// The area between the same edge of two bands: what the wider one adds on that side.
fn between(a: &[(f64, f64, f64)], b: &[(f64, f64, f64)], edge: fn(&(f64, f64, f64)) -> f64) -> Shape {
    Shape::Band(a.iter().zip(b).map(|(a, b)| (a.0, edge(b), edge(a))).collect())
}

fn deviations(data: &Regression1d, x: Option<(f64, f64)>) -> Chart {
    let grid = &data.grid;
    let top = Extent::of(total_sd(grid)).map(|extent| (0.0, 1.08 * extent.hi));
    let axes = (Axis { range: x, ..Axis::new("x") }, Axis { range: top, ..Axis::new("σ, units of y") });
    let mut chart = Chart::new("Where the uncertainty comes from", axes.0, axes.1);
    chart.layers = data.gaps.iter().map(|&[from, to]| Layer::new("", Shape::Span(from, to))).collect();
    let line = |class: &str, sd: &[f64]| Layer::new(class, Shape::Line(pairs(&grid.x, sd)));
    chart.layers.extend([
        line("sum", &total_sd(grid)).labelled("total"),
        line("noise", &grid.noise_sd).labelled("noise"),
        line("epistemic", &grid.epistemic_sd).labelled("epistemic"),
    ]);
    chart.sized(860.0, 210.0)
}

/// Height of the figure beyond the points and the truth, on either side, as a fraction of theirs.
const MOST: f64 = 1.0;

/// All points and the truth, and as much of the band as fits in three times their height.
fn y_range(data: &Regression1d) -> Option<(f64, f64)> {
    let core = Extent::of(data.grid.truth.iter().chain(&data.train.y).chain(&data.test.y).copied())?;
    let edges = band(&data.grid, &total_sd(&data.grid)).into_iter().flat_map(|(_, lo, hi)| [lo, hi]);
    let band = Extent::of(edges).unwrap_or(core);
    let most = core.padded(MOST);
    let shown = Extent::between(band.lo.min(core.lo).max(most.lo), band.hi.max(core.hi).min(most.hi)).padded(0.04);
    Some((shown.lo, shown.hi))
}

fn is_cut(data: &Regression1d) -> bool {
    let edges = band(&data.grid, &total_sd(&data.grid));
    y_range(data).is_some_and(|(lo, hi)| edges.iter().any(|edge| edge.1 < lo || edge.2 > hi))
}

fn error_bars(data: &Regression1d) -> Vec<(f64, f64, f64)> {
    let Points { x, y } = &data.train;
    x.iter()
        .zip(y)
        .map(|(&x, &y)| (x, y, interpolate(&data.grid.x, &data.grid.noise_sd, x).unwrap_or(f64::NAN)))
        .collect()
}

fn zip3(a: &[f64], b: &[f64], c: &[f64]) -> impl Iterator<Item = (f64, f64, f64)> {
    a.iter().zip(b).zip(c).map(|((a, b), c)| (*a, *b, *c))
}
