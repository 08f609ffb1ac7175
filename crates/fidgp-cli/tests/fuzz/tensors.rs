//! Tensors of PyTorch files: offsets, sizes and strides.

#[path = "../cli/attack_bytes.rs"]
#[allow(dead_code, reason = "the attacks use the rest")]
mod attack_bytes;

use crate::targets::Target;

/// Files of several tensors, whose numbers stand in eight bytes each: what a change of a byte hits is a size or a stride.
pub fn of_strides() -> Target {
    let whole = |size: &[i64], stride: &[i64]| attack_bytes::strided(2, 0, size, stride);
    let mut corpus = vec![whole(&[1], &[1]), whole(&[1, 1], &[1, 1]), whole(&[4, 3], &[0, 0]), whole(&[0, 5], &[5, 1])];
    corpus.extend(attack_bytes::laughs().into_iter().map(|(_, file)| file));
    corpus.extend(attack_bytes::deep(40).into_iter().map(|(_, file)| file));
    corpus.extend(attack_bytes::broken().into_iter().map(|(_, file)| file));
    Target { corpus, ..crate::targets::of_file("strides", "s.pt", Vec::new(), fidgp_zoo::weights::read) }
}
