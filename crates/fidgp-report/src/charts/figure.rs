use super::{
    axes::Axes,
    palette,
    svg::{Svg, escape, px},
};

/// A drawn chart, ready to be placed.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub svg: Svg,
    pub size: (f64, f64),
    pub clip: (String, Axes),
    pub skipped: usize,
}

/// A finished picture.
#[derive(Debug, Clone)]
pub struct Drawing {
    /// Name of the file, without its ending; unique in a page.
    pub id: String,
    /// What it shows, in words.
    pub title: String,
    /// What to look at, for the page.
    pub caption: String,
    /// Points that could not be drawn.
    pub skipped: usize,
    size: (f64, f64),
    body: String,
}

/// White space around the panels, pixels.
const MARGIN: f64 = 10.0;

impl Drawing {
    /// Panels one below the other.
    pub(crate) fn of(id: &str, title: &str, panels: &[Panel]) -> Self {
        let (mut body, mut top, mut width) = (Svg::default(), MARGIN, 0.0_f64);
        body.raw(&clip_paths(panels));
        for panel in panels {
            body.group("panel", (MARGIN, top), &panel.svg);
            top += panel.size.1 + MARGIN;
            width = width.max(panel.size.0);
        }
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            caption: String::new(),
            skipped: panels.iter().map(|panel| panel.skipped).sum(),
            size: (width + 2.0 * MARGIN, top),
            body: body.as_str().to_owned(),
        }
    }

    /// A drawing without axes.
    pub(crate) fn plain(id: &str, title: &str, size: (f64, f64), svg: &Svg) -> Self {
        let (id, title, body) = (id.to_owned(), title.to_owned(), svg.as_str().to_owned());
        Self { id, title, caption: String::new(), skipped: 0, size, body }
    }

    /// The same with a caption.
    #[must_use]
    pub fn captioned(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// For a page that carries the style sheet: follows the reader's light or dark setting.
    pub fn inline(&self) -> String {
        self.markup(r#" class="figure""#, "")
    }

    /// For a file of its own: light, on white, with its style inside.
    pub fn standalone(&self) -> String {
        let background = format!(
            "<style>{}</style>\n<defs>{HATCH}</defs>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
            palette::chart_css_light()
        );
        let sized = format!(r#" class="figure" width="{}" height="{}""#, px(self.size.0), px(self.size.1));
        self.markup(&sized, &background)
    }

    fn markup(&self, attributes: &str, before: &str) -> String {
        let (width, height, title) = (px(self.size.0), px(self.size.1), escape(&self.title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\"{attributes} role=\"img\" \
             aria-label=\"{title}\">\n<title>{title}</title>\n{before}{}</svg>\n",
            self.body
        )
    }

    /// Width of the drawing, pixels.
    pub fn width(&self) -> f64 {
        self.size.0
    }
}

/// Tells one area from another without colour. The style sheet names it, so a page carries it once.
pub(crate) const HATCH: &str = r#"<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-ground" width="5" height="5"/><line class="hatch-line" x1="0" y1="0" x2="0" y2="5"/></pattern>"#;

fn clip_paths(panels: &[Panel]) -> String {
    let clips = panels.iter().map(|panel| {
        let (name, axes) = &panel.clip;
        let (x, y) = (px(axes.left), px(axes.top - 3.0)); // three pixels of grace for markers on the edge
        let (width, height) = (px(axes.right - axes.left + 4.0), px(axes.bottom - axes.top + 3.0));
        format!(r#"<clipPath id="{name}"><rect x="{x}" y="{y}" width="{width}" height="{height}"/></clipPath>"#)
    });
    format!("<defs>{}</defs>", clips.collect::<String>())
}
