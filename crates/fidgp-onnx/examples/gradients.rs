//! What a graph learns, for comparison with the framework it comes from (`scripts/onnx-models`).
//!
//! `gradients gradients MODEL.onnx INPUTS.safetensors DIRECTION.safetensors OUT.safetensors`: of `Σ direction · output` by every
//! parameter, under the file's own names, and the output itself as `output`. Says how many layers can be Bayesian.
//!
//! `gradients train … STEPS RATE`: every parameter and statistic, in f64, after so many steps of gradient descent in training
//! mode on the mean of `direction · output`.
//!
//! `gradients time MODEL.onnx INPUTS.safetensors REPEATS`: the least milliseconds of a forward pass in evaluation.

use std::error::Error;
use std::time::Instant;

use fidgp::Key;
use fidgp::layer::{Layer, Layers, Mode, Network, Operation, Pass, init};
use fidgp_onnx::{Graph, GraphNetwork, Import, Wanted};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A network with the file's numbers.
struct Filled {
    import: Import,
    store: VarStore,
}

fn filled(model: &str, kind: Kind) -> Outcome<Filled> {
    let mut import = Import::in_kind(&mut Graph::read(model.as_ref())?, &Wanted::default(), kind)?;
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(kind);
    init(&mut import.network, &store.root(), Key::new(1))?;
    store.set_kind(kind); // statistics of norms begin in f32
    let variables = store.variables();
    for (name, tensor) in &import.tensors {
        let variable = variables.get(name).ok_or_else(|| format!("no variable `{name}`"))?;
        tch::no_grad(|| variable.shallow_clone().f_copy_(tensor))?;
    }
    Ok(Filled { import, store })
}

#[expect(clippy::disallowed_methods, reason = "the file is ours")]
fn only(file: &str, kind: Kind) -> Outcome<Tensor> {
    Ok(Tensor::read_safetensors(file)?.into_iter().next().ok_or("an empty file")?.1.to_kind(kind))
}

/// How many layers can hold an inducing weight, and their share of the parameters.
fn bayesian(network: &GraphNetwork) -> (usize, f64) {
    let operations: Vec<_> = network.layers().into_iter().map(Layer::operation).collect();
    let all: i64 = operations.iter().map(Operation::parameters).sum();
    let matrices: Vec<i64> = operations.iter().filter(|one| one.kind().is_some()).map(Operation::parameters).collect();
    (matrices.len(), matrices.iter().sum::<i64>() as f64 / all.max(1) as f64)
}

fn gradients(model: &str, inputs: &str, direction: &str, out: &str) -> Outcome<()> {
    let Filled { import, store } = filled(model, Kind::Float)?;
    let output = import.network.forward(&only(inputs, Kind::Float)?, &mut Pass::plain(Mode::Eval))?;
    (&output * only(direction, Kind::Float)?).f_sum(output.kind())?.backward();
    let mut found = vec![("output".to_owned(), output.detach().contiguous())];
    let variables = store.variables();
    for origin in &import.origins {
        let gradient = variables[&origin.variable].grad();
        if gradient.defined() {
            found.push((origin.initialiser.clone(), origin.in_framework(&gradient)?.contiguous()));
        }
    }
    Tensor::write_safetensors(&found, out)?;
    let (layers, share) = bayesian(&import.network);
    println!("layers {layers}\nshare {share}");
    Ok(())
}

fn train(model: &str, inputs: &str, direction: &str, out: &str, steps: usize, rate: f64) -> Outcome<()> {
    let Filled { import, store } = filled(model, Kind::Double)?;
    let (x, direction) = (only(inputs, Kind::Double)?, only(direction, Kind::Double)?);
    for _ in 0..steps {
        let output = import.network.forward(&x, &mut Pass::plain(Mode::Train))?;
        (&output * &direction).f_mean(output.kind())?.backward();
        for mut parameter in store.trainable_variables() {
            let gradient = parameter.grad();
            if gradient.defined() {
                _ = tch::no_grad(|| parameter.f_sub_(&(gradient * rate)))?;
                parameter.zero_grad();
            }
        }
    }
    let variables = store.variables();
    let named = |origin: &fidgp_onnx::Origin| -> Outcome<(String, Tensor)> {
        let own = origin.in_framework(&variables[&origin.variable].detach())?;
        Ok((origin.initialiser.clone(), own.contiguous()))
    };
    Tensor::write_safetensors(&import.origins.iter().map(named).collect::<Outcome<Vec<_>>>()?, out)?;
    Ok(())
}

fn time(model: &str, inputs: &str, repeats: usize) -> Outcome<()> {
    let Filled { import, store: _store } = filled(model, Kind::Float)?;
    let x = only(inputs, Kind::Float)?;
    let mut least = f64::INFINITY;
    for _ in 0..=repeats {
        let start = Instant::now();
        _ = tch::no_grad(|| import.network.forward(&x, &mut Pass::plain(Mode::Eval)))?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    println!("milliseconds {}", 1e3 * least);
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["gradients", model, inputs, direction, out] => gradients(model, inputs, direction, out),
        ["train", model, inputs, direction, out, steps, rate] => {
            train(model, inputs, direction, out, steps.parse()?, rate.parse()?)
        }
        ["time", model, inputs, repeats] => time(model, inputs, repeats.parse()?),
        _ => Err("give gradients, train or time, and their files; see the head of this file".into()),
    }
}
