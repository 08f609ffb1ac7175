//! SVG, element by element. Looks are classes (see `chart.css`), so that a page can change them with the light.

use std::fmt::Write;

/// Text made safe for HTML and SVG, in content and in attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter if letter.is_control() && letter != '\n' && letter != '\t' => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

/// A coordinate: a tenth of a pixel is finer than any screen. Callers hand in finite numbers; anything else is 0.
pub fn px(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.is_finite() { format!("{}", rounded + 0.0) } else { "0".to_owned() }
}

/// Where a text hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A growing piece of SVG.
#[derive(Debug, Clone, Default)]
pub struct Svg(String);

impl Svg {
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (px(from.0), px(from.1), px(to.0), px(to.1));
        self.raw(&format!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#));
    }

    pub fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64)) {
        let (x, y, width, height) = (px(corner.0), px(corner.1), px(size.0.max(0.0)), px(size.1.max(0.0)));
        self.raw(&format!(r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#));
    }

    pub fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64) {
        self.raw(&format!(
            r#"<circle class="{class}" cx="{}" cy="{}" r="{}"/>"#,
            px(centre.0),
            px(centre.1),
            px(radius)
        ));
    }

    pub fn path(&mut self, class: &str, data: &str) {
        self.raw(&format!(r#"<path class="{class}" d="{data}"/>"#));
    }

    /// `content` is escaped.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, content: &str) {
        let hang = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (x, y, content) = (px(at.0), px(at.1), escape(content));
        self.raw(&format!(r#"<text class="{class}" x="{x}" y="{y}"{hang}>{content}</text>"#));
    }

    /// Another piece, moved.
    pub fn group(&mut self, class: &str, by: (f64, f64), inner: &Self) {
        let open = format!(r#"<g class="{class}" transform="translate({} {})">"#, px(by.0), px(by.1));
        self.raw(&format!("{open}\n{}</g>", inner.0));
    }

    /// Another piece, cut off outside a clip path.
    pub fn clipped(&mut self, clip: &str, inner: &Self) {
        self.raw(&format!("<g clip-path=\"url(#{clip})\">\n{}</g>", inner.0));
    }

    /// Finished markup, on a line of its own.
    pub fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
        self.0.push('\n');
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Path data through the points; `None` lifts the pen.
pub fn polyline(points: &[Option<(f64, f64)>]) -> String {
    let mut data = String::new();
    let mut down = false;
    for point in points {
        if let Some((x, y)) = point {
            let _ = write!(data, "{}{} {}", if down { "L" } else { "M" }, px(*x), px(*y));
        }
        down = point.is_some();
    }
    data
}

/// Path data of the area between an upper and a lower edge.
pub fn area(upper: &[(f64, f64)], lower: &[(f64, f64)]) -> String {
    let ring: Vec<_> = upper.iter().chain(lower.iter().rev()).map(|&point| Some(point)).collect();
    if ring.is_empty() { String::new() } else { polyline(&ring) + "Z" }
}
