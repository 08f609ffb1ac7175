//! Predictions with many draws take no more memory than with few. In a process of its own, one after the other: the peak is
//! the process's.
#![cfg(target_os = "linux")]

use fidgp::Key;
use fidgp::predict::{Draws, classify, segment};
use fidgp::weight::InducingConfig;
use fidgp_zoo::{Depth, FcnConfig, LayerPlan, ResnetConfig};
use tch::nn::VarStore;
use tch::{Device, Kind};

const CLASSES: i64 = 12;
const SIDE: i64 = 384;

/// The highest resident memory since the last call, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let highest = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be set back");
    1024 * highest.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
}

fn all_layers() -> LayerPlan {
    LayerPlan::all(InducingConfig { inducing_rows: 4.into(), inducing_cols: 4.into(), ..InducingConfig::default() })
}

#[test]
fn memory_does_not_grow_with_the_draws() {
    tch::set_num_threads(1);
    segmentation();
    classification();
}

fn classification() {
    let store = VarStore::new(Device::Cpu);
    let config = ResnetConfig { width: 32, ..ResnetConfig::default() };
    let network = config.init(&store.root(), &all_layers(), Key::new(1)).unwrap();
    let pictures = Key::new(2).normal(&[2, 3, 32, 32], Kind::Float, Device::Cpu);
    let with = |draws: u64| {
        classify(&Draws::new(&network, draws, Key::new(3)).unwrap(), &[pictures.shallow_clone()], None).unwrap();
        peak()
    };
    with(2);
    let (few, many) = (with(2), with(26));
    let weights: i64 = fidgp_zoo::trace(&config.network().unwrap(), &[3, 32, 32])
        .unwrap()
        .iter()
        .map(fidgp_zoo::LayerGeometry::dense_parameters)
        .sum();
    let kept = 24 * 4 * weights as u64;
    assert!(many < few + kept / 8, "{few} bytes with 2 draws, {many} with 26; weights kept would be {kept} more");
}

fn segmentation() {
    let store = VarStore::new(Device::Cpu);
    let config = FcnConfig {
        depth: Depth::D18,
        width: 4,
        outputs: Some(CLASSES),
        aux_outputs: Some(21),
        ..FcnConfig::default()
    };
    let network = config.init(&store.root(), &all_layers(), Key::new(1)).unwrap();
    let picture = Key::new(2).normal(&[1, 3, SIDE, SIDE], Kind::Float, Device::Cpu);
    let with = |draws: u64| {
        segment(&Draws::new(&network, draws, Key::new(3)).unwrap(), &picture, CLASSES, None).unwrap();
        peak()
    };
    with(2); // what the libraries set up once
    let (few, many) = (with(2), with(26));
    // kept side by side, 24 more draws would take the probabilities of 24 pictures; their weights, a tenth of that, are kept
    let kept = 24 * (CLASSES * SIDE * SIDE * 4) as u64;
    assert!(many < few + kept / 4, "{few} bytes with 2 draws, {many} with 26; one beside the other {kept}");
}
