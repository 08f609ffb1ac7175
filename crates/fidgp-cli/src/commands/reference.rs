//! `fidgp reference`

use std::fmt::Write;
use std::process::ExitCode;

use fidgp_lab::predict::Trained;
use fidgp_lab::record::Metrics;
use fidgp_lab::reference::{self, HmcConfig, ReferenceConfig};
use tch::Device;

use super::Outcome;
use crate::args::Reference;
use crate::progress::Clock;

/// Leapfrog steps of a trajectory at most.
const MOST_STEPS: usize = 1000;
/// Points of the axis that are compared.
const POINTS: usize = 221;
/// What is shown: a heading and a metric, by its name without `reg/`.
const SHOWN: [(&str, &str); 7] = [
    ("σ in range", "EpistemicSD_in_range"),
    ("gap ×", "EpistemicSD_gap_ratio"),
    ("outside ×", "EpistemicSD_outside_ratio"),
    ("truth in", "TruthInside_in_range"),
    ("gap", "TruthInside_gap"),
    ("outside", "TruthInside_outside"),
    ("RMSE", "RMSE_truth"),
];

pub fn run(arguments: &Reference) -> Outcome {
    let predictor = Trained::open(&arguments.run, Device::Cpu)?;
    tch::set_num_threads(1);
    let [chains, draws, warmup] = [arguments.chains.get(), arguments.draws, arguments.warmup].map(|n| n as usize);
    let hmc = HmcConfig { warmup, draws, most_steps: MOST_STEPS };
    let clock = Clock::start("sampling");
    let found = reference::compare(&predictor, &ReferenceConfig { chains, hmc, points: POINTS })?;
    drop(clock);
    if arguments.json {
        super::print_json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = format!("{:34}", "epistemic σ, truth within 2σ");
    for (heading, _) in SHOWN {
        let _ = write!(table, "{heading:>11}");
    }
    for row in &found.posteriors {
        let _ = write!(table, "\n{:34}", row.name);
        for (_, name) in SHOWN {
            let _ = write!(table, "{:>11}", value(&row.metrics, name));
        }
    }
    let c = &found.chains;
    let _ = write!(
        table,
        "\n\n{} chains of {} draws over {} weights: R-hat at most {:.3} ({:.3} among the data), at least {:.0} effective draws, \
         {:.0} % accepted\ndense linearised posterior against the Gaussian process of its space: {:.1e} of the largest σ\n",
        c.count,
        c.draws,
        found.weights,
        c.r_hat,
        c.r_hat_in_range,
        c.effective,
        100.0 * c.accepted,
        found.dense_error
    );
    super::print(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn value(metrics: &Metrics, name: &str) -> String {
    let value = metrics.get(&format!("reg/{name}")).copied().flatten();
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"))
}
