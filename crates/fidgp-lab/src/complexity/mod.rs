//! The paper's complexity table beside what is counted and measured: one layer of each method, for growing d and M.

mod subject;

use std::time::Instant;

use fidgp::Key;
use fidgp::layer::Network;
use fidgp::predict::Draws;
use fidgp_zoo::cost::{Counting, cost};
use fidgp_zoo::methods::batch_ensemble::BatchEnsembleNetwork;
use fidgp_zoo::{LayerPlan, MlpConfig, trace};
use tch::nn::VarStore;
use tch::{Cuda, Device, Kind, Tensor};

use crate::error::Result;
use crate::record::commit;
use crate::record::complexity::{LayerSizes, Row, Subject, Table};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Widths d of a square layer, with M fixed.
    pub widths: Vec<i64>,
    /// Inducing sizes M, with d fixed.
    pub inducing: Vec<i64>,
    /// d and M where they are fixed.
    pub fixed: (i64, i64),
    /// N, the inputs of a prediction.
    pub inputs: i64,
    /// K, its passes.
    pub passes: i64,
    /// Samples of each time, of which the median counts.
    pub rounds: usize,
    /// Where.
    pub device: Device,
    /// The command that was given, for the record.
    pub command: Option<String>,
}

impl Options {
    /// Sizes that take about a minute on two cores.
    pub fn usual(device: Device) -> Self {
        Self {
            widths: vec![128, 256, 512, 1024],
            inducing: vec![16, 32, 64, 128],
            fixed: (512, 64),
            inputs: 64,
            passes: 8,
            rounds: 5,
            device,
            command: None,
        }
    }
}

/// Counts and measures every method at every size.
///
/// # Errors
/// When a size is not positive or the device fails.
pub fn run(options: &Options) -> Result<Table> {
    let (width, inducing) = options.fixed;
    let rows = |sizes: Vec<(i64, i64)>| -> Result<Vec<Row>> {
        let pairs = Subject::ALL.into_iter().flat_map(|subject| sizes.iter().map(move |size| (subject, *size)));
        pairs.map(|(subject, size)| row(subject, size, options)).collect()
    };
    Ok(Table {
        inputs: options.inputs,
        passes: options.passes,
        device: format!("{:?}", options.device),
        by_width: rows(options.widths.iter().map(|d| (*d, inducing)).collect())?,
        by_inducing: rows(options.inducing.iter().map(|m| (width, *m)).collect())?,
        commit: commit(),
        hardware: crate::device::hardware(options.device),
        command: options.command.clone(),
    })
}

fn row(subject: Subject, (width, inducing): (i64, i64), options: &Options) -> Result<Row> {
    let sizes = LayerSizes { width, inducing, inputs: options.inputs, passes: options.passes };
    let config = MlpConfig { inputs: width, hidden: Vec::new(), outputs: width, ..MlpConfig::default() };
    let plan = subject::plan(subject, sizes);
    let counted = cost(&trace(&config.network()?, &[width])?, &plan, Counting::Ours)?;
    let layer = &counted.layers[0];
    let passes = if subject == Subject::Deterministic { 1 } else { options.passes };
    Ok(Row {
        method: subject.name(),
        width,
        inducing,
        storage_paper: subject.storage_paper(sizes),
        storage_mended: subject.storage_mended(sizes),
        storage_counted: counted.parameters,
        macs_paper: subject.macs_paper(sizes),
        macs_ours: passes * (options.inputs * layer.macs_ours + layer.draw_ours()) + counted.factor_macs,
        measured_ms: measured(subject, &config, &plan, options)?,
    })
}

/// The median time of a prediction.
fn measured(subject: Subject, network: &MlpConfig, plan: &LayerPlan, options: &Options) -> Result<f64> {
    let store = VarStore::new(options.device);
    let mut network: Box<dyn Network> = Box::new(network.init(&store.root(), plan, Key::new(1))?);
    if subject == Subject::BatchEnsemble {
        network = Box::new(BatchEnsembleNetwork { network, members: options.passes });
    }
    let width = network_inputs(&store);
    let x = Key::new(2).normal(&[options.inputs, width], Kind::Float, options.device);
    let once = || -> Result<f64> {
        let started = Instant::now();
        let draws = Draws::new(network.as_ref(), options.passes as u64, Key::new(3))?;
        draws.outputs(std::slice::from_ref(&x), |_, _| Ok(()))?;
        if let Device::Cuda(index) = options.device {
            Cuda::synchronize(index as i64);
        }
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    (0..2).try_for_each(|_| once().map(|_| ()))?; // libraries choose their kernels
    let mut times = (0..options.rounds.max(1)).map(|_| once()).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Features that a single square layer takes: its bias, or its output side of Z, is as long.
fn network_inputs(store: &VarStore) -> i64 {
    let variables = store.variables();
    let of = |name: &str, dim: usize| variables.get(name).map(|tensor: &Tensor| tensor.size()[dim]);
    of("fc1.weight", 1).or_else(|| of("fc1.z_row", 1)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Options {
        Options { widths: vec![24, 48], inducing: vec![4, 8], fixed: (48, 8), rounds: 1, ..Options::usual(Device::Cpu) }
    }

    #[test]
    fn mended_storage_is_what_is_stored_but_for_lower_orders() {
        let table = run(&small()).unwrap();
        assert_eq!(table.by_width.len(), 2 * Subject::ALL.len());
        for row in table.by_width.iter().chain(&table.by_inducing) {
            let (d, m, k) = (row.width, row.inducing, table.passes);
            // bias columns, D, λ and the flow of one layer; K biases of a batch ensemble
            let lower = if row.method == "BatchEnsemble" { k * d } else { d + m + 2 * m + 2 * m + 1 };
            let rest = row.storage_counted - row.storage_mended;
            assert!((0..=lower).contains(&rest), "{row:?}");
            assert!(row.measured_ms > 0.0 && row.macs_ours > 0 && row.macs_paper > 0);
        }
    }

    #[test]
    fn the_papers_storage_differs_where_it_errs_and_only_there() {
        let table = run(&small()).unwrap();
        for row in &table.by_width {
            let (d, m, k) = (row.width, row.inducing, table.passes);
            let expected = match row.method {
                "Deterministic" | "FFG-U" => 0,
                "BatchEnsemble" => d * d + 2 * k * d - k * d * d,
                "FiD-GP, Reparam" => 2 * m * m,
                _ => 2 * m * m - k * m * m,
            };
            assert_eq!(row.storage_mended - row.storage_paper, expected, "{}", row.method);
        }
    }
}
