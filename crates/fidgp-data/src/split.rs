//! Who trains, who chooses and who reports: seeded splits and the order of an epoch.

use std::collections::BTreeMap;

use crate::{
    Error, Result,
    random::{generator, shuffle},
};

/// Row numbers for fitting and for choosing, each ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holdout {
    /// For fitting.
    pub train: Vec<usize>,
    /// For choosing.
    pub validation: Vec<usize>,
}

/// A published train/test split, as its authors give it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// For fitting, before a validation part is carved out.
    pub train: Vec<usize>,
    /// For reporting.
    pub test: Vec<usize>,
}

/// A split with a validation part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// For fitting.
    pub train: Vec<usize>,
    /// For choosing.
    pub validation: Vec<usize>,
    /// For reporting.
    pub test: Vec<usize>,
}

impl Split {
    /// Carves `fraction` of the training rows out for validation; the test rows stay as they are.
    pub fn with_validation(&self, fraction: f64, seed: u64) -> Result<Parts> {
        let cut = holdout(self.train.len(), fraction, seed)?;
        let rows = |places: Vec<usize>| places.into_iter().map(|place| self.train[place]).collect();
        Ok(Parts { train: rows(cut.train), validation: rows(cut.validation), test: self.test.clone() })
    }
}

/// Splits `0..n` at random: `fraction` of it, rounded, is for validation.
///
/// A fraction above 0 gives validation at least one row and leaves training at least one.
///
/// ```
/// let cut = fidgp_data::split::holdout(50, 0.1, 42)?;
/// assert_eq!((cut.train.len(), cut.validation.len()), (45, 5));
/// # Ok::<(), fidgp_data::Error>(())
/// ```
pub fn holdout(n: usize, fraction: f64, seed: u64) -> Result<Holdout> {
    let size = validation_size(n, fraction)?;
    let mut rows = permutation(n, seed, *b"holdout1", 0);
    let train = rows.split_off(size);
    Ok(sorted(train, rows))
}

/// Like [`holdout`], but every class gives its share: within one row of `fraction · count`.
///
/// The total is `fraction · n`, rounded, which may be nothing where there are few rows.
pub fn stratified(labels: &[u32], fraction: f64, seed: u64) -> Result<Holdout> {
    validation_size(labels.len(), fraction)?;
    let mut rows = permutation(labels.len(), seed, *b"stratify", 0);
    rows.sort_by_key(|&row| labels[row]); // stable: inside a class the order stays random
    let due = |seen: usize| (seen as f64 * fraction).round() as usize;
    let (mut train, mut validation) = (Vec::new(), Vec::new());
    for (place, row) in rows.into_iter().enumerate() {
        let part = if due(place + 1) > due(place) { &mut validation } else { &mut train };
        part.push(row);
    }
    Ok(sorted(train, validation))
}

/// Like [`holdout`], but groups go as a whole: at random, until `fraction` of the rows or more are for validation. Both sides
/// get a group.
///
/// ```
/// let cut = fidgp_data::split::grouped(&[0, 0, 1, 1, 2, 2], 0.3, 1)?;
/// assert_eq!((cut.train.len(), cut.validation.len()), (4, 2));
/// # Ok::<(), fidgp_data::Error>(())
/// ```
pub fn grouped(groups: &[usize], fraction: f64, seed: u64) -> Result<Holdout> {
    let size = validation_size(groups.len(), fraction)?;
    let mut of_group: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    groups.iter().enumerate().for_each(|(row, group)| of_group.entry(*group).or_default().push(row));
    let of_group: Vec<Vec<usize>> = of_group.into_values().collect();
    if of_group.len() < 2 {
        let problem = format!("{} group cannot be split in two", of_group.len());
        return Err(Error::value("split", problem, "name a column with at least two groups"));
    }
    let order = permutation(of_group.len(), seed, *b"grouped1", 0);
    let (mut train, mut validation) = (Vec::new(), Vec::new());
    for (place, group) in order.iter().enumerate() {
        let is_last = place + 1 == order.len();
        let part = if validation.len() < size && !(is_last && train.is_empty()) { &mut validation } else { &mut train };
        part.extend(&of_group[*group]);
    }
    Ok(sorted(train, validation))
}

/// The last rows by time are for validation: `fraction` of them, rounded, and those that are as late as the first of these.
///
/// ```
/// let cut = fidgp_data::split::latest(&[3.0, 1.0, 2.0, 2.0], 0.25)?;
/// assert_eq!((cut.train, cut.validation), (vec![1, 2, 3], vec![0]));
/// # Ok::<(), fidgp_data::Error>(())
/// ```
pub fn latest(times: &[f64], fraction: f64) -> Result<Holdout> {
    let size = validation_size(times.len(), fraction)?;
    let mut sorted_times = times.to_vec();
    sorted_times.sort_by(f64::total_cmp);
    let first = if size == 0 { f64::INFINITY } else { sorted_times[times.len() - size] };
    if sorted_times.first() == Some(&first) {
        let problem = "so many rows have the earliest time that none is left to train on";
        return Err(Error::value("split", problem, "choose a smaller fraction, or another column"));
    }
    let (validation, train) = (0..times.len()).partition(|&row| times[row] >= first);
    Ok(Holdout { train, validation })
}

/// The rows of the middle third by a feature's value are for reporting, those of the outer thirds for fitting (Foong et al.
/// 2019): a test in between the data. Rows of equal value stay in their order.
///
/// ```
/// let split = fidgp_data::split::gap(&[0.6, 0.1, 0.2, 0.5, 0.3, 0.4])?;
/// assert_eq!((split.train, split.test), (vec![0, 1, 2, 3], vec![4, 5]));
/// # Ok::<(), fidgp_data::Error>(())
/// ```
pub fn gap(values: &[f64]) -> Result<Split> {
    let n = values.len();
    if n < 3 {
        return Err(Error::value("split", format!("{n} rows have no middle third"), "give at least three rows"));
    }
    let mut rows: Vec<usize> = (0..n).collect();
    rows.sort_by(|&a, &b| values[a].total_cmp(&values[b])); // stable
    let mut test = rows[n / 3..n - n / 3].to_vec();
    rows.drain(n / 3..n - n / 3);
    rows.sort_unstable();
    test.sort_unstable();
    Ok(Split { train: rows, test })
}

/// The order in which epoch `epoch` visits `0..n`.
///
/// A function of its arguments alone, so a resumed run continues as the unbroken one would have.
pub fn epoch_order(n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    permutation(n, seed, *b"epoch001", epoch)
}

fn permutation(n: usize, seed: u64, purpose: [u8; 8], stream: u64) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..n).collect();
    shuffle(&mut rows, &mut generator(seed, purpose, stream));
    rows
}

fn validation_size(n: usize, fraction: f64) -> Result<usize> {
    if !(0.0..1.0).contains(&fraction) {
        let problem = format!("the fraction for validation is {fraction}");
        return Err(Error::value("split", problem, "choose it from 0 up to, not including, 1; 0.1 is common"));
    }
    if fraction == 0.0 {
        return Ok(0);
    }
    if n < 2 {
        return Err(Error::value("split", format!("{n} rows cannot be split in two"), "give at least two rows"));
    }
    Ok(((n as f64 * fraction).round() as usize).clamp(1, n - 1))
}

fn sorted(mut train: Vec<usize>, mut validation: Vec<usize>) -> Holdout {
    train.sort_unstable();
    validation.sort_unstable();
    Holdout { train, validation }
}
