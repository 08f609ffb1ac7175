use crate::record::{Grid, Points, Regression1d};

use super::{
    chart::{Axis, Chart},
    figure::Figure,
    format::short,
    layer::{Layer, Marker, Shape},
    scale::{Extent, drawable},
};

/// Width of the band, in standard deviations.
const SIGMAS: f64 = 3.0;

/// The curve with its bands above, the two deviations below.
pub fn figure(id: &str, data: &Regression1d) -> Figure {
    let title = format!("Mean and ±3σ of the prediction, {}", kl_words(data.kl_weight));
    let x = x_range(data);
    let panels = vec![curve(&title, data, x).panel(&format!("{id}-curve")), deviations(data, x).panel(&format!("{id}-sd"))];
    Figure::of(id, &title, panels).captioned(caption(data))
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

fn curve(title: &str, data: &Regression1d, x: Option<(f64, f64)>) -> Chart {
    let grid = &data.grid;
    let band = |sd: Vec<f64>| Shape::Band(zip3(&grid.x, &grid.mean, &sd).map(|(x, m, s)| (x, m - SIGMAS * s, m + SIGMAS * s)).collect());
    let mut chart = Chart::new(title, Axis { range: x, ..Axis::new("x") }, Axis { range: y_range(data), ..Axis::new("y") });
    chart.layers = data.gaps.iter().map(|&[from, to]| Layer::new("", Shape::Span(from, to))).collect();
    if let Some(first) = chart.layers.first_mut() {
        first.label = Some("no training data".to_owned());
    }
    let layers = [
        Layer::new("total", band(total_sd(grid))).labelled("±3σ total = epistemic + noise"),
        Layer::new("epistemic", band(grid.epistemic_sd.clone())).labelled("±3σ epistemic"),
        Layer::new("truth", Shape::Line(pairs(&grid.x, &grid.truth))).labelled("truth"),
        Layer::new("mean", Shape::Line(pairs(&grid.x, &grid.mean))).labelled("mean"),
        Layer::new("train", Shape::ErrorBars(error_bars(data))).labelled("training points ± 1 noise σ"),
        Layer::new("train", Shape::Points(pairs(&data.train.x, &data.train.y), Marker::Disc)),
        Layer::new("test", Shape::Points(pairs(&data.test.x, &data.test.y), Marker::Cross)).labelled("test points"),
    ];
    chart.layers.extend(layers);
    chart.sized(860.0, 430.0)
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

/// All points and the truth, and as much of the band as fits in three times their height.
fn y_range(data: &Regression1d) -> Option<(f64, f64)> {
    let core = Extent::of(data.grid.truth.iter().chain(&data.train.y).chain(&data.test.y).copied())?;
    let sd = total_sd(&data.grid);
    let edges = zip3(&data.grid.x, &data.grid.mean, &sd).flat_map(|(_, m, s)| [m - SIGMAS * s, m + SIGMAS * s]);
    let band = Extent::of(edges).unwrap_or(core);
    let most = core.padded(1.0);
    let shown = Extent::between(band.lo.min(core.lo).max(most.lo), band.hi.max(core.hi).min(most.hi)).padded(0.04);
    Some((shown.lo, shown.hi))
}

/// `sqrt(epistemic² + noise²)`.
pub(super) fn total_sd(grid: &Grid) -> Vec<f64> {
    grid.epistemic_sd.iter().zip(&grid.noise_sd).map(|(e, n)| e.hypot(*n)).collect()
}

fn error_bars(data: &Regression1d) -> Vec<(f64, f64, f64)> {
    let Points { x, y } = &data.train;
    x.iter().zip(y).map(|(&x, &y)| (x, y, interpolate(&data.grid.x, &data.grid.noise_sd, x).unwrap_or(f64::NAN))).collect()
}

/// Linear between the grid points; `None` outside the grid.
fn interpolate(xs: &[f64], ys: &[f64], x: f64) -> Option<f64> {
    let right = xs.partition_point(|&grid| grid < x);
    let (y1, x1) = (*ys.get(right)?, *xs.get(right)?);
    let Some(left) = right.checked_sub(1) else { return (x1 <= x).then_some(y1) };
    let (x0, y0) = (xs[left], *ys.get(left)?);
    Some(y0 + (y1 - y0) * ((x - x0) / (x1 - x0)))
}

fn caption(data: &Regression1d) -> String {
    let mut text = "Look at the shaded gap: a network that knows what it has not seen widens its blue band there, and \
                    keeps it narrow among the training points. Hatching is the width that noise adds. "
        .to_owned();
    if let Some(ratio) = gap_ratio(data) {
        let verdict = if ratio >= 1.5 {
            "it knows the gap"
        } else if ratio > 1.0 {
            "it hardly tells the gap from the data"
        } else {
            "it is surer in the gap than among the data"
        };
        text += &format!("Here the mean epistemic σ in the gap is {} times that among the training points: {verdict}. ", short(ratio));
    }
    if let Some((inside, all)) = inside_band(data) {
        text += &format!("{inside} of {all} test points lie inside the ±3σ band (a normal law would leave out about 1 in 370).");
    }
    text
}

/// Mean epistemic deviation in the gaps over that among the training points.
fn gap_ratio(data: &Regression1d) -> Option<f64> {
    let in_gap = |x: f64| data.gaps.iter().any(|&[from, to]| x > from && x < to);
    let hull = Extent::of(data.train.x.iter().copied())?;
    let mean = |keep: &dyn Fn(f64) -> bool| {
        let kept = pairs(&data.grid.x, &data.grid.epistemic_sd).into_iter().filter(|&(x, sd)| keep(x) && drawable(sd));
        let (sum, count) = kept.fold((0.0, 0_usize), |(sum, count), (_, sd)| (sum + sd, count + 1));
        (count > 0).then(|| sum / count as f64)
    };
    let ratio = mean(&in_gap)? / mean(&|x| x >= hull.lo && x <= hull.hi && !in_gap(x))?;
    ratio.is_finite().then_some(ratio)
}

fn inside_band(data: &Regression1d) -> Option<(usize, usize)> {
    let (grid, sd) = (&data.grid, total_sd(&data.grid));
    let check = |(x, y): (f64, f64)| {
        let gap = (y - interpolate(&grid.x, &grid.mean, x)?).abs();
        Some(gap <= SIGMAS * interpolate(&grid.x, &sd, x)?)
    };
    let checked: Vec<bool> = pairs(&data.test.x, &data.test.y).into_iter().filter_map(check).collect();
    (!checked.is_empty()).then(|| (checked.iter().filter(|&&inside| inside).count(), checked.len()))
}

fn pairs(x: &[f64], y: &[f64]) -> Vec<(f64, f64)> {
    x.iter().copied().zip(y.iter().copied()).collect()
}

fn zip3(a: &[f64], b: &[f64], c: &[f64]) -> impl Iterator<Item = (f64, f64, f64)> {
    a.iter().zip(b).zip(c).map(|((a, b), c)| (*a, *b, *c))
}
