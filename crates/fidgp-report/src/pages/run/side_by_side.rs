use std::collections::BTreeSet;

use super::columns::Column;
use crate::charts::Drawing;
use crate::charts::bars::{Item, bars};
use crate::words::{
    metric::{Better, order, words},
    slug,
};

/// What to know before comparing lengths.
pub const LEAD: &str = "Bars start at zero; whiskers are one standard error over splits, or one standard deviation over \
                    seeds. Grey bars are numbers published by others.";

/// One picture per metric that has a direction and at least two numbers.
pub fn figures(id: &str, columns: &[Column]) -> Vec<Drawing> {
    let names: BTreeSet<(usize, &str)> =
        columns.iter().flat_map(|column| column.cells.keys()).map(|name| order(name)).collect();
    let comparable = names.into_iter().map(|(_, name)| name).filter(|name| words(name).better != Better::Neither);
    comparable.filter_map(|name| compared(id, name, columns)).collect()
}

fn compared(id: &str, metric: &str, columns: &[Column]) -> Option<Drawing> {
    let item = |column: &Column| {
        let cell = column.cells.get(metric)?;
        let (value, text) = (cell.value.unwrap_or(f64::NAN), cell.text(metric));
        Some(Item { label: column.heading.clone(), value, spread: cell.spread, text, quiet: column.published })
    };
    let items: Vec<Item> = columns.iter().filter_map(item).collect();
    let way = if words(metric).better == Better::Higher { "higher is better" } else { "lower is better" };
    let figure = bars(&format!("{id}-{}", slug(metric)), &format!("{metric}, {way}"), &items);
    (items.len() > 1).then(|| figure.captioned(words(metric).meaning))
}
