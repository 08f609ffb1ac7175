//! The name that was probably meant.

/// The candidate with the smallest edit distance, if it is nearer than half of the word.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let (distance, name) = candidates.into_iter().map(|name| (edits(word, name), name)).min_by_key(|(d, _)| *d)?;
    (2 * distance <= word.chars().count()).then(|| name.to_owned())
}

/// Insertions, deletions and substitutions that turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_of_known_pairs() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("same", "same"), 0);
    }

    #[test]
    fn a_distant_word_is_not_suggested() {
        assert_eq!(nearest("layer2.1.conv3", ["layer2.1.conv1", "fc"]).as_deref(), Some("layer2.1.conv1"));
        assert_eq!(nearest("head", ["layer2.1.conv1", "conv1"]), None);
    }
}
