use std::collections::BTreeMap;

use crate::pages::finished::Run;
use crate::words::slug;

/// The runs on each data set, by position.
pub fn by_data(runs: &[Run]) -> BTreeMap<&str, Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        groups.entry(&run.results.data).or_default().push(i);
    }
    groups
}

/// Names that tell the runs apart: the name, with the seed where that helps, with a number where nothing else does.
pub fn headings(runs: &[Run]) -> Vec<String> {
    let clashes = |names: &[String], name: &String| names.iter().filter(|other| slug(other) == slug(name)).count() > 1;
    let names: Vec<String> = runs.iter().map(|run| run.results.name.clone()).collect();
    let seeded = names.iter().zip(runs).map(|(name, run)| {
        if clashes(&names, name) { format!("{name}, seed {}", run.results.seed) } else { name.clone() }
    });
    let seeded: Vec<String> = seeded.collect();
    let numbered = seeded
        .iter()
        .enumerate()
        .map(|(i, name)| if clashes(&seeded, name) { format!("{name}, run {}", i + 1) } else { name.clone() });
    numbered.collect()
}
