//! A segmentation: class by class, boundaries against insides, maps.

use crate::record::{Boundary, Segmentation};

use crate::charts::svg::escape;
use crate::pages::html::{tag, tags};
use crate::pages::write::Map;
use crate::words::format;

/// The tables and the maps.
pub fn body(data: &Segmentation, maps: &[Map]) -> String {
    let mut text = format!("<h3>Class by class</h3>\n{}", classes(data));
    text += "<h3>Boundaries and insides</h3>\n";
    text += &tag(
        "p",
        "lead",
        "A pixel lies at a boundary when a pixel of another class is at most two rows and columns away. Nats per pixel.",
    );
    text += &boundaries(data);
    if !maps.is_empty() {
        text += "<h3>Maps</h3>\n";
        let words = format!(
            "Some of the test pictures. In each: {}. Total and aleatoric uncertainty share a scale from 0 to ln(classes), the \
             epistemic part has its own.",
            crate::record::MAP_PANELS
        );
        text += &tag("p", "lead", &escape(&words));
        text += &maps.iter().map(picture).collect::<String>();
    }
    text
}

fn picture(map: &Map) -> String {
    let name = escape(&map.name);
    let data = base64(&map.png);
    let image = format!("<img alt=\"{name}\" style=\"width:100%;height:auto\" src=\"data:image/png;base64,{data}\">");
    tag("figure", "wide", &format!("{image}{}", tags("figcaption", &name))) + "\n"
}

fn table(heads: &[&str], rows: impl Iterator<Item = (String, Vec<String>)>) -> String {
    let head = heads.iter().enumerate().map(|(i, text)| tag("th", if i == 0 { "" } else { "number" }, text));
    let rows = rows.map(|(name, cells)| {
        let cells = cells.iter().map(|text| tag("td", "number", text)).collect::<String>();
        tags("tr", &format!("<th scope=\"row\">{}</th>{cells}", escape(&name))) + "\n"
    });
    let head = tags("thead", &tags("tr", &head.collect::<String>()));
    let body = tags("tbody", &rows.collect::<String>());
    format!("<div class=\"scroll\">{}</div>\n", tags("table", &format!("{head}\n{body}")))
}

fn percent(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

fn classes(data: &Segmentation) -> String {
    let row = |class: &crate::record::ClassScore| {
        (class.name.clone(), vec![format::grouped(class.pixels), percent(class.iou), percent(class.accuracy)])
    };
    table(&["class", "pixels", "IoU", "accuracy"], data.classes.iter().map(row))
}

fn boundaries(data: &Segmentation) -> String {
    let nats = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.4}"));
    let row = |(name, part): (&str, &Boundary)| {
        let doubts = [part.total, part.aleatoric, part.epistemic].map(nats);
        let cells = [format::grouped(part.pixels), percent(part.error)].into_iter().chain(doubts);
        (name.to_owned(), cells.collect())
    };
    let heads = ["pixels", "count", "wrong", "total", "aleatoric", "epistemic"];
    table(&heads, [("at boundaries", &data.boundary), ("inside", &data.interior)].into_iter().map(row))
}

/// Bytes as text, for a page that stands alone (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let word = part.iter().chain([&0, &0]).take(3).fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place > part.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_the_rfcs_examples() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
