//! Files of other programs, whole, damaged and misnamed. `fixtures/make_checkpoints.py` wrote the PyTorch files.

use std::path::{Path, PathBuf};

use fidgp::Key;
use fidgp_zoo::{Error, FcnConfig, ImportMode, LayerPlan, MlpConfig, ResnetConfig, import, import_tensors, weights};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn values(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.flatten(0, -1)).unwrap()
}

/// An MLP with the two layers `fc1 [2, 3]` and `fc2 [1, 2]`.
fn small() -> VarStore {
    let store = VarStore::new(Device::Cpu);
    let config = MlpConfig { inputs: 3, hidden: vec![2], outputs: 1, ..MlpConfig::default() };
    config.init(&store.root(), &LayerPlan::dense(), Key::new(0)).unwrap();
    store
}

#[test]
fn both_layouts_of_pytorch_give_the_same_tensors() {
    for file in ["zip.pt", "legacy.pth"] {
        let tensors = weights::read(&fixture(file)).unwrap();
        let names: Vec<_> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["module.fc1.weight", "module.fc1.bias", "module.bn1.num_batches_tracked"], "{file}");
        assert_eq!(tensors[0].1.size(), [2, 3]);
        assert_eq!(values(&tensors[0].1), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0], "{file}: strides are honoured");
        assert_eq!(values(&tensors[1].1), [1.0, 2.0], "{file}: the offset is honoured");
        assert_eq!(tensors[2].1.int64_value(&[]), 7);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused_and_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.pt");
    for file in ["zip.pt", "legacy.pth"] {
        let bytes = std::fs::read(fixture(file)).unwrap();
        for length in (0..bytes.len()).step_by(7) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let error = weights::read(&path).unwrap_err().to_string();
            assert!(error.contains("cut.pt"), "{error}");
        }
    }
}

#[test]
fn a_damaged_byte_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.pt");
    for file in ["zip.pt", "legacy.pth"] {
        let bytes = std::fs::read(fixture(file)).unwrap();
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x55;
            std::fs::write(&path, &damaged).unwrap();
            _ = weights::read(&path);
        }
    }
}

#[test]
fn what_is_no_weight_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("readme.pt");
    std::fs::write(&path, "hello").unwrap();
    assert!(weights::read(&path).unwrap_err().to_string().contains("neither safetensors nor a PyTorch file"));
    std::fs::write(&path, b"\x80\x04]\x94(K\x01K\x02e.").unwrap(); // pickle.dumps([1, 2], protocol=4), without its frame
    let said = weights::read(&path).unwrap_err().to_string();
    assert!(said.contains("not one that torch.save has written"), "{said}");
    assert!(weights::read(&folder.path().join("absent.pt")).unwrap_err().to_string().contains("absent.pt"));
}

#[test]
fn prefixes_are_stripped_and_the_report_lists_everything() {
    let store = small();
    let report = import(&store, &fixture("zip.pt"), ImportMode::Partial).unwrap();
    assert_eq!(report.renamed[0], ("module.fc1.bias".to_owned(), "fc1.bias".to_owned()));
    assert_eq!(report.missing, ["fc2.bias", "fc2.weight"]);
    assert!(report.matched.is_empty() && report.unexpected.is_empty() && report.shape_mismatch.is_empty());
    assert_eq!(values(&store.variables()["fc1.bias"]), [1.0, 2.0]);
    let table = report.to_string();
    assert!(table.contains("missing          2  fc2.bias, fc2.weight"), "{table}");
}

#[test]
fn a_failed_import_changes_nothing() {
    let store = small();
    let before: Vec<_> = store.variables().into_iter().map(|(name, value)| (name, value.copy())).collect();
    let ones = |shape: &[i64]| Tensor::ones(shape, (Kind::Float, Device::Cpu));
    let mut tensors = vec![("fc1.weight".to_owned(), ones(&[2, 3])), ("fc2.weight".to_owned(), ones(&[9, 2]))];
    tensors.push(("other".to_owned(), ones(&[1])));
    let error = import_tensors(&store, tensors, ImportMode::Whole).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("nothing was changed") && text.contains("fc2.weight [9, 2] in the file, [1, 2] here"),
        "{text}"
    );
    let Error::Import(report) = error else { panic!("{error}") };
    assert_eq!(report.unexpected, ["other"]);
    for (name, value) in before {
        assert_eq!(store.variables()[&name], value, "{name}");
    }
}

#[test]
fn a_file_that_shares_no_name_is_refused_even_in_part() {
    let other = vec![("encoder.weight".to_owned(), Tensor::ones([1], (Kind::Float, Device::Cpu)))];
    assert!(import_tensors(&small(), other, ImportMode::Partial).is_err());
}

/// A parameter of no layer, such as a class token, has no name of its own in a network that is built of a graph.
#[test]
fn a_parameter_of_no_layer_is_found() {
    let store = VarStore::new(Device::Cpu);
    let token = store.root().sub("token").zeros("value", &[2]);
    let tensors = vec![("token".to_owned(), Tensor::ones([2], (Kind::Float, Device::Cpu)))];
    import_tensors(&store, tensors, ImportMode::Whole).unwrap();
    assert_eq!(values(&token), [1.0, 1.0]);
}

#[test]
fn a_network_comes_back_from_safetensors_under_other_common_names() {
    let config = ResnetConfig { width: 2, classes: 3, ..ResnetConfig::default() };
    let stores = [0, 1].map(|seed| {
        let store = VarStore::new(Device::Cpu);
        config.init(&store.root(), &LayerPlan::dense(), Key::new(seed)).unwrap();
        store
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let rename = |name: &str| format!("module.{}", name.replace("downsample.", "shortcut.").replace("fc.", "linear."));
    let named: Vec<_> = stores[0].variables().into_iter().map(|(name, value)| (rename(&name), value)).collect();
    Tensor::write_safetensors(&named, &path).unwrap();
    let report = import(&stores[1], &path, ImportMode::Whole).unwrap();
    assert_eq!(report.found(), stores[0].variables().len());
    let copied = stores[1].variables();
    assert!(stores[0].variables().iter().all(|(name, value)| copied[name] == *value));
}

/// A classifier's file, under torchvision's names, for the backbone of a segmentation network.
#[test]
fn a_classifier_becomes_a_backbone() {
    let classifier = VarStore::new(Device::Cpu);
    let config = ResnetConfig { width: 4, classes: 7, ..ResnetConfig::imagenet() };
    config.init(&classifier.root(), &LayerPlan::dense(), Key::new(3)).unwrap();
    let segmenter = VarStore::new(Device::Cpu);
    let config = FcnConfig { depth: config.depth, width: 4, outputs: Some(3), aux_outputs: Some(3), channels: 3 };
    config.init(&segmenter.root(), &LayerPlan::dense(), Key::new(4)).unwrap();
    let tensors = || classifier.variables().into_iter().map(|(name, tensor)| (format!("module.{name}"), tensor));
    let report =
        import_tensors(&segmenter, tensors().collect(), ImportMode::Backbone { head: "classifier.4" }).unwrap();
    let mut unexpected = report.unexpected.clone();
    unexpected.sort();
    assert_eq!(unexpected, ["module.fc.bias", "module.fc.weight"]);
    let variables = segmenter.variables();
    for (name, tensor) in classifier.variables().iter().filter(|(name, _)| !name.starts_with("fc.")) {
        assert_eq!(variables[&format!("backbone.{name}")], *tensor, "{name}");
    }
    assert!(report.missing.iter().all(|name| name.contains("classifier.")), "{:?}", report.missing);
    // one tensor of the backbone is missing: nothing is taken
    let cut: Vec<_> = tensors().filter(|(name, _)| name != "module.layer2.0.conv1.weight").collect();
    let error = import_tensors(&segmenter, cut, ImportMode::Backbone { head: "classifier.4" }).unwrap_err().to_string();
    assert!(error.contains("backbone.layer2.0.conv1.weight"), "{error}");
}

#[test]
fn a_safetensors_file_cut_anywhere_says_how_much_is_there_and_how_much_should_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.safetensors");
    Tensor::write_safetensors(&[("fc1.weight", Tensor::zeros([2, 3], (Kind::Float, Device::Cpu)))], &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    let said = weights::read(&path).unwrap_err().to_string();
    let numbers = format!("it has {} bytes, its header promises {}", whole.len() - 5, whole.len());
    assert!(said.contains("cut.safetensors") && said.contains(&numbers), "{said}");
    std::fs::write(&path, &whole[..20]).unwrap();
    assert!(weights::read(&path).unwrap_err().to_string().contains("it has 20 bytes, its header promises at least "));
}

#[test]
fn layers_the_network_does_not_have_are_told_from_single_tensors() {
    let zeros = |size: &[i64]| Tensor::zeros(size, (Kind::Float, Device::Cpu));
    let own = [("fc1.weight", vec![2, 3]), ("fc1.bias", vec![2]), ("fc2.weight", vec![1, 2]), ("fc2.bias", vec![1])];
    let foreign = [("fc1.scale", vec![2]), ("fc3.weight", vec![1, 1]), ("fc3.bias", vec![1])];
    let tensors = own.into_iter().chain(foreign).map(|(name, size)| (name.to_owned(), zeros(&size))).collect();
    let report = import_tensors(&small(), tensors, ImportMode::Whole).unwrap();
    assert_eq!(report.unused_layers(), ["fc3"]);
    assert_eq!(report.line(), "4 tensors matched, 0 renamed, 0 missing, 3 unused");
}
