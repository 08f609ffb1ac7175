//! Networks as somebody outside would write them: layers listed once, traced, given numbers, predicted with.

use std::sync::atomic::{AtomicUsize, Ordering};

use fidgp::layer::{
    BatchNorm, Conv2d, Conv2dConfig, LayerNorm, Layers, Linear, Mode, Network, Operation, Parameter, Pass, Role,
    SlotConfig, Start, Taps, blocks_before_randomness, decayed, init, roles, trace,
};
use fidgp::predict::Draws;
use fidgp::{Key, Result};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

use crate::common::{config, gap, inducing, normal, store};

/// Three linear blocks with a parameter added in between; it counts how often each block runs.
#[derive(Debug)]
struct Counted {
    blocks: Vec<Linear>,
    shift: Parameter,
    head: Linear,
    runs: [AtomicUsize; 3],
    in_place: bool,
}

fidgp::layers!(Counted: blocks, shift, head);

impl Counted {
    fn new() -> Result<Self> {
        let blocks = (0..3).map(|i| Linear::new(format!("blocks.{i}"), 4, 4, true)).collect::<Result<_>>()?;
        let (shift, head) = (Parameter::new("shift", &[4], Start::Normal(1.0))?, Linear::new("head", 4, 2, true)?);
        Ok(Self { blocks, shift, head, runs: Default::default(), in_place: false })
    }

    /// With one Bayesian layer, the others plain.
    fn with(layer: &str, store: &VarStore) -> Self {
        let mut network = Self::new().unwrap();
        for part in network.layers_mut().into_iter().filter(|part| part.name() == layer) {
            part.slot_mut().unwrap().set(inducing(&config())).unwrap();
        }
        init(&mut network, &store.root(), Key::new(1)).unwrap();
        network
    }

    fn runs(&self) -> [usize; 3] {
        self.runs.each_ref().map(|runs| runs.swap(0, Ordering::Relaxed))
    }
}

impl Network for Counted {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let mut h = pass.blocks(x, self.blocks.iter().zip(&self.runs), |(block, runs), h, pass| {
            runs.fetch_add(usize::from(h.size()[0] > 1), Ordering::Relaxed); // a trace has one example
            Ok(block.forward(h, pass)?.tanh())
        })?;
        if self.in_place {
            h += 1.0;
        }
        let h = h + self.shift.value(pass)?;
        self.head.forward(&h, pass)
    }
}

fn outputs(network: &dyn Network, count: u64, batches: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut found = Vec::new();
    let keep = |_, outputs| {
        found.push(outputs);
        Ok(())
    };
    Draws::new(network, count, Key::new(2))?.outputs(batches, keep)?;
    Ok(found)
}

/// What stands before the first Bayesian layer runs once for all draws of a batch, and a draw is a whole forward pass.
#[test]
fn blocks_before_the_first_random_layer_run_once() {
    let cases = [("blocks.0", [10, 10, 10]), ("blocks.2", [2, 2, 10]), ("head", [2, 2, 2])];
    for (layer, expected) in cases {
        let store = store(Kind::Double);
        let network = Counted::with(layer, &store);
        let batches = [normal(Key::new(3), &[6, 4]), normal(Key::new(4), &[3, 4])];
        let found = outputs(&network, 5, &batches).unwrap();
        assert_eq!(network.runs(), expected, "{layer}");
        let whole = |k: u64| {
            let factors = fidgp::layer::Factors::of(&network.inducing(), fidgp::linalg::Check::Now).unwrap();
            let mut pass = Pass::draw(&network.inducing(), &factors, Mode::Eval, Key::new(2).at(k)).unwrap();
            network.forward(&batches[0], &mut pass).unwrap()
        };
        let of_first = found.iter().filter(|outputs| outputs.size()[0] == 6);
        for (k, outputs) in (0..).zip(of_first) {
            assert!(gap(&whole(k).detach(), outputs) < 1e-12, "{layer} {k}");
        }
    }
}

/// A network that overwrites what draws share is told so; no number is wrong in silence.
#[test]
fn what_draws_share_must_not_be_overwritten() {
    let store = store(Kind::Double);
    let network = Counted { in_place: true, ..Counted::with("head", &store) };
    let batch = [normal(Key::new(3), &[6, 4])];
    let error = outputs(&network, 2, &batch).unwrap_err().to_string();
    assert!(error.contains("in place"), "{error}");
    let first = Counted { in_place: true, ..Counted::with("blocks.0", &fidgp_store()) };
    assert_eq!(outputs(&first, 2, &batch).unwrap().len(), 2); // nothing is shared
}

fn fidgp_store() -> VarStore {
    store(Kind::Double)
}

#[test]
fn a_network_is_traced_before_it_has_numbers() {
    let mut network = Counted::new().unwrap();
    network.blocks[1].slot.set(inducing(&config())).unwrap();
    let layers = trace(&network, &[4]).unwrap();
    let names: Vec<_> = layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["blocks.0", "blocks.1", "blocks.2", "shift", "head"]);
    assert_eq!(layers.iter().map(fidgp::layer::LayerGeometry::macs).collect::<Vec<_>>(), [16, 16, 16, 0, 8]);
    assert_eq!(layers.iter().map(fidgp::layer::LayerGeometry::dense_parameters).sum::<i64>(), 3 * 20 + 4 + 10);
    assert_eq!(layers[3].operation, Operation::Parameter { numbers: 4 });
    assert!(layers[4].is_head && layers[1].is_random && layers[1].in_block && !layers[4].in_block);
    assert_eq!(blocks_before_randomness(&layers), 1);
    let error = network.forward(&Tensor::zeros([2, 4], (Kind::Float, Device::Cpu)), &mut Pass::plain(Mode::Eval));
    assert!(error.unwrap_err().to_string().contains("`init`"));
    assert!(trace(&network, &[5]).unwrap_err().to_string().contains("blocks.0"));
}

/// A convolution on tokens' images, a layer that is used twice, one that is never met, and one of training alone.
#[derive(Debug)]
struct Odd {
    conv: Conv2d,
    norm: LayerNorm,
    twice: Linear,
    aside: Option<Linear>,
    never: BatchNorm,
}

fidgp::layers!(Odd: conv, norm, twice, aside, never);

impl Network for Odd {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let tokens = self.conv.forward(x, pass)?.flatten(2, 3).transpose(1, 2);
        let h = self.norm.forward(&tokens, pass)?;
        let h = self.twice.forward(&h, pass)?;
        let h = self.twice.forward(&h, pass)?;
        let aux = pass.in_training(|pass| self.aside.as_ref().map(|aside| aside.forward(&h, pass)).transpose())?;
        Ok(aux.flatten().map_or(h.shallow_clone(), |aux| Tensor::cat(&[h, aux], -1)))
    }

    fn head(&self) -> Option<&str> {
        Some(self.twice.slot.name())
    }
}

fn odd() -> Odd {
    Odd {
        conv: Conv2d::new("conv", Conv2dConfig::same(3, 8, 4).stride(4).bias()).unwrap(),
        norm: LayerNorm::new("norm", 8).unwrap(),
        twice: Linear::new("twice", 8, 8, true).unwrap(),
        aside: Some(Linear::new("aside", 8, 2, true).unwrap()),
        never: BatchNorm::new("never", 8).unwrap(),
    }
}

#[test]
fn a_trace_counts_tokens_uses_and_what_is_never_met() {
    let layers = trace(&odd(), &[3, 32, 32]).unwrap();
    let of = |name: &str| layers.iter().find(|layer| layer.name == name).unwrap();
    let tokens = of("conv").output[0] * of("conv").output[1];
    assert_eq!(of("norm").output, [tokens, 1]);
    assert_eq!(of("twice").macs(), 2 * tokens * 64);
    assert_eq!((of("never").uses, of("never").macs(), of("never").buffers()), (0, 0, 16));
    assert!(of("aside").training_only && !of("twice").training_only);
    assert!(of("twice").is_head && !of("aside").is_head);
}

#[test]
fn layer_norm_has_mean_zero_and_variance_one() {
    let (store, x) = (store(Kind::Double), normal(Key::new(5), &[3, 7, 8]) * 4.0 + 2.0);
    let mut norm = LayerNorm::new("norm", 8).unwrap();
    init(&mut norm, &store.root(), Key::new(1)).unwrap();
    let y = norm.forward(&x, &mut Pass::plain(Mode::Train)).unwrap();
    let centred = &x - x.mean_dim(-1, true, None);
    let expected = &centred / (centred.square().mean_dim(-1, true, None) + 1e-5).sqrt();
    assert!(gap(&y.detach(), &expected) < 1e-12);
    assert!(norm.forward(&normal(Key::new(5), &[3, 7]), &mut Pass::plain(Mode::Train)).is_err());
}

/// Who makes a parameter says what it is.
#[test]
fn roles_are_said_where_parameters_are_made() {
    let store = VarStore::new(Device::Cpu);
    let mut network = odd();
    network.twice.slot.set(inducing(&config())).unwrap();
    init(&mut network, &(store.root() / "net"), Key::new(1)).unwrap();
    let own = Role::Decayed.of(&store.root()).zeros("own", &[2]);
    _ = store.root().zeros("free", &[2]);
    assert!(own.requires_grad());
    let mut found: Vec<_> = decayed(&store).into_iter().collect();
    found.sort();
    let layers =
        ["aside", "conv", "never", "norm"].map(|layer| [format!("net.{layer}.bias"), format!("net.{layer}.weight")]);
    let expected: Vec<_> = layers.into_iter().flatten().chain(["own".to_owned()]).collect();
    assert_eq!(found, expected);
    let all = roles(&store);
    for (name, role) in [
        ("net.twice.z_row", Role::Prior),
        ("net.twice.inducing_mean", Role::Posterior),
        ("net.twice._lamda", Role::Posterior),
        ("net.never.running_var", Role::Buffer),
        ("free", Role::Undecayed),
    ] {
        assert_eq!(all.get(name), Some(&role), "{name} of {:?}", all.keys());
    }
}

#[test]
fn names_are_given_once_and_numbers_too() {
    let store = VarStore::new(Device::Cpu);
    let mut same = [Linear::new("a.b", 2, 2, true).unwrap(), Linear::new("a.b", 2, 2, true).unwrap()];
    assert!(init(&mut same, &store.root(), Key::new(1)).unwrap_err().to_string().contains("`layer` = a.b"));
    let store = VarStore::new(Device::Cpu);
    let mut network = odd();
    init(&mut network, &(store.root() / "net"), Key::new(1)).unwrap();
    assert!(store.variables().contains_key("net.twice.weight"));
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&["net.twice"]));
    _ = network.forward(&Tensor::zeros([2, 3, 32, 32], (Kind::Float, Device::Cpu)), &mut pass).unwrap();
    assert!(pass.taps.feature("net.twice").is_some());
    let error = init(&mut network, &store.root(), Key::new(1)).unwrap_err().to_string();
    assert!(error.contains("numbers already"), "{error}");
    assert!(network.twice.slot.set(SlotConfig::Dense).is_err());
}
