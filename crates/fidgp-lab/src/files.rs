//! The names of what lies in the folders of runs and models; what a record is called says `record`.

/// A run: its resolved config.
pub const CONFIG_FILE: &str = "run.toml";
/// A run: the command that began it.
pub const COMMAND_FILE: &str = "command.txt";
/// A run: the names of its classes.
pub const CLASSES_FILE: &str = "classes.json";
/// A run: which examples it is trained on.
pub const TRAINED_ON_FILE: &str = "trained-on.json";
/// A run: how rows of a table become inputs of its network.
pub const VIEW_FILE: &str = "table.json";
/// A run: the temperature that was fitted to it.
pub const TEMPERATURE_FILE: &str = "temperature.json";
/// A run: what `compare` measured of it with a temperature.
pub const TEMPERED_FILE: &str = "tempered.json";
/// A run and a model: what its linearised posterior is.
pub const POSTERIOR_FILE: &str = "posterior.json";
/// A run and a model: the tensors of its linearised posterior.
pub const POSTERIOR_TENSORS_FILE: &str = "posterior.safetensors";
/// A run and a model: BatchNorm statistics of every draw's own.
pub const NORMS_FILE: &str = "norms.safetensors";
/// A run: what `compare` measured of it out of distribution.
pub const OOD_FOLDER: &str = "ood";
/// A run and a model: what `fidgp eval --corrupt` measured.
pub const CORRUPTIONS_FOLDER: &str = "corruptions";
/// A run and a model: what `fidgp ood` keeps of the ID training images.
pub const STATISTICS_FILE: &str = "ood-statistics.safetensors";
/// A model: what to build, and the digests of the other parts.
pub const MODEL_CONFIG_FILE: &str = "config.json";
/// A model: size and normalisation of its inputs.
pub const PREPROCESSOR_FILE: &str = "preprocessor_config.json";
/// A model: its parameters.
pub const WEIGHTS_FILE: &str = "model.safetensors";
/// A run and a model: the graph of a network of another program.
pub const NETWORK_FILE: &str = "network.onnx";
/// A model: its card.
pub const CARD_FILE: &str = "README.md";
