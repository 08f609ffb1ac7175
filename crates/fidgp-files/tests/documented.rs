//! `docs/limits.md` has every limit with its default and its words, in order, and no other.

use std::path::Path;

#[test]
fn every_limit_is_in_the_docs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/limits.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
    let own = fidgp_files::limits::ALL;
    let own: Vec<_> = own.iter().map(|l| format!("| `{}` | {} | {} |", l.variable, l.default, l.of)).collect();
    assert_eq!(rows, own);
}
