use crate::record::EpochRecord;

use crate::charts::{Axis, Chart, Drawing, Layer, Marker, Shape, series_class};
use crate::words::format::short;

type Epochs<'a> = (&'a str, &'a [EpochRecord]);

/// How training went, run by run: objective, validation, both KL terms, the range of λ.
pub fn figures(runs: &[Epochs]) -> Vec<Drawing> {
    let runs: Vec<Epochs> = runs.iter().filter(|(_, epochs)| !epochs.is_empty()).copied().collect();
    if runs.is_empty() {
        return Vec::new();
    }
    let mut figures = vec![
        curve(&runs, ("loss", "Training objective"), "nats per data point", |epoch| epoch.loss)
            .captioned("Negative log-likelihood plus weighted KL, mean over each epoch."),
    ];
    figures.extend(validation(&runs));
    if runs.iter().any(|(_, epochs)| epochs.iter().any(|epoch| epoch.kl_inducing != 0.0 || epoch.kl_conditional != 0.0))
    {
        figures.push(curve(&runs, ("kl-inducing", "KL of the inducing weights"), "nats", |epoch| epoch.kl_inducing).captioned(
            "What the data taught the inducing weights: near zero means that they stayed at the prior and the network \
             learnt nothing through them.",
        ));
        figures.push(
            curve(&runs, ("kl-conditional", "KL of the conditionals"), "nats", |epoch| epoch.kl_conditional)
                .captioned("The price of a conditional scale λ other than the prior's."),
        );
    }
    figures.extend(lambda(&runs));
    figures
}

fn curve(runs: &[Epochs], (id, title): (&str, &str), unit: &str, of: fn(&EpochRecord) -> f64) -> Drawing {
    let series: Vec<_> = runs
        .iter()
        .map(|(name, epochs)| {
            ((*name).to_owned(), epochs.iter().map(|epoch| (epoch.epoch as f64, of(epoch))).collect())
        })
        .collect();
    let axis = if spans_decades(&series) { Axis::new(unit).log() } else { Axis::new(unit) };
    single_unlabelled(Chart::line_chart(title, Axis::new("epoch"), axis, series)).figure(&format!("training-{id}"))
}

/// Positive numbers over more than two decades are easier to read on a logarithmic axis.
fn spans_decades(series: &[(String, Vec<(f64, f64)>)]) -> bool {
    let values = || series.iter().flat_map(|(_, points)| points).map(|point| point.1).filter(|value| value.is_finite());
    let (lo, hi) = values().fold((f64::INFINITY, 0.0_f64), |(lo, hi), value| (lo.min(value), hi.max(value)));
    lo > 0.0 && hi > 100.0 * lo
}

/// One run needs no legend.
fn single_unlabelled(mut chart: Chart) -> Chart {
    if let [only] = chart.layers.as_mut_slice() {
        only.label = None;
    }
    chart
}

/// Validation NLL, with the best epoch marked.
fn validation(runs: &[Epochs]) -> Option<Drawing> {
    let series: Vec<(String, Vec<(f64, f64)>)> = runs
        .iter()
        .map(|(name, epochs)| {
            let points = epochs.iter().filter_map(|epoch| Some((epoch.epoch as f64, validation_nll(epoch)?)));
            ((*name).to_owned(), points.collect())
        })
        .filter(|(_, points): &(String, Vec<_>)| !points.is_empty())
        .collect();
    let best: Vec<(f64, f64)> =
        series.iter().filter_map(|(_, points)| points.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))).collect();
    let said = match best.as_slice() {
        [] => return None,
        [(epoch, value)] => format!(" Lowest: {} at epoch {epoch}.", short(*value)),
        _ => String::new(),
    };
    let chart = single_unlabelled(Chart::line_chart(
        "Validation NLL",
        Axis::new("epoch"),
        Axis::new("nats per data point"),
        series,
    ));
    let chart = chart.with(Layer::new("marked", Shape::Points(best, Marker::Ring)).labelled("lowest"));
    let caption = format!("On data held back from training. A rise after the ring is overfitting.{said}");
    Some(chart.figure("training-validation-nll").captioned(caption))
}

/// `NLL`, or any name that ends in `/NLL`.
fn validation_nll(epoch: &EpochRecord) -> Option<f64> {
    let metrics = epoch.metrics.get("validation")?;
    metrics.iter().find(|(name, _)| name.as_str() == "NLL" || name.ends_with("/NLL")).and_then(|(_, value)| *value)
}

/// The conditional scales of all layers lie between two lines.
fn lambda(runs: &[Epochs]) -> Option<Drawing> {
    let range = |epoch: &EpochRecord| Some((epoch.epoch as f64, epoch.lambda_min?, epoch.lambda_max?));
    let mut chart =
        Chart::new("Conditional scale λ", Axis::new("epoch"), Axis::new("smallest to largest of any layer"));
    for (i, (name, epochs)) in runs.iter().enumerate() {
        let points: Vec<_> = epochs.iter().filter_map(range).collect();
        if points.is_empty() {
            continue;
        }
        let edge = |pick: fn(&(f64, f64, f64)) -> f64| {
            Shape::Line(points.iter().map(|point| (point.0, pick(point))).collect())
        };
        let class = format!("{} thin", series_class(i));
        let label = (runs.len() > 1).then(|| (*name).to_owned());
        chart.layers.extend([
            Layer::new(class.clone(), edge(|point| point.1)),
            Layer { label, class: class.clone(), shape: edge(|point| point.2) },
            Layer::new(class, Shape::Band(points)),
        ]);
    }
    let caption = "λ scales the noise that the inducing weights leave open: small is nearly deterministic given the inducing \
                   weights, 1 is the prior.";
    (!chart.layers.is_empty()).then(|| chart.figure("training-lambda").captioned(caption))
}
