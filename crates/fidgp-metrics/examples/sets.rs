//! Conformal sets of probabilities in a CSV file, for `scripts/peers-conformal`.
//!
//! `cargo run --release -p fidgp-metrics --example sets FILE SCORE LAST LEVEL…`: SCORE is `lac`, `aps` or
//! `raps:PENALTY:FREE`, LAST `keep` or `random`. A line of the file is `cal|test,label,u,p_0,p_1,…`; of each test line the
//! sets are printed, one for each level, classes in rising order with spaces between, levels with commas.

use std::error::Error;

use fidgp_metrics::Predictions;
use fidgp_metrics::conformal::{ClassSets, LastLabel, SetScore};

/// Label, u and probabilities.
type Row = (usize, f64, Vec<f64>);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, score, last, levels @ ..] = arguments.as_slice() else { return Err("FILE SCORE LAST LEVEL…".into()) };
    let text = std::fs::read_to_string(file)?;
    let (calibration, test) = (rows(&text, "cal")?, rows(&text, "test")?);
    let last = if last == "keep" { LastLabel::Keep } else { LastLabel::Random };
    let levels = levels.iter().map(|level| level.parse()).collect::<Result<Vec<f64>, _>>()?;
    let calibrated = levels.iter().map(|&level| calibrated(&calibration, parse(score)?, last, level));
    let all = calibrated.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    for (_, u, probs) in &test {
        let sets = all.iter().map(|sets| {
            let mut set = sets.set(probs, *u);
            set.sort_unstable();
            set.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
        });
        println!("{}", sets.collect::<Vec<_>>().join(","));
    }
    Ok(())
}

fn parse(score: &str) -> Result<SetScore, Box<dyn Error>> {
    match score.split(':').collect::<Vec<_>>().as_slice() {
        ["lac"] => Ok(SetScore::Lac),
        ["aps"] => Ok(SetScore::Aps),
        ["raps", penalty, free] => Ok(SetScore::Raps { penalty: penalty.parse()?, free: free.parse()? }),
        _ => Err(format!("{score} is no score").into()),
    }
}

fn rows(text: &str, part: &str) -> Result<Vec<Row>, Box<dyn Error>> {
    let mine = text.lines().filter_map(|line| line.strip_prefix(part)?.strip_prefix(','));
    mine.map(|line| {
        let (label, rest) = line.split_once(',').ok_or("a line without a comma")?;
        let numbers = rest.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        Ok((label.parse()?, numbers[0], numbers[1..].to_vec()))
    })
    .collect()
}

fn calibrated(rows: &[Row], score: SetScore, last: LastLabel, level: f64) -> Result<ClassSets, Box<dyn Error>> {
    let probs: Vec<f64> = rows.iter().flat_map(|(_, _, probs)| probs.clone()).collect();
    let labels: Vec<usize> = rows.iter().map(|(label, ..)| *label).collect();
    let u: Vec<f64> = rows.iter().map(|(_, u, _)| *u).collect();
    let examples = Predictions::new(&probs, probs.len() / rows.len(), &labels)?;
    Ok(ClassSets::calibrate(score, last, &examples, &u, level)?)
}
