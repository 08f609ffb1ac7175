//! A task that none of ours knows, in this file alone: sums of two numbers, measured by a metric of its own.

mod fixture;

use std::sync::atomic::AtomicBool;

use fidgp::Key;
use fidgp_lab::Result;
use fidgp_lab::config::RunConfig;
use fidgp_lab::experiment::run_task;
use fidgp_lab::experiment::task::{HeldOut, Measure, Measured, SplitRole, Task, Want};
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::record::{EPOCHS_FILE, RESULTS_FILE, Results, read_epochs};
use fidgp_lab::source::Source;
use tch::{Device, Kind, Tensor};

/// The metric: the largest error of a sum.
const WORST: &str = "own/worst";

/// Pairs of numbers and their sums.
struct Pairs {
    pairs: Tensor,
    sums: Tensor,
}

impl Pairs {
    fn new(count: i64, seed: u64) -> Self {
        let pairs = Key::new(seed).normal(&[count, 2], Kind::Float, Device::Cpu);
        let sums = pairs.sum_dim_intlist(1, true, Kind::Float);
        Self { pairs, sums }
    }
}

impl Source for &Pairs {
    fn len(&self) -> usize {
        self.pairs.size()[0] as usize
    }

    fn batch(&self, rows: &Tensor, _: Option<Key>) -> Result<(Tensor, Tensor)> {
        Ok((self.pairs.index_select(0, rows), self.sums.index_select(0, rows).squeeze_dim(1)))
    }
}

struct Sums {
    config: RunConfig,
    train: Pairs,
    validation: Pairs,
    test: Pairs,
}

impl Sums {
    fn worst(&self, model: &Model, pairs: &Pairs, draws: u64) -> Result<Measured> {
        let draws = model.draws(draws, Key::new(self.config.seed).fold("predict"))?;
        let (mut sum, count) = (Tensor::zeros_like(&pairs.sums), draws.count as f64);
        draws.outputs(&[pairs.pairs.shallow_clone()], |_, outputs| {
            sum += outputs.narrow(1, 0, 1);
            Ok(())
        })?;
        let worst = (sum / count - &pairs.sums).abs().max().double_value(&[]);
        Ok(Measured { metrics: [(WORST.to_owned(), Some(worst))].into(), ..Measured::default() })
    }
}

impl Task for Sums {
    fn config(&self) -> &RunConfig {
        &self.config
    }

    fn signature(&self) -> Result<Signature> {
        Ok(Signature::Regression { features: 2 })
    }

    fn examples<'a>(&'a self, _: &Model, _: SplitRole) -> Result<Box<dyn Source + 'a>> {
        Ok(Box::new(&self.train))
    }

    fn measure<'a>(&'a self, part: HeldOut, _: &Model) -> Result<Option<Measure<'a>>> {
        let pairs = if part == HeldOut::Test { &self.test } else { &self.validation };
        Ok(Some(Box::new(move |model, draws, _: Want| self.worst(model, pairs, draws))))
    }

    fn chosen_by(&self) -> &'static str {
        WORST
    }
}

#[test]
fn a_task_of_ones_own_is_trained_chosen_measured_and_recorded() {
    let changes = ["train.epochs=40", "train.select=best", "network.batch_norm=false", "predict.draws=3", "seed=4"];
    let config = fixture::config(fixture::CURVE, &changes);
    let task = Sums { config, train: Pairs::new(200, 1), validation: Pairs::new(50, 2), test: Pairs::new(50, 3) };
    let (folder, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let run = folder.path().join("run");
    let results = run_task(&task, &fixture::context(&run, &stop), &mut ()).unwrap().unwrap();
    let worst = |name: &str| results.metrics[name].unwrap();
    assert!(worst(WORST) < 1.0, "sums reach 4: {}", worst(WORST));
    assert_eq!(Results::read(&run.join(RESULTS_FILE)).unwrap().metrics, results.metrics);
    let epochs = read_epochs(&run.join(EPOCHS_FILE)).unwrap();
    assert_eq!(epochs.len(), 40);
    let chosen = epochs.iter().filter_map(|epoch| epoch.metrics["validation"].values().copied().next().flatten());
    let best = chosen.fold(f64::INFINITY, f64::min);
    assert!((best - worst(&format!("validation/{WORST}"))).abs() < 1e-6, "the best epoch is the one that is kept");
}
