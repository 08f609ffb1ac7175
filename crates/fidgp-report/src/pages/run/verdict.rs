//! What a regression figure shows, in words.

use crate::record::Regression1d;

use super::bands::{SIGMAS, interpolate, pairs, total_sd};
use crate::words::format::short;

/// What to look at in the figure, and what is to be seen.
pub fn caption(data: &Regression1d, gap_ratio: Option<f64>, is_cut: bool) -> String {
    let look = "Look at what is shaded: a network that knows what it has not seen widens its blue band there, and keeps it \
                narrow among the training points. Hatching is the width that noise adds.";
    let cut = is_cut.then(|| "The band goes on beyond the edge of the figure.".to_owned());
    let inside = inside_band(data).map(|(inside, all)| {
        format!("{inside} of {all} test points lie inside the ±3σ band (a normal law would leave out about 1 in 370).")
    });
    let said = [Some(look.to_owned()), gap_ratio.map(gap_words), cut, inside];
    said.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn gap_words(ratio: f64) -> String {
    let verdict = if ratio >= 1.5 {
        "it knows the gap"
    } else if ratio > 1.0 {
        "it hardly tells the gap from the data"
    } else {
        "it is surer in the gap than among the data"
    };
    format!(
        "Here the mean epistemic σ inside the gap is {} times that among the training points: {verdict}.",
        short(ratio)
    )
}

fn inside_band(data: &Regression1d) -> Option<(usize, usize)> {
    let (grid, sd) = (&data.grid, total_sd(&data.grid));
    let check = |(x, y): (f64, f64)| {
        let gap = (y - interpolate(&grid.x, &grid.mean, x)?).abs();
        Some(gap <= SIGMAS * interpolate(&grid.x, &sd, x)?)
    };
    let checked: Vec<bool> = pairs(&data.test.x, &data.test.y).into_iter().filter_map(check).collect();
    (!checked.is_empty()).then(|| (checked.iter().filter(|&&inside| inside).count(), checked.len()))
}
