use super::{
    layer::{Layer, Marker, Shape},
    marks::marker,
    svg::{Anchor, Svg},
};

const ROW: f64 = 18.0;
const SWATCH: f64 = 24.0;

/// Estimated width of a text: no font is at hand, and none is needed for this.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars()
        .map(|letter| if letter.is_ascii() && "iljft.,:;|!' ".contains(letter) { 0.36 } else { 0.62 })
        .sum::<f64>()
        * size
}

/// The entries of the layers, set in rows; returns the height used.
pub fn write(svg: &mut Svg, layers: &[Layer], (left, top): (f64, f64), right: f64) -> f64 {
    let (mut x, mut y, mut used) = (left, top, 0.0);
    for layer in layers {
        let Some(label) = &layer.label else { continue };
        let width = SWATCH + 6.0 + text_width(label, 12.0) + 16.0;
        if x > left && x + width - 16.0 > right {
            (x, y) = (left, y + ROW);
        }
        swatch(svg, layer, (x, y + ROW / 2.0));
        svg.text("entry", (x + SWATCH + 6.0, y + ROW / 2.0 + 4.0), Anchor::Start, label);
        x += width;
        used = y + ROW - top;
    }
    used
}

fn swatch(svg: &mut Svg, layer: &Layer, (x, y): (f64, f64)) {
    let class = &layer.class;
    let centre = (x + SWATCH / 2.0, y);
    let box_of = |svg: &mut Svg, kind: &str| svg.rect(&format!("{kind} {class}"), (x, y - 5.5), (SWATCH, 11.0));
    match &layer.shape {
        Shape::Line(_) => svg.line(&format!("line {class}"), (x, y), (x + SWATCH, y)),
        Shape::Band(_) => box_of(svg, "band"),
        Shape::Bars(_) => box_of(svg, "box"),
        Shape::Span(..) => box_of(svg, "span"),
        Shape::Points(_, form) => marker(svg, class, centre, *form),
        Shape::ErrorBars(_) => {
            svg.line(&format!("bar {class}"), (centre.0, y - 7.0), (centre.0, y + 7.0));
            marker(svg, class, centre, Marker::Disc);
        }
        Shape::Labels(_) => {}
    }
}
