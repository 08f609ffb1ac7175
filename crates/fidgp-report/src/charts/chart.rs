use super::{
    axes::Axes,
    axis::Axis,
    figure::{Drawing, Panel},
    layer::{Bar, Layer, Marker, Shape},
    legend, marks,
    scale::{Extent, Kind, Scale, drawable},
    svg::{Anchor, Svg},
};

/// Layers on one pair of axes. The first layer is at the bottom.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What the chart shows, in words.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub layers: Vec<Layer>,
    /// Width and height, pixels.
    pub size: (f64, f64),
    /// Room left and right of the data, as a fraction of its width.
    pub room: f64,
}

impl Chart {
    /// An empty chart of the usual size.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, layers: Vec::new(), size: (440.0, 300.0), room: 0.0 }
    }

    /// One line per series `(label, points)`, told apart by colour and dashes.
    ///
    /// ```
    /// use fidgp_report::charts::{Axis, Chart};
    ///
    /// let points = vec![(1.0, 3.0), (2.0, f64::NAN), (3.0, 1.0)];
    /// let figure = Chart::line_chart("Loss", Axis::new("epoch"), Axis::new("nats"), vec![("run".into(), points)]).figure("loss");
    /// assert!(figure.inline().starts_with("<svg") && figure.skipped == 1);
    /// ```
    pub fn line_chart(title: impl Into<String>, x: Axis, y: Axis, series: Vec<(String, Vec<(f64, f64)>)>) -> Self {
        let layers = series.into_iter().enumerate();
        let layers =
            layers.map(|(i, (label, points))| Layer::new(series_class(i), Shape::Line(points)).labelled(label));
        Self { layers: layers.collect(), ..Self::new(title, x, y) }
    }

    /// One cloud per series `(label, points)`, told apart by colour and form.
    pub fn scatter(title: impl Into<String>, x: Axis, y: Axis, series: Vec<(String, Vec<(f64, f64)>)>) -> Self {
        let cloud = |(i, (label, points)): (usize, (String, Vec<(f64, f64)>))| {
            Layer::new(series_class(i), Shape::Points(points, Marker::of(i))).labelled(label)
        };
        Self { layers: series.into_iter().enumerate().map(cloud).collect(), room: 0.05, ..Self::new(title, x, y) }
    }

    /// Densities of several sets of values over the same `bins`: each set has area 1, so that sets of different
    /// sizes can be compared. Values that are not finite are left out and counted.
    pub fn histogram(title: impl Into<String>, x: Axis, bins: usize, sets: &[(String, Vec<f64>)]) -> Self {
        let all = || sets.iter().flat_map(|(_, values)| values.iter().copied());
        let extent = x.extent(all(), 0.0);
        let skipped = all().filter(|&value| !drawable(value)).count();
        let step = |(i, (label, values)): (usize, &(String, Vec<f64>))| {
            Layer::new(format!("{} step", series_class(i)), steps(&density(values, extent, bins.max(1))))
                .labelled(label)
        };
        let mut layers: Vec<Layer> = sets.iter().enumerate().map(step).collect();
        layers.push(Layer::new("s0", Shape::Points(vec![(f64::NAN, f64::NAN); skipped], Marker::Disc))); // counted only
        Self { layers, ..Self::new(title, x, Axis::new("density")) }
    }

    /// Adds a layer on top.
    #[must_use]
    pub fn with(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// The same at another size.
    #[must_use]
    pub fn sized(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    /// Draws it. `id` must be unique in a page.
    pub fn figure(&self, id: &str) -> Drawing {
        Drawing::of(id, &self.title, &[self.panel(&format!("{id}-clip"))])
    }

    pub(crate) fn panel(&self, clip: &str) -> Panel {
        let (width, height) = self.size;
        let mut svg = Svg::default();
        svg.text("title", (0.0, 15.0), Anchor::Start, &self.title);
        let legend = legend::write(&mut svg, &self.layers, (0.0, 25.0), width);
        let top = 25.0 + legend + if self.y.label.is_empty() { 10.0 } else { 24.0 };
        svg.text("label", (0.0, top - 9.0), Anchor::Start, &self.y.label);
        let axes = self.axes(top, height.max(top + 80.0));
        let mut data = Svg::default();
        let (below, above): (Vec<&Layer>, Vec<&Layer>) =
            self.layers.iter().partition(|layer| matches!(layer.shape, Shape::Span(..)));
        for layer in below {
            marks::layer(&mut svg, &axes, layer);
        }
        axes.draw(&mut svg, &self.x.label);
        for layer in above {
            marks::layer(&mut data, &axes, layer);
        }
        svg.clipped(clip, &data);
        let skipped = self.layers.iter().map(|layer| layer.skipped(|x, y| self.fits(x, y))).sum();
        Panel { svg, size: (width, height.max(top + 80.0)), clip: (clip.to_owned(), axes), skipped }
    }

    fn fits(&self, x: f64, y: f64) -> bool {
        let on = |axis: &Axis, value: f64| drawable(value) && (axis.kind == Kind::Linear || value > 0.0);
        on(&self.x, x) && on(&self.y, y)
    }

    fn axes(&self, top: f64, height: f64) -> Axes {
        let corners: Vec<_> = self.layers.iter().flat_map(Layer::corners).collect();
        let x = self.x.extent(corners.iter().map(|corner| corner.0), self.room);
        let y = self.y.extent(corners.iter().map(|corner| corner.1), 0.06);
        let bottom = height - if self.x.label.is_empty() { 24.0 } else { 42.0 };
        let vertical = Scale::new(self.y.kind, y, (bottom, top));
        let widest = vertical.ticks(5).iter().map(|tick| legend::text_width(&tick.label, 11.0)).fold(18.0, f64::max);
        let (left, right) = (widest + 10.0, self.size.0 - 12.0);
        Axes { x: Scale::new(self.x.kind, x, (left, right)), y: vertical, left, right, top, bottom }
    }
}

/// Several charts in one picture, one below the other.
pub fn stacked(id: &str, title: &str, charts: &[Chart]) -> Drawing {
    let panels = charts.iter().enumerate().map(|(i, chart)| chart.panel(&format!("{id}-clip-{i}")));
    Drawing::of(id, title, &panels.collect::<Vec<_>>())
}

/// Colour and dash of the i-th series.
pub fn series_class(series: usize) -> String {
    format!("s{}", series % 7)
}

fn density(values: &[f64], extent: Extent, bins: usize) -> Vec<Bar> {
    let width = (extent.hi - extent.lo) / bins as f64;
    let mut counts = vec![0_usize; bins];
    let inside = values.iter().filter(|&&value| drawable(value) && value >= extent.lo && value <= extent.hi);
    inside.for_each(|value| counts[(((value - extent.lo) / width) as usize).min(bins - 1)] += 1);
    let total = counts.iter().sum::<usize>().max(1) as f64 * width;
    let bar = |(i, count): (usize, &usize)| {
        let from = extent.lo + i as f64 * width;
        Bar { from, to: from + width, bottom: 0.0, top: *count as f64 / total }
    };
    counts.iter().enumerate().map(bar).collect()
}

/// The outline of a histogram as a band from zero.
fn steps(bars: &[Bar]) -> Shape {
    Shape::Band(bars.iter().flat_map(|bar| [(bar.from, 0.0, bar.top), (bar.to, 0.0, bar.top)]).collect())
}
