//! Layers to SVG.

use super::{
    axes::Axes,
    layer::{Bar, Layer, Marker, Shape},
    svg::{Anchor, Svg, area, polyline},
};

/// Draws one layer; points without a place on the axes are left out.
pub fn layer(svg: &mut Svg, axes: &Axes, layer: &Layer) {
    let class = &layer.class;
    match &layer.shape {
        Shape::Line(points) => {
            let places: Vec<_> = points.iter().map(|&(x, y)| axes.at(x, y)).collect();
            svg.path(&format!("line {class}"), &polyline(&places));
            alone(&places).for_each(|place| marker(svg, class, place, Marker::Disc));
        }
        Shape::Band(points) => band(svg, axes, class, points),
        Shape::Points(points, form) => {
            points.iter().filter_map(|&(x, y)| axes.at(x, y)).for_each(|place| marker(svg, class, place, *form));
        }
        Shape::ErrorBars(points) => points.iter().for_each(|&point| error_bar(svg, axes, class, point)),
        Shape::Bars(bars) => bars.iter().for_each(|bar| draw_bar(svg, axes, class, bar)),
        Shape::Span(from, to) => span(svg, axes, class, (*from, *to)),
        Shape::Labels(labels) => labels.iter().for_each(|(x, y, text)| {
            if let Some((x, y)) = axes.at(*x, *y) {
                svg.text("small", (x, y - 4.0), Anchor::Middle, text);
            }
        }),
    }
}

/// Points of a line without a neighbour: a line through them has no length and would not be seen.
fn alone(places: &[Option<(f64, f64)>]) -> impl Iterator<Item = (f64, f64)> {
    let there = |i: Option<usize>| i.and_then(|i| places.get(i)).is_some_and(Option::is_some);
    let is_alone = move |i: usize| !there(i.checked_sub(1)) && !there(Some(i + 1));
    places.iter().enumerate().filter(move |&(i, _)| is_alone(i)).filter_map(|(_, place)| *place)
}

fn band(svg: &mut Svg, axes: &Axes, class: &str, points: &[(f64, f64, f64)]) {
    let places: Vec<_> = points.iter().map(|&(x, lo, hi)| axes.at(x, hi).zip(axes.at(x, lo))).collect();
    for run in places.split(Option::is_none).filter(|run| !run.is_empty()) {
        let (upper, lower): (Vec<_>, Vec<_>) = run.iter().flatten().copied().unzip();
        svg.path(&format!("band {class}"), &area(&upper, &lower));
    }
}

fn error_bar(svg: &mut Svg, axes: &Axes, class: &str, (x, y, half): (f64, f64, f64)) {
    if let (Some(from), Some(to)) = (axes.at(x, y - half), axes.at(x, y + half)) {
        svg.line(&format!("bar {class}"), from, to);
    }
}

fn draw_bar(svg: &mut Svg, axes: &Axes, class: &str, bar: &Bar) {
    if let (Some(low), Some(high)) = (axes.at(bar.from, bar.bottom), axes.at(bar.to, bar.top)) {
        let corner = (low.0.min(high.0) + 0.75, low.1.min(high.1));
        svg.rect(&format!("box {class}"), corner, ((high.0 - low.0).abs() - 1.5, (high.1 - low.1).abs()));
    }
}

fn span(svg: &mut Svg, axes: &Axes, class: &str, (from, to): (f64, f64)) {
    if let (Some(from), Some(to)) = (axes.x.at(from), axes.x.at(to)) {
        svg.rect(&format!("span {class}"), (from.min(to), axes.top), ((to - from).abs(), axes.bottom - axes.top));
    }
}

/// One point.
pub fn marker(svg: &mut Svg, class: &str, (x, y): (f64, f64), form: Marker) {
    let r = 3.2;
    match form {
        Marker::Disc => svg.circle(&format!("dot {class}"), (x, y), r),
        Marker::Ring => svg.circle(&format!("ring {class}"), (x, y), r),
        Marker::Square => svg.rect(&format!("dot {class}"), (x - r, y - r), (2.0 * r, 2.0 * r)),
        Marker::Cross => {
            let ends = [Some((x - r, y - r)), Some((x + r, y + r)), None, Some((x - r, y + r)), Some((x + r, y - r))];
            svg.path(&format!("ring {class}"), &polyline(&ends));
        }
        Marker::Triangle => {
            let corners = [(x, y - 1.2 * r), (x + 1.1 * r, y + 0.8 * r), (x - 1.1 * r, y + 0.8 * r)];
            svg.path(&format!("dot {class}"), &area(&corners, &[]));
        }
    }
}
