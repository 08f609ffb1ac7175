use super::{
    figure::Drawing,
    legend::text_width,
    scale::{Extent, Kind, Scale, drawable},
    svg::{Anchor, Svg},
};

/// One bar: a name, a number, how far it may be off, and how the number reads.
#[derive(Debug, Clone)]
pub struct Item {
    /// Name.
    pub label: String,
    /// Length.
    pub value: f64,
    /// Half a whisker.
    pub spread: Option<f64>,
    /// The number as text.
    pub text: String,
    /// Drawn in grey: somebody else's.
    pub quiet: bool,
}

const ROW: f64 = 26.0;
const WIDTH: f64 = 440.0;
const TOP: f64 = 28.0;

/// Horizontal bars from zero, so that lengths can be compared; a value that is not finite has a name but no bar.
pub fn bars(id: &str, title: &str, items: &[Item]) -> Drawing {
    let mut svg = Svg::default();
    svg.text("title", (10.0, 25.0), Anchor::Start, title);
    let names = items.iter().map(|item| text_width(&shortened(&item.label), 12.0)).fold(40.0, f64::max);
    let texts = items.iter().map(|item| text_width(&item.text, 12.0)).fold(30.0, f64::max);
    let ends = items.iter().flat_map(|item| {
        let spread = item.spread.filter(|spread| drawable(*spread)).unwrap_or(0.0);
        [item.value - spread, item.value + spread]
    });
    let extent = Extent::of(ends.chain([0.0])).unwrap_or(Extent { lo: 0.0, hi: 1.0 });
    let extent = Extent::between(extent.lo.min(0.0), extent.hi.max(0.0));
    let scale = Scale::new(Kind::Linear, extent, (10.0 + names + 10.0, WIDTH - texts - 12.0));
    for (i, item) in items.iter().enumerate() {
        row(&mut svg, &scale, item, TOP + 12.0 + ROW * i as f64, 10.0 + names);
    }
    let bottom = TOP + 12.0 + ROW * items.len() as f64;
    if let Some(zero) = scale.at(0.0) {
        svg.line("axis", (zero, TOP + 8.0), (zero, bottom));
    }
    let mut figure = Drawing::plain(id, title, (WIDTH + 20.0, bottom + 10.0), &svg);
    figure.skipped = items.iter().filter(|item| !drawable(item.value)).count();
    figure
}

fn row(svg: &mut Svg, scale: &Scale, item: &Item, top: f64, name_end: f64) {
    let middle = top + ROW / 2.0;
    svg.text("entry", (name_end, middle + 4.0), Anchor::End, &shortened(&item.label));
    let (Some(zero), Some(end)) = (scale.at(0.0), scale.at(item.value)) else { return };
    let class = if item.quiet { "box quiet" } else { "box s0" };
    svg.rect(class, (zero.min(end), top + 4.0), ((end - zero).abs(), ROW - 8.0));
    let mut right = end.max(zero);
    let whisker = item.spread.and_then(|spread| scale.at(item.value - spread).zip(scale.at(item.value + spread)));
    if let Some((from, to)) = whisker {
        svg.line("whisker", (from, middle), (to, middle));
        for x in [from, to] {
            svg.line("whisker", (x, middle - 4.0), (x, middle + 4.0));
        }
        right = right.max(to);
    }
    svg.text("value", (right + 8.0, middle + 4.0), Anchor::Start, &item.text);
}

/// Names longer than a third of the picture are cut.
fn shortened(label: &str) -> String {
    let letters: Vec<char> = label.chars().collect();
    if letters.len() <= 26 { label.to_owned() } else { letters[..25].iter().collect::<String>() + "…" }
}
