use super::scale::drawable;

/// The form of a point: told apart without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// Filled circle.
    Disc,
    /// Open circle.
    Ring,
    /// Diagonal cross.
    Cross,
    /// Filled square.
    Square,
    /// Filled triangle.
    Triangle,
}

impl Marker {
    /// A different one for each of the first five series.
    pub fn of(series: usize) -> Self {
        [Self::Disc, Self::Triangle, Self::Square, Self::Ring, Self::Cross][series % 5]
    }
}

/// A box of a histogram or a bar chart, in data units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Left edge.
    pub from: f64,
    /// Right edge.
    pub to: f64,
    /// Lower edge.
    pub bottom: f64,
    /// Upper edge.
    pub top: f64,
}

/// What a layer draws, in data units.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A line through `(x, y)`; broken where a value is not finite.
    Line(Vec<(f64, f64)>),
    /// The area from `lo` to `hi` over `(x, lo, hi)`.
    Band(Vec<(f64, f64, f64)>),
    /// Points at `(x, y)`.
    Points(Vec<(f64, f64)>, Marker),
    /// Vertical bars `y ± half` at `(x, y, half)`.
    ErrorBars(Vec<(f64, f64, f64)>),
    /// Boxes.
    Bars(Vec<Bar>),
    /// A range of x, over the whole height.
    Span(f64, f64),
    /// Small texts centred above `(x, y)`.
    Labels(Vec<(f64, f64, String)>),
}

/// One thing drawn on a pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Its entry in the legend.
    pub label: Option<String>,
    /// Its look: class names of the style sheet, for example `s0` … `s6`.
    pub class: String,
    /// Its form.
    pub shape: Shape,
}

impl Layer {
    /// A layer without an entry in the legend.
    pub fn new(class: impl Into<String>, shape: Shape) -> Self {
        Self { label: None, class: class.into(), shape }
    }

    /// The same with an entry.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Everything that should be inside the axes, as `(x, y)`; values that do not matter for one axis are NaN.
    pub(crate) fn corners(&self) -> Vec<(f64, f64)> {
        match &self.shape {
            Shape::Line(points) | Shape::Points(points, _) => points.clone(),
            Shape::Band(points) => points.iter().flat_map(|&(x, lo, hi)| [(x, lo), (x, hi)]).collect(),
            Shape::ErrorBars(points) => {
                points.iter().flat_map(|&(x, y, half)| [(x, y - half), (x, y + half)]).collect()
            }
            Shape::Bars(bars) => bars.iter().flat_map(|bar| [(bar.from, bar.bottom), (bar.to, bar.top)]).collect(),
            Shape::Span(..) => Vec::new(),
            Shape::Labels(labels) => labels.iter().map(|&(x, y, _)| (x, y)).collect(),
        }
    }

    /// How many of its points cannot be drawn: not finite, or not positive on a logarithmic axis.
    pub(crate) fn skipped(&self, fits: impl Fn(f64, f64) -> bool) -> usize {
        let bad = |x: f64, ys: &[f64]| usize::from(!ys.iter().all(|&y| fits(x, y)));
        match &self.shape {
            Shape::Line(points) | Shape::Points(points, _) => points.iter().map(|&(x, y)| bad(x, &[y])).sum(),
            Shape::Band(points) => points.iter().map(|&(x, lo, hi)| bad(x, &[lo, hi])).sum(),
            Shape::ErrorBars(points) => points.iter().map(|&(x, y, half)| bad(x, &[y - half, y + half])).sum(),
            Shape::Bars(bars) => bars.iter().map(|bar| bad(bar.from, &[bar.bottom, bar.top])).sum(),
            Shape::Span(from, to) => usize::from(!drawable(*from) || !drawable(*to)),
            Shape::Labels(labels) => labels.iter().map(|&(x, y, _)| bad(x, &[y])).sum(),
        }
    }
}
