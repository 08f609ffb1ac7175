use fidgp_metrics::ReliabilityTable;

use crate::record::Classification;

use crate::charts::{Axis, Bar, Chart, Drawing, Layer, Shape};

/// Reliability diagram, confidence histogram, risk-coverage curve.
pub fn figures(id: &str, data: &Classification) -> Vec<Drawing> {
    let answers = summary(&data.reliability);
    vec![
        reliability(&data.reliability).figure(&format!("{id}-reliability")).captioned(reliability_caption(answers.as_ref())),
        confidence(data, answers.as_ref()).figure(&format!("{id}-confidence")).captioned(
            "How sure the network is, wrong answers on top. Wrong answers belong on the left; those at the right edge are the \
             ones nobody would have checked.",
        ),
        risk(data).figure(&format!("{id}-risk-coverage")).captioned(
            "Answer only the most confident part of the inputs, refuse the rest: the error rate of what is answered. A curve \
             that falls to zero on the left means that refusing works.",
        ),
    ]
}

struct Answers {
    count: usize,
    accuracy: f64,
    confidence: f64,
}

fn summary(table: &ReliabilityTable) -> Option<Answers> {
    let count = table.count();
    let correct: usize = table.bins().iter().map(|bin| bin.correct).sum();
    let confidence: f64 = table.bins().iter().map(|bin| bin.confidence_sum).sum();
    let mean = |sum: f64| sum / count as f64;
    (count > 0).then(|| Answers { count, accuracy: mean(correct as f64), confidence: mean(confidence) })
}

fn reliability(table: &ReliabilityTable) -> Chart {
    let filled: Vec<_> =
        table.bins().iter().filter_map(|bin| Some((bin, bin.accuracy()?, bin.mean_confidence()?))).collect();
    let bars = filled.iter().map(|(bin, accuracy, _)| Bar { from: bin.lo, to: bin.hi, bottom: 0.0, top: *accuracy });
    let gaps = filled.iter().map(|(bin, accuracy, confidence)| Bar {
        from: bin.lo,
        to: bin.hi,
        bottom: accuracy.min(*confidence),
        top: accuracy.max(*confidence),
    });
    let counts = filled.iter().map(|(bin, ..)| (f64::midpoint(bin.lo, bin.hi), 1.0, compact(bin.count)));
    let ece = table.ece();
    let title = format!("Reliability: ECE {:.2} % over {} bins", 100.0 * ece.value, ece.bins);
    Chart::new(title, Axis::new("confidence").range(0.0, 1.0), Axis::new("accuracy").range(0.0, 1.08))
        .with(Layer::new("s0", Shape::Bars(bars.collect())).labelled("accuracy"))
        .with(Layer::new("gap", Shape::Bars(gaps.collect())).labelled("gap to confidence"))
        .with(Layer::new("diagonal", Shape::Line(vec![(0.0, 0.0), (1.0, 1.0)])).labelled("perfect"))
        .with(Layer::new("", Shape::Labels(counts.collect())))
        .sized(440.0, 340.0)
}

/// A count in the width of a bin.
fn compact(count: usize) -> String {
    if count < 1000 { count.to_string() } else { format!("{:.1}k", count as f64 / 1e3) }
}

fn reliability_caption(answers: Option<&Answers>) -> String {
    let Some(Answers { count, accuracy, confidence }) = answers else { return "No predictions.".to_owned() };
    let gap = 100.0 * (confidence - accuracy);
    let word = if gap > 0.0 { "overconfident" } else { "underconfident" };
    format!(
        "Of all inputs given a confidence, how many are right? Bars should end at the diagonal; hatching shows by how much \
         they miss it, the small numbers above say how many inputs each bin holds. Over all {count} inputs the network is {:.1} % sure and \
         {:.1} % right: {word} by {:.1} points.",
        100.0 * confidence,
        100.0 * accuracy,
        gap.abs()
    )
}

fn confidence(data: &Classification, answers: Option<&Answers>) -> Chart {
    let histogram = &data.confidence;
    let bins: Vec<_> = histogram
        .edges
        .windows(2)
        .zip(histogram.correct.iter().zip(&histogram.wrong))
        .map(|(edge, (correct, wrong))| (edge[0], edge[1], *correct as f64, *wrong as f64))
        .collect();
    let correct = bins.iter().map(|&(from, to, correct, _)| Bar { from, to, bottom: 0.0, top: correct });
    let wrong = bins.iter().map(|&(from, to, correct, wrong)| Bar { from, to, bottom: correct, top: correct + wrong });
    let tallest = bins.iter().map(|bin| bin.2 + bin.3).fold(1.0, f64::max);
    let mut chart = Chart::new(
        "Confidence",
        Axis::new("confidence").range(0.0, 1.0),
        Axis::new("inputs").range(0.0, 1.06 * tallest),
    )
    .with(Layer::new("s0", Shape::Bars(correct.collect())).labelled("right"))
    .with(Layer::new("gap", Shape::Bars(wrong.collect())).labelled("wrong"));
    if let Some(answers) = answers {
        let upright = |x: f64| Shape::Line(vec![(x, 0.0), (x, 1.06 * tallest)]);
        chart = chart
            .with(Layer::new("marked", upright(answers.confidence)).labelled("mean confidence"))
            .with(Layer::new("diagonal", upright(answers.accuracy)).labelled("accuracy"));
    }
    chart.sized(440.0, 340.0)
}

fn risk(data: &Classification) -> Chart {
    let points: Vec<_> = data.risk_coverage.iter().map(|point| (point.coverage, point.risk)).collect();
    let all = points.last().map_or(0.0, |point| point.1);
    let worst = points.iter().map(|point| point.1).fold(0.05, f64::max);
    let chart = Chart::new(
        "Risk against coverage",
        Axis::new("coverage: fraction answered, most confident first").range(0.0, 1.0),
        Axis::new("error rate of what is answered").range(0.0, 1.1 * worst),
    );
    chart
        .with(Layer::new("diagonal", Shape::Line(vec![(0.0, all), (1.0, all)])).labelled("no refusal"))
        .with(Layer::new("s0", Shape::Line(points)).labelled("this network"))
        .sized(440.0, 340.0)
}
