//! One run of a config through the library alone: `cargo run --release --example try CONFIG [KEY=VALUE…]`.

use std::sync::atomic::AtomicBool;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let over: Vec<_> = args[2..].iter().map(|a| a.parse().unwrap()).collect();
    let config = fidgp_lab::config::read(std::path::Path::new(&args[1]), &over).unwrap();
    let run = std::path::PathBuf::from("/tmp/try").join(&config.name);
    tch::set_num_threads(1);
    let stop = AtomicBool::new(false);
    let s = fidgp_lab::experiment::Setting {
        device: tch::Device::Cpu,
        data_root: "/tmp/data".into(),
        run,
        resume: false,
        force: true,
        splits: vec![],
        parallel: 2,
        stop: &stop,
        command: None,
    };
    let t = std::time::Instant::now();
    let r = fidgp_lab::experiment::run(&config, &s, &mut ()).unwrap();
    println!("{:.1}s params {}", t.elapsed().as_secs_f64(), r.cost.parameters);
    for (k, v) in &r.metrics {
        println!("{k} {v:?}");
    }
    let ep = fidgp_lab::record::read_epochs(&s.run.join("metrics.jsonl")).unwrap();
    for e in ep.iter().step_by((ep.len() / 8).max(1)) {
        println!(
            "{} loss {:.3} nll {:.3} klu {:.1} klw {:.1} beta {} lam {:?} val {:?}",
            e.epoch,
            e.loss,
            e.nll,
            e.kl_inducing,
            e.kl_conditional,
            e.beta,
            e.lambda_max,
            e.metric("validation", "NLL")
        );
    }
}
