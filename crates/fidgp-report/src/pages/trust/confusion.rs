//! The confusion matrix, as a picture and as its largest entries.

use fidgp_decision::trust::ClassesSeen;
use maud::Markup;

use crate::charts::Drawing;
use crate::charts::svg::{Anchor, Svg};
use crate::pages::html::grid_of_numbers;

/// More classes than this and the matrix is not drawn.
const DRAWN: usize = 200;
/// Up to so many classes have their names beside it.
const NAMED: usize = 24;
const SIDE: f64 = 560.0;
/// Entries of the table.
const LISTED: usize = 12;

/// The most frequent mistakes.
pub fn table(seen: &ClassesSeen) -> Markup {
    let mut wrong: Vec<_> = seen.confusion.iter().filter(|[truth, said, _]| truth != said).collect();
    wrong.sort_by(|a, b| b[2].cmp(&a[2]));
    let row = |&&[truth, said, count]: &&[usize; 3]| {
        let of = seen.by_class[truth].examples.max(1) as f64;
        let share = format!("{:.0} %", 100.0 * count as f64 / of);
        vec![seen.classes[truth].clone(), seen.classes[said].clone(), count.to_string(), share]
    };
    grid_of_numbers(&["it is", "taken for", "examples", "of its class"], wrong.iter().take(LISTED).map(row))
}

/// A square for each pair of classes, the darker the more of the row's class.
pub fn figure(seen: &ClassesSeen) -> Option<Drawing> {
    let n = seen.classes.len();
    if n == 0 || n > DRAWN {
        return None;
    }
    let named = n <= NAMED;
    let (cell, left, top) = ((SIDE / n as f64).min(36.0), if named { 130.0 } else { 24.0 }, 52.0);
    let mut svg = Svg::default();
    svg.text("title", (10.0, 22.0), Anchor::Start, "Confusion matrix");
    svg.text(
        "label",
        (10.0, 42.0),
        Anchor::Start,
        "rows: what it is; columns: what it is taken for, in the same order",
    );
    let side = cell * n as f64;
    svg.rect("span", (left, top), (side, side));
    for &[truth, said, count] in &seen.confusion {
        let share = count as f64 / seen.by_class[truth].examples.max(1) as f64;
        let (x, y) = (left + said as f64 * cell, top + truth as f64 * cell);
        let class = if truth == said { "right" } else { "wrong" };
        let side = (cell - if cell > 8.0 { 1.0 } else { 0.3 }).max(0.5);
        svg.raw(&format!(
            r#"<rect class="heat {class}" style="fill-opacity:{:.2}" x="{x:.1}" y="{y:.1}" width="{side:.1}" height="{side:.1}"/>"#,
            share.sqrt()
        ));
    }
    if named {
        for (class, name) in seen.classes.iter().enumerate() {
            let y = top + (class as f64 + 0.65) * cell;
            let short: String = name.chars().take(18).collect();
            svg.text("tick", (left - 6.0, y), Anchor::End, &short);
        }
    }
    let size = (left + side + 16.0, top + side + 12.0);
    let caption = "Blue on the diagonal: right. Orange: wrong. The shade is the share of the row's class, its square root, so that \
                   rare mistakes are seen.";
    Some(Drawing::plain("trust-confusion", "Confusion matrix", size, &svg).captioned(caption))
}
