//! Moments of a network's layers, against what the layers give.

use fidgp::Key;
use fidgp::layer::{Mode, Network, Pass, Slot, Taps, init};
use fidgp_zoo::ResnetCifarConfig;
use fidgp_zoo::compress::Moments;
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// `tr(W A Wᵀ)` is the mean of `‖W a‖²` over examples and positions: so only if every column of A is that of its weight.
#[test]
fn moments_are_those_of_what_the_weights_are_multiplied_with() {
    let config = ResnetCifarConfig { depth: 8, classes: 5, ..ResnetCifarConfig::default() };
    let mut network = config.network().unwrap();
    let store = VarStore::new(Device::Cpu);
    init(&mut network, &store.root(), Key::new(1)).unwrap();
    let x = |name: &str| Key::new(2).fold(name).normal(&[6, 3, 32, 32], Kind::Float, Device::Cpu);
    let signals = Key::new(3).normal(&[6, 5], Kind::Float, Device::Cpu);
    let mut moments = Moments::default();
    for batch in ["first", "second"] {
        moments.add(&network, &x(batch), &|_| Ok(signals.shallow_clone())).unwrap();
    }
    let moments = moments.finish();

    let names: Vec<String> = network.slots().iter().map(|slot| slot.name().to_owned()).collect();
    assert_eq!(moments.len(), names.len());
    let all = Tensor::cat(&[x("first"), x("second")], 0);
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&wanted));
    _ = tch::no_grad(|| network.forward(&all, &mut pass)).unwrap();
    for slot in network.slots() {
        let Slot::Dense(dense) = slot else { panic!("a plain network") };
        let sides = &moments[&dense.name];
        let weight = dense.weight.detach().flatten(1, -1).to_kind(Kind::Double);
        let weight = match &dense.bias {
            Some(bias) => Tensor::cat(&[weight, bias.detach().to_kind(Kind::Double).unsqueeze(1)], 1),
            None => weight,
        };
        let mean = weight.matmul(&sides.input).matmul(&weight.tr()).trace().double_value(&[]);
        let given = pass.taps.feature(&dense.name).unwrap().to_kind(Kind::Double);
        let positions = given.numel() as f64 / weight.size()[0] as f64;
        let direct = given.square().sum(Kind::Double).double_value(&[]) / positions;
        assert!((mean / direct - 1.0).abs() < 1e-4, "{}: {mean} {direct}", dense.name);
        assert_eq!(sides.output.size(), [weight.size()[0]; 2]);
    }
    let head = signals.tr().matmul(&signals).to_kind(Kind::Double) / 6.0; // both batches had the same signals
    assert!(moments["linear"].output.allclose(&head, 1e-4, 1e-6, false));
}
