//! `fidgp onnx`

use std::process::ExitCode;

use fidgp_lab::train::checkpoint;
use fidgp_lab::{LabError, device, weights};
use fidgp_onnx::{Graph, Inspection, Plain, Port, Wanted, operators};
use tch::Kind;

use super::Outcome;
use crate::args::{Onnx, OnnxInspect, OnnxRun};

pub fn run(arguments: &Onnx) -> Outcome {
    match arguments {
        Onnx::Inspect(arguments) => inspect(arguments),
        Onnx::Run(arguments) => run_graph(arguments),
        Onnx::Operators => {
            super::print(&(operators().collect::<Vec<_>>().join("\n") + "\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn inspect(arguments: &OnnxInspect) -> Outcome {
    let wanted = Wanted { input: arguments.input.clone(), output: arguments.output.clone(), ..Wanted::default() };
    let graph = Graph::read(&arguments.file)?;
    let inspection = Inspection::new(graph, &wanted, arguments.shape.as_ref().map(|shape| &shape.0[..]));
    super::print(&inspection.to_string())?;
    Ok(if inspection.is_understood() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_graph(arguments: &OnnxRun) -> Outcome {
    if let Some(threads) = arguments.threads {
        tch::set_num_threads(i32::from(threads.get()));
    }
    let device = device::choose(&arguments.device)?;
    let plain = Plain::new(&Graph::read(&arguments.file)?, if arguments.double { Kind::Double } else { Kind::Float })?;
    let given = weights::read(&arguments.inputs)?;
    let find = |port: &Port| {
        let found = given.iter().find(|(name, _)| *name == port.name).map(|(_, tensor)| tensor.to_device(device));
        let has = given.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let why = format!("has no tensor `{}`, which the graph takes; it has {has}", port.name);
        found.ok_or_else(|| LabError::File { path: arguments.inputs.clone(), why })
    };
    let inputs = plain.inputs().iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let outputs = plain.run(&inputs)?;
    let named = plain.outputs().iter().map(|port| port.name.clone()).zip(outputs);
    checkpoint::write(&arguments.out, &named.collect::<Vec<_>>(), ("made by", "fidgp onnx run".to_owned()))?;
    Ok(ExitCode::SUCCESS)
}
