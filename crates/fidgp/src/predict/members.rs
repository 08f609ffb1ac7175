//! Outputs of a network of several members, which stand block by block, as one answer.

use tch::{Kind, Tensor};

use crate::{Error, Result};

/// The blocks of rows of the members, one after another. `[K·N, ..]` → `[K, N, ..]`
///
/// # Errors
/// When the rows are not those of so many members.
pub fn by_member(outputs: &Tensor, members: i64) -> Result<Tensor> {
    let size = outputs.size();
    match size.split_first() {
        Some((rows, rest)) if rows % members == 0 => {
            Ok(outputs.f_reshape([&[members, rows / members], rest].concat())?)
        }
        _ => Err(Error::shape("outputs", &size, format!("[{members}·N, ..], one block of rows for each member"))),
    }
}

/// Logits whose softmax is the mean of the members' and whose log-sum-exp is the mean of theirs; those of a single network
/// stay as they are. `[K·N, C]` → `[N, C]`
///
/// # Errors
/// As [`by_member`].
pub fn joined_logits(logits: &Tensor, members: i64) -> Result<Tensor> {
    if members == 1 {
        return Ok(logits.shallow_clone());
    }
    let each = by_member(&logits.to_kind(Kind::Double), members)?;
    let energy = each.logsumexp(-1, true).mean_dim(0, false, Kind::Double); // [N, 1]
    Ok(each.log_softmax(-1, Kind::Double).logsumexp(0, false) - (members as f64).ln() + energy)
}

/// Features averaged over members that share a batch of so many rows; none where members are networks of their own.
/// `[K·N, ..]` → `[N, ..]`
pub fn mean_features(features: &Tensor, members: i64, rows: i64) -> Option<Tensor> {
    if members == 1 {
        return Some(features.shallow_clone());
    }
    let shared = features.size()[0] == members * rows;
    let each = shared.then(|| by_member(features, members).ok()).flatten();
    each.map(|each| each.mean_dim(0, false, features.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use tch::Device;

    #[test]
    fn joined_logits_have_the_mean_probability_and_the_mean_energy() {
        let logits = Key::new(1).normal(&[6, 4], Kind::Double, Device::Cpu) * 3.0; // two members, three rows
        let all = joined_logits(&logits, 2).unwrap();
        let p = logits.softmax(-1, Kind::Double).view([2, 3, 4]).mean_dim(0, false, Kind::Double);
        let energy = logits.logsumexp(-1, false).view([2, 3]).mean_dim(0, false, Kind::Double);
        let gap = |a: Tensor, b: Tensor| (a - b).abs().max().double_value(&[]);
        assert!(gap(all.softmax(-1, Kind::Double), p) < 1e-12);
        assert!(gap(all.logsumexp(-1, false), energy) < 1e-12);
        assert_eq!(joined_logits(&logits, 1).unwrap(), logits);
        assert_eq!(mean_features(&logits, 2, 3).unwrap().size(), [3, 4]);
        assert!(mean_features(&logits, 2, 6).is_none());
        assert!(by_member(&logits, 4).unwrap_err().to_string().contains("one block of rows for each member"));
    }
}
