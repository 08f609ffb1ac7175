//! Gradients of a graph's parameters, for comparison with those of the framework it comes from (`scripts/onnx-models`).
//!
//! `gradients MODEL.onnx INPUTS.safetensors DIRECTION.safetensors OUT.safetensors`: of `Σ direction · output` by every
//! parameter, under the file's own names, and the output itself as `output`. Says how many layers can be Bayesian.

use std::error::Error;

use fidgp::Key;
use fidgp::layer::{Layer, Layers, Mode, Network, Operation, Pass, init};
use fidgp_onnx::{Graph, GraphNetwork, Import, Wanted};
use tch::nn::VarStore;
use tch::{Device, Tensor};

/// How many layers can hold an inducing weight, and their share of the parameters.
fn bayesian(network: &GraphNetwork) -> (usize, f64) {
    let operations: Vec<_> = network.layers().into_iter().map(Layer::operation).collect();
    let all: i64 = operations.iter().map(Operation::parameters).sum();
    let matrices: Vec<i64> = operations.iter().filter(|one| one.kind().is_some()).map(Operation::parameters).collect();
    (matrices.len(), matrices.iter().sum::<i64>() as f64 / all.max(1) as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, inputs, direction, out] = &arguments[..] else {
        return Err("give MODEL.onnx INPUTS.safetensors DIRECTION.safetensors OUT.safetensors".into());
    };
    let mut import = Import::new(Graph::read(model.as_ref())?, &Wanted::default())?;
    let store = VarStore::new(Device::Cpu);
    init(&mut import.network, &store.root(), Key::new(1))?;
    let variables = store.variables();
    for (name, tensor) in &import.tensors {
        let variable = variables.get(name).ok_or_else(|| format!("no variable `{name}`"))?;
        tch::no_grad(|| variable.shallow_clone().f_copy_(tensor))?;
    }
    let only = |file: &str| -> Result<Tensor, Box<dyn Error>> {
        Ok(Tensor::read_safetensors(file)?.into_iter().next().ok_or("an empty file")?.1)
    };
    let output = import.network.forward(&only(inputs)?, &mut Pass::plain(Mode::Eval))?;
    (&output * only(direction)?).f_sum(output.kind())?.backward();
    let mut found = vec![("output".to_owned(), output.detach().contiguous())];
    for origin in &import.origins {
        let gradient = variables[&origin.variable].grad();
        if gradient.defined() {
            found.push((origin.initialiser.clone(), gradient.contiguous()));
        }
    }
    Tensor::write_safetensors(&found, out)?;
    let (layers, share) = bayesian(&import.network);
    println!("layers {layers}\nshare {share}");
    Ok(())
}
