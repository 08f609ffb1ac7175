//! What every page is made of. `maud` escapes all text that is not markup already.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use crate::charts::{Drawing, HATCH, page_css};

const PAGE_CSS: &str = include_str!("page.css");

/// Text in which commands and keys stand between backticks.
pub fn prose(text: &str) -> Markup {
    html! { @for (place, part) in text.split('`').enumerate() { @if place % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// A section with a heading and a sentence on what to look at.
pub fn section(id: &str, heading: &str, lead: &str, body: &Markup) -> Markup {
    html! {
        section id=(id) {
            h2 { (heading) }
            @if !lead.is_empty() { p.lead { (prose(lead)) } }
            (body)
        }
    }
}

/// Names and values.
pub fn facts(facts: &[(&str, String)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

/// A figure with its caption, and a word on what could not be drawn.
fn figure(figure: &Drawing) -> Markup {
    let skipped = match figure.skipped {
        0 => String::new(),
        1 => " One point is not a finite number and is not drawn.".to_owned(),
        count => format!(" {count} points are not finite numbers and are not drawn."),
    };
    let (text, file) = (format!("{}{skipped} ", figure.caption), format!("{}.svg", figure.id));
    let largest = format!("max-width:{:.0}px", 1.4 * figure.width()); // a small drawing is not blown up
    html! {
        figure class=[(figure.width() > 600.0).then_some("wide")] style=(largest) {
            (PreEscaped(figure.inline()))
            figcaption { (prose(text.trim_start())) a href=(file) { (file) } }
        }
    }
}

/// Figures side by side where there is room.
pub fn figures(all: &[Drawing]) -> Markup {
    html! { div.figures { @for one in all { (figure(one)) } } }
}

/// A cell of a class; none for an empty one.
pub fn cell(class: &str, content: impl Render) -> Markup {
    html! { td class=[named(class)] { (content) } }
}

/// The head of a column.
pub fn head(class: &str, content: impl Render) -> Markup {
    html! { th class=[named(class)] { (content) } }
}

/// The head of a row.
pub fn row_head(content: impl Render) -> Markup {
    html! { th scope="row" { (content) } }
}

fn named(class: &str) -> Option<&str> {
    (!class.is_empty()).then_some(class)
}

/// The class of a column where all but the first hold numbers.
pub fn numeric(column: usize) -> &'static str {
    if column == 0 { "" } else { "number" }
}

/// A table of heads and rows of cells, that scrolls where it is wide.
pub fn table(heads: impl IntoIterator<Item = Markup>, rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    html! { div.scroll { (bare_table(heads, rows)) } }
}

/// The same without a frame.
pub fn bare_table(heads: impl IntoIterator<Item = Markup>, rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    html! {
        table {
            thead { tr { @for head in heads { (head) } } }
            tbody { @for row in rows { tr { @for cell in row { (cell) } } } }
        }
    }
}

/// A table of texts.
pub fn grid(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    grid_of(|_| "", heads, rows)
}

/// The same where all columns but the first hold numbers.
pub fn grid_of_numbers(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    grid_of(numeric, heads, rows)
}

fn grid_of(class: fn(usize) -> &'static str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    let heads = heads.iter().enumerate().map(|(i, text)| head(class(i), text));
    table(heads, rows.map(|cells| cells.iter().enumerate().map(|(i, text)| cell(class(i), text)).collect()))
}

/// Something folded away.
pub fn folded(summary: &str, body: &Markup) -> Markup {
    html! { details { summary { (summary) } (body) } }
}

/// The whole document. Control characters, of a stranger's names, are shown as what they are: not text.
pub fn page(title: &str, body: &Markup) -> String {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(page_css(PAGE_CSS))) }
            }
            body {
                svg.defs aria-hidden="true" { defs { (PreEscaped(HATCH)) } }
                main { (body) }
            }
        }
    };
    let text = |letter: char| if letter.is_control() && !"\n\t".contains(letter) { '\u{fffd}' } else { letter };
    document.0.chars().map(text).collect()
}
