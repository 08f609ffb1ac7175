use super::{
    scale::Scale,
    svg::{Anchor, Svg},
};

/// A pair of scales and the rectangle they span.
#[derive(Debug, Clone, Copy)]
pub struct Axes {
    pub x: Scale,
    pub y: Scale,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Axes {
    /// The place of a point; `None` where it has none.
    pub fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        self.x.at(x).zip(self.y.at(y))
    }

    /// Grid lines, tick labels and the base line, under the data.
    pub fn draw(&self, svg: &mut Svg, x_label: &str) {
        for tick in self.y.ticks((((self.bottom - self.top) / 40.0) as usize).max(4)) {
            let Some(y) = self.y.at(tick.value) else { continue };
            svg.line("grid", (self.left, y), (self.right, y));
            svg.text("tick", (self.left - 7.0, y + 3.8), Anchor::End, &tick.label);
        }
        for tick in self.x.ticks(((self.right - self.left) / 70.0) as usize) {
            let Some(x) = self.x.at(tick.value) else { continue };
            svg.line("axis", (x, self.bottom), (x, self.bottom + 4.0));
            svg.text("tick", (x, self.bottom + 17.0), Anchor::Middle, &tick.label);
        }
        svg.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        svg.text("label", (f64::midpoint(self.left, self.right), self.bottom + 34.0), Anchor::Middle, x_label);
    }
}
