//! How time grows: the inducing size, the draws, the batch or the Bayesian layers vary, everything else stays.

use std::str::FromStr;
use std::time::Instant;

use fidgp_zoo::plan::PAPER_FOUR;

use super::{Bench, BenchOptions};
use crate::config::{Override, RunConfig};
use crate::error::{LabError, Result};
use crate::model::{Counting, cost, prediction_macs, training_macs};
use crate::record::commit;
use crate::record::growth::{GROWTH_SCHEMA, Grown, Growth, Line, Point};

/// The values of an axis where none are given.
fn usual(axis: Grown) -> &'static str {
    match axis {
        Grown::M => "32,64,128,256",
        Grown::K => "1,2,4,8,16,32",
        Grown::Batch => "1,8,32,128,512",
        Grown::Layers => "0,1,4,all",
    }
}

/// One value of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(usize),
    All,
}

/// An axis with its values: `m`, or `m=32,64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// What varies.
    pub axis: Grown,
    values: Vec<Value>,
}

impl FromStr for Sweep {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: String| LabError::config(format!("--grow {text}"), why);
        let (name, values) = text.split_once('=').map_or((text, None), |(name, values)| (name, Some(values)));
        let axis = Grown::ALL.into_iter().find(|axis| axis.name() == name);
        let axis =
            axis.ok_or_else(|| wrong("is not known; write m, k, batch or layers, perhaps with =1,2,…".into()))?;
        let value = |word: &str| match (axis, word, word.parse()) {
            (Grown::Layers, "all", _) => Ok(Value::All),
            (Grown::Layers, _, Ok(number)) if number <= PAPER_FOUR.len() => Ok(Value::Number(number)),
            (Grown::Layers, ..) => Err(wrong(format!("`{word}` is neither 0 to 4 nor `all`"))),
            (_, _, Ok(number)) if (1..=1 << 20).contains(&number) => Ok(Value::Number(number)),
            _ => Err(wrong(format!("`{word}` is no number from 1 to {}", 1 << 20))),
        };
        let values = values.unwrap_or_else(|| usual(axis)).split(',').map(|word| value(word.trim()));
        Ok(Self { axis, values: values.collect::<Result<_>>()? })
    }
}

impl Sweep {
    /// What a value changes in the config; draws and batch are not the config's.
    fn changes(&self, value: Value) -> Result<Vec<Override>> {
        let words = match (self.axis, value) {
            (Grown::K | Grown::Batch, _) => Vec::new(),
            (Grown::M, Value::Number(size)) => {
                ["rows", "cols"].map(|side| format!("inducing.inducing_{side}={size}")).to_vec()
            }
            (Grown::Layers, Value::Number(0)) => vec!["method=deterministic".to_owned()],
            (Grown::Layers, Value::Number(count)) => {
                let last = &PAPER_FOUR[PAPER_FOUR.len() - count..];
                vec![format!("inducing.layers={last:?}"), "inducing.rules=[]".to_owned()]
            }
            (Grown::M | Grown::Layers, Value::All) => vec!["inducing.layers=[\"*\"]".to_owned()],
        };
        words.iter().map(|word| word.parse()).collect()
    }
}

/// Measures a config along every axis; `read` reads it with more changes, `say` is told of every point.
///
/// # Errors
/// When a value does not fit the config (before anything is measured), or as [`run`](super::run).
pub fn grow(
    read: &dyn Fn(&[Override]) -> Result<RunConfig>,
    sweeps: &[Sweep],
    options: &BenchOptions,
    command: Option<String>,
    say: &mut dyn FnMut(String),
) -> Result<Growth> {
    let (started, load_before, config) = (Instant::now(), load(), read(&[])?);
    let planned: Vec<Vec<Planned>> = sweeps.iter().map(|sweep| plan(read, sweep, options)).collect::<Result<_>>()?;
    let mut axes = Vec::new();
    for (sweep, planned) in sweeps.iter().zip(&planned) {
        let mut points = Vec::new();
        for one in planned {
            let point = one.measured(sweep.axis)?;
            let train = point.train.as_ref().map_or(String::new(), |time| format!("train {:.1} ms, ", time.least_ms));
            say(format!("{} = {}: {train}predict {:.1} ms", sweep.axis.name(), point.value, point.predict.least_ms));
            points.push(point);
        }
        axes.push(Line { axis: sweep.axis, points });
    }
    Ok(Growth {
        schema: GROWTH_SCHEMA,
        name: config.name.clone(),
        method: config.method.name(),
        commit: commit(),
        hardware: crate::device::hardware(options.device),
        device: format!("{:?}", options.device),
        command,
        load_before,
        batch: options.batch,
        draws: options.draws,
        rounds: options.rounds,
        seconds: started.elapsed().as_secs_f64(),
        config: serde_json::to_value(&config).map_err(|error| LabError::config("config", error.to_string()))?,
        axes,
    })
}

/// A point that is known to be possible.
struct Planned {
    config: RunConfig,
    options: BenchOptions,
    value: i64,
    train_macs: Option<i64>,
    predict_macs: i64,
}

fn plan(
    read: &dyn Fn(&[Override]) -> Result<RunConfig>,
    sweep: &Sweep,
    options: &BenchOptions,
) -> Result<Vec<Planned>> {
    let wrong = |why: String| LabError::config(format!("--grow {}", sweep.axis.name()), why);
    let method = read(&[])?.method;
    if matches!(sweep.axis, Grown::M | Grown::Layers) && !method.about().is_inducing {
        return Err(wrong(format!("needs inducing weights (ffgu, fidgp); the config's method is {}", method.name())));
    }
    let point = |value: &Value| -> Result<Planned> {
        let mut config = read(&sweep.changes(*value)?)?;
        let mut options = *options;
        match (sweep.axis, value) {
            (Grown::K, Value::Number(draws)) => options.draws = *draws as u64,
            (Grown::Batch, Value::Number(images)) => options.batch = *images,
            _ => {}
        }
        config.predict.draws = options.draws;
        config.posterior = None; // what is timed are weight draws
        if sweep.axis == Grown::K && config.passes() != options.draws {
            return Err(wrong(format!("changes nothing: {} does not predict with K weight draws", method.name())));
        }
        let bayesian = cost(&config, Counting::Ours)?.layers.iter().filter(|layer| layer.draw.is_some()).count();
        let value = match value {
            Value::Number(number) if sweep.axis != Grown::Layers => *number,
            _ => bayesian,
        };
        let inputs = options.batch as i64;
        let (train_macs, predict_macs) = (training_macs(&config, inputs)?, prediction_macs(&config, inputs)?);
        Ok(Planned { config, options, value: value as i64, train_macs, predict_macs })
    };
    sweep.values.iter().map(point).collect()
}

impl Planned {
    fn measured(&self, axis: Grown) -> Result<Point> {
        let bench = Bench::new(&self.config, &self.options)?;
        let train = if axis == Grown::K { None } else { Some(bench.train()?) };
        let train_macs = self.train_macs.filter(|_| train.is_some());
        let predict = bench.predict(true)?;
        Ok(Point { value: self.value, train, train_macs, predict, predict_macs: self.predict_macs })
    }
}

/// The system's load over the last minute.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_its_usual_values_or_those_that_are_given() {
        let values = |text: &str| text.parse::<Sweep>().unwrap().values;
        assert_eq!(values("m=32,64"), [Value::Number(32), Value::Number(64)]);
        assert_eq!(values("layers"), [Value::Number(0), Value::Number(1), Value::Number(4), Value::All]);
        assert_eq!((values("k").len(), values("batch").len(), values("m").len()), (6, 5, 4));
        for wrong in ["n", "m=all", "m=0", "k=-1", "batch=", "batch=1.5", "layers=5", "layers=some", "m=99999999"] {
            let said = wrong.parse::<Sweep>().unwrap_err().to_string();
            assert!(said.contains(&format!("--grow {wrong}")), "{said}");
        }
    }
}
