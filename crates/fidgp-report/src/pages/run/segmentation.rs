//! A segmentation: class by class, boundaries against insides, maps.

use maud::{Markup, html};

use crate::record::{Boundary, MAP_PANELS, Segmentation};

use super::tables::numbers;
use crate::pages::finished::Map;
use crate::words::{base64, format};

/// The tables and the maps.
pub fn body(data: &Segmentation, maps: &[Map]) -> Markup {
    html! {
        h3 { "Class by class" }
        (classes(data))
        h3 { "Boundaries and insides" }
        p.lead {
            "A pixel lies at a boundary when a pixel of another class is at most two rows and columns away. Nats per pixel."
        }
        (boundaries(data))
        @if !maps.is_empty() {
            h3 { "Maps" }
            p.lead {
                "Some of the test pictures. In each: " (MAP_PANELS) ". Total and aleatoric uncertainty share a scale from 0 to \
                 ln(classes), the epistemic part has its own."
            }
            @for map in maps { (picture(map)) }
        }
    }
}

fn picture(map: &Map) -> Markup {
    let data = format!("data:image/png;base64,{}", base64(&map.png));
    html! {
        figure.wide {
            img alt=(map.name) style="width:100%;height:auto" src=(data);
            figcaption { (map.name) }
        }
    }
}

fn percent(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

fn classes(data: &Segmentation) -> Markup {
    let row = |class: &crate::record::ClassScore| {
        (class.name.clone(), vec![format::grouped(class.pixels), percent(class.iou), percent(class.accuracy)])
    };
    numbers(&["class", "pixels", "IoU", "accuracy"], data.classes.iter().map(row))
}

fn boundaries(data: &Segmentation) -> Markup {
    let nats = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.4}"));
    let row = |(name, part): (&str, &Boundary)| {
        let doubts = [part.total, part.aleatoric, part.epistemic].map(nats);
        let cells = [format::grouped(part.pixels), percent(part.error)].into_iter().chain(doubts);
        (name.to_owned(), cells.collect())
    };
    let heads = ["pixels", "count", "wrong", "total", "aleatoric", "epistemic"];
    numbers(&heads, [("at boundaries", &data.boundary), ("inside", &data.interior)].into_iter().map(row))
}
