//! A first config for data that somebody brings along.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fidgp_data::{Cells, Holds, ImageFolder, Sheet, Survey, array_folder};
use fidgp_onnx::Graph;
use tch::Device;
use toml::Value;

use crate::config::{self, DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::model::{Model, Signature};

/// Rows of a table that are trained on, tested on and calibrated with, at least.
const FEWEST_ROWS: usize = 30;
/// Rows with few different numbers that are taken as classes, at least.
const LABELLED_ROWS: usize = 50;
/// Classes differ much in size where one has so many times the rows of another.
const UNEVEN: usize = 5;
/// Optimiser steps that a starter asks for, about.
const STEPS: usize = 4000;
/// A q so narrow that the training finds the mode.
const NARROW: &str = "# narrow, so that the training finds the mode; the posterior around it is fitted afterwards\n\
                      init_lamda = 0.0005\nmax_lamda = 0.001\ninit_sd_u = 0.0005\nmax_sd_u = 0.001\n";
/// What predicts. Within the data it is no better than weight draws, between and beyond them it is (docs/understand/uncertainty.md).
const POSTERIOR: &str =
    "[posterior]\nkind = \"linearised\" # uncertainty that grows away from the data; \"flow\" draws weights\n";

/// A config and what was seen in the data.
#[derive(Debug)]
pub struct Starter {
    /// The config's text, with comments.
    pub text: String,
    /// What it is for, in words.
    pub said: String,
}

/// Looks at data and writes a config that trains on them as it stands, a network of the user's where one is given.
///
/// # Errors
/// When the data are of no known kind, broken, or too few, or the network does not take them.
pub fn starter(path: &Path, target: Option<&str>, network: Option<&Path>) -> Result<Starter> {
    let path = path.canonicalize().map_err(|error| LabError::file(path, &error))?;
    let refused = |why: &str| Err(LabError::config(path.display().to_string(), why));
    let found = match extension(&path).as_str() {
        _ if path.is_dir() && single_table(&path).is_some() => {
            table(&single_table(&path).unwrap_or_default(), target, network)?
        }
        _ if path.is_dir() => {
            if target.is_some() {
                return Err(LabError::config("--target", "is for tables; the class of a picture is its folder"));
            }
            pictures(&path, network)?
        }
        "onnx" => {
            return refused("is a network, not data: give the data first, and the network with --network FILE.onnx");
        }
        kind if TABLES.contains(&kind) => table(&path, target, network)?,
        "npz" => {
            return refused(
                "holds several arrays: save the table as one .npy [rows, columns], images as images.npy and labels.npy",
            );
        }
        "xls" | "xlsx" | "ods" => return refused("is a workbook: save the sheet as .csv"),
        _ => {
            return refused(
                "is nothing a config can be written for: give a table (.csv, .tsv, .txt, .parquet, .npy, .safetensors) or a folder of pictures",
            );
        }
    };
    config::parse(&found.text, &[])?;
    Ok(found)
}

/// Kinds of files that are tables.
const TABLES: [&str; 6] = ["csv", "tsv", "txt", "npy", "safetensors", "parquet"];

fn extension(path: &Path) -> String {
    path.extension().map(|end| end.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// The table in a folder that holds nothing else but perhaps words on it.
fn single_table(folder: &Path) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let is_table = |path: &&PathBuf| TABLES.contains(&extension(path).as_str()) && extension(path) != "txt";
    let tables: Vec<&PathBuf> = entries.iter().filter(is_table).collect();
    match tables[..] {
        [table] if !entries.iter().any(|path| path.is_dir()) => Some(table.clone()),
        _ => None,
    }
}

/// A network of the user's.
struct Own {
    path: PathBuf,
    /// `[height, width]` of its pictures, where it takes one size.
    side: Option<[i64; 2]>,
}

impl Own {
    fn open(file: &Path) -> Result<Self> {
        let path = file.canonicalize().map_err(|error| LabError::file(file, &error))?;
        if !config::is_graph(&path) {
            return Err(LabError::config("--network", format!("`{}` is no .onnx file", path.display())));
        }
        let graph =
            Graph::read(&path).map_err(|error| LabError::File { path: path.clone(), why: error.to_string() })?;
        let shape = graph.inputs.first().and_then(|input| input.shape.clone()).unwrap_or_default();
        let side = match shape[..] {
            [_, _, Some(height), Some(width)] => Some([height, width]),
            _ => None,
        };
        Ok(Self { path, side })
    }

    fn section(&self) -> String {
        format!("[network]\nkind = \"onnx\"\npath = {}\n", place(&self.path))
    }
}

/// Refuses a network that does not take the data.
fn check_network(config: &RunConfig, classes: Option<usize>) -> Result<()> {
    Model::init(config, &Signature::expected(config, classes)?, Device::Cpu).map(drop)
}

/// The name of a run after a file or folder.
fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-').to_owned();
    if name.is_empty() { "mine".to_owned() } else { name }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// A column as a config names it.
fn column(sheet: &Sheet, place: usize) -> String {
    if sheet.is_headed() { quoted(&sheet.names()[place]) } else { place.to_string() }
}

fn table(path: &Path, target: Option<&str>, network: Option<&Path>) -> Result<Starter> {
    let own = network.map(Own::open).transpose()?;
    let sheet = Sheet::open(path)?;
    let cells = sheet.cells(&(0..sheet.names().len()).collect::<Vec<_>>())?;
    let goal = match target {
        Some(name) => sheet.column(name)?,
        None => sheet.names().len().saturating_sub(1),
    };
    sheet.names().iter().try_for_each(|name| sheet.column(name).map(drop))?; // no two of one name
    if cells.rows() < FEWEST_ROWS {
        let why = format!("has {} rows; training, testing and calibrating need at least {FEWEST_ROWS}", cells.rows());
        return Err(LabError::config(path.display().to_string(), why));
    }
    let wanted = Survey::of(&cells, goal, 0..cells.rows());
    wanted.misread(&cells)?;
    let classes = match wanted.holds() {
        Some(Holds::Texts | Holds::Booleans) => true,
        Some(Holds::Numbers) => are_labels(&cells, goal),
        Some(Holds::Dates) | None => {
            let why = format!("`{}` holds no numbers and no classes; name the column to predict", wanted.name);
            return Err(LabError::config("--target", why));
        }
    };
    let (features, ignored) = columns(&cells, goal)?;
    if features.is_empty() {
        let why = "has no column that could be a feature beside the target";
        return Err(LabError::config(path.display().to_string(), why));
    }
    let mut left_out = String::new();
    for (place, why) in &ignored {
        let _ = writeln!(left_out, "    {}, # {why}", column(&sheet, *place));
    }
    let left_out = if left_out.is_empty() { String::new() } else { format!("ignore = [\n{left_out}]\n") };
    let rows = cells.rows();
    let batch = if rows < 2000 { 32 } else { 128 };
    let epochs = (STEPS * batch / rows).clamp(10, 200);
    let name = name(path);
    let likelihood = likelihood(&cells, goal, classes);
    let network = own.as_ref().map_or_else(
        || "[network]\nkind = \"mlp\"\nhidden = [50]\nactivation = \"relu\"\nbatch_norm = false\n".to_owned(),
        Own::section,
    );
    let text = format!(
        "# {kind} from a table of {rows} rows. Written by `fidgp init`; every key: docs/guide.md.\n\
         name = {name}\nmethod = \"fidgp\" # others: deterministic, ensemble, mc-dropout, mean-field, …\nseed = 1\n\n\
         # Features:\n{features}[data]\nset = \"table\"\npath = {path}\ntarget = {target}\n{left_out}\
         test_fraction = 0.1       # measured when the training is over\n\
         validation_fraction = 0.2 # set aside for `fidgp calibrate`\n\n\
         {network}\n\
         [inducing]\ninducing_rows = 50\ninducing_cols = 50\n\
         posterior = {{ family = \"flow\", flow = {{ kind = \"diagonal\" }} }}\n{NARROW}\n{POSTERIOR}\n{likelihood}\n\
         [train]\nepochs = {epochs}\nbatch_size = {batch}\noptimiser = {{ kind = \"adam\", learning_rate = 0.01 }}\n\
         schedule = {{ kind = \"cosine\" }}\nkl = {{ ml_epochs = 0, annealing_epochs = {annealing} }}\n\
         # small moves of Z, square here, turn all of W\n\
         groups = [{{ parameters = [\"*.z_row\", \"*.z_col\"], rate = 0.1 }}]\n\n[predict]\ndraws = 32\n",
        kind = if classes { "A class" } else { "A number" },
        name = quoted(&name),
        path = quoted(&path.display().to_string()),
        target = column(&sheet, goal),
        annealing = epochs / 4,
    );
    let config = config::parse(&text, &[])?;
    let mut of = "a number".to_owned();
    if let DataConfig::Table(table) = &config.data {
        let parts = table.read(Path::new(""), config.target_kind(), None)?; // what a training would refuse
        if classes {
            let different = parts.classes.len();
            if different * 2 > rows {
                let why =
                    format!("`{}` has {different} different values in {rows} rows, too many for classes", wanted.name);
                return Err(LabError::config("--target", why));
            }
            of = format!("a class of {different}");
        }
        if own.is_some() {
            check_network(&RunConfig { data: DataConfig::Table(parts.config), ..config }, Some(parts.classes.len()))?;
        }
    }
    let said = format!(
        "{rows} rows; predicts `{}`, {of}, from {} columns; {} left out",
        fidgp_files::shown(&wanted.name),
        features.lines().count(),
        ignored.len()
    );
    Ok(Starter { text, said })
}

/// Whether numbers are labels: two of them, or 0 … k or 1 … k without a gap, at most ten, in many rows.
fn are_labels(cells: &Cells, column: usize) -> bool {
    let mut values: Vec<f64> = (0..cells.rows()).filter_map(|row| cells.number(row, column)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let steps = || values.windows(2).all(|pair| (pair[1] - pair[0] - 1.0).abs() < f64::EPSILON);
    let starts = || values.first().is_some_and(|first| [0.0, 1.0].contains(first));
    cells.rows() >= LABELLED_ROWS && (values.len() == 2 || (3..=10).contains(&values.len()) && steps() && starts())
}

/// The likelihood of a config, and what else it could be.
fn likelihood(cells: &Cells, goal: usize, classes: bool) -> String {
    let survey = Survey::of_texts(cells, goal, 0..cells.rows());
    let different = survey.levels.len();
    if !classes {
        let other = if different <= 100 {
            "# For classes that are written as numbers: likelihood = { kind = \"categorical\" }, and no [posterior]\n"
        } else {
            ""
        };
        return format!(
            "{other}[likelihood]\nkind = \"gaussian\"\n\
             # one noise level for all rows; {{ kind = \"predicted\" }} learns one for each, which needs more rows\n\
             noise = {{ kind = \"learnt\", init_sd = 0.3 }}\n"
        );
    }
    let mut text = "[likelihood]\nkind = \"categorical\"\n".to_owned();
    if (0..cells.rows()).all(|row| cells.number(row, goal).is_some()) {
        let note = format!(
            "# The target holds {different} different numbers, taken as classes. To predict the number itself:\n\
             # likelihood = {{ kind = \"gaussian\", noise = {{ kind = \"learnt\", init_sd = 0.3 }} }}\n"
        );
        text.insert_str(0, &note);
    }
    let counts = survey.levels.values();
    let (least, most) = (counts.clone().min().copied().unwrap_or(0), counts.max().copied().unwrap_or(0));
    if least * UNEVEN < most {
        let _ = writeln!(
            text,
            "# the rarest class has {least} rows, the most frequent {most}; to make all count alike:\n\
             # class_weights = \"balanced\""
        );
    }
    text
}

/// A comment for every feature, and the columns that are left out with the reason.
fn columns(cells: &Cells, goal: usize) -> Result<(String, Vec<(usize, String)>)> {
    let (mut ignored, mut features) = (Vec::new(), String::new());
    for place in (0..cells.names().len()).filter(|&place| place != goal) {
        let survey = Survey::of(cells, place, 0..cells.rows());
        let counts = || (1..cells.rows()).all(|row| steps_by_one(cells, place, row));
        let why = match (survey.usable(cells), survey.holds()) {
            (Err(error), Some(Holds::Numbers)) => return Err(error.into()), // a slip of the pen, most likely
            (Err(error), _) if survey.misread(cells).is_err() => return Err(error.into()),
            (Err(_), None) => Some("no value in any row".to_owned()),
            (Err(_), _) => Some(format!("{} different texts", survey.levels.len())),
            (Ok(Holds::Numbers), _) if counts() => Some("numbers the rows".to_owned()),
            (Ok(holds), _) => {
                let gaps = if survey.missing > 0 { format!(", {} missing", survey.missing) } else { String::new() };
                let what = match holds {
                    Holds::Numbers => "numbers".to_owned(),
                    Holds::Booleans => "yes or no".to_owned(),
                    Holds::Dates => "dates".to_owned(),
                    Holds::Texts => {
                        let (all, kept) = (survey.levels.len(), survey.kept_levels().len());
                        let rare =
                            if kept < all { format!(", of which the {kept} most frequent") } else { String::new() };
                        format!("{all} texts{rare}")
                    }
                };
                let _ = writeln!(features, "#   {}: {what}{gaps}", fidgp_files::shown(&survey.name));
                None
            }
        };
        ignored.extend(why.map(|why| (place, why)));
    }
    Ok((features, ignored))
}

/// Whether a number is one more than that of the row before.
fn steps_by_one(cells: &Cells, place: usize, row: usize) -> bool {
    let step = cells.number(row, place).zip(cells.number(row - 1, place)).map(|(now, before)| now - before);
    step.is_some_and(|step| (step - 1.0).abs() < f64::EPSILON)
}

/// Pictures in one folder for each class.
struct Classed {
    root: PathBuf,
    train: ImageFolder,
    /// How many lie apart for testing; none where a part is to be held out.
    tested: Option<usize>,
}

impl Classed {
    /// In `train` and `val`, in `train` alone, or in the folder itself.
    fn find(path: &Path) -> Result<Self> {
        let [train, test] = ["train", "val"].map(|part| path.join(part));
        match (train.is_dir(), test.is_dir()) {
            (true, true) => {
                let (train, test) = (ImageFolder::open(&train)?, ImageFolder::open(&test)?);
                Ok(Self { root: path.to_owned(), train, tested: Some(test.rows()) })
            }
            (true, false) => Ok(Self { train: ImageFolder::open(&train)?, root: train, tested: None }),
            (false, _) => {
                let classes = ImageFolder::open(path).map_err(|error| {
                    let why = format!(
                        "has no train/ and val/ with a folder of pictures for each class inside, is no such folder itself \
                         ({error}), and does not hold a single table"
                    );
                    LabError::config(path.display().to_string(), why)
                })?;
                Ok(Self { root: path.to_owned(), train: classes, tested: None })
            }
        }
    }
}

fn pictures(path: &Path, network: Option<&Path>) -> Result<Starter> {
    let own = network.map(Own::open).transpose()?;
    let refused = |why: &str| Err(LabError::config(path.display().to_string(), why));
    let (data, count, classes, side) = if array_folder::is_there(path) {
        let [train, test] = array_folder::both(path, 0)?;
        let ([channels, height, width], classes) = (train.size(), train.class_names().len());
        if height != width || !matches!(channels, 1 | 3) {
            return refused("holds images that are not square with 1 or 3 channels");
        }
        let said = format!("{} training and {} test images of {height} pixels", train.rows(), test.rows());
        (format!("set = \"arrays\"\npath = {}\n", place(path)), (train.rows(), said), classes, height)
    } else {
        let Classed { root, train, tested } = Classed::find(path)?;
        let [width, height] = train.decode(0)?.size();
        let usual = if width.min(height) <= 40 { 32 } else { 64 };
        let side = match own.as_ref().and_then(|own| own.side) {
            Some([height, width]) if height != width => {
                let why = format!("takes pictures of {height} × {width}; only square ones are cut");
                return Err(LabError::config("--network", why));
            }
            Some([side, _]) => side as u32,
            None => usual,
        };
        let data = format!(
            "set = \"folder\"\npath = {}\n{}resize = {} # evaluation: the shorter side\ncrop = {side} # what the network sees\n",
            place(&root),
            if tested.is_none() { "test_fraction = 0.1 # measured when the training is over\n" } else { "" },
            side + side / 8
        );
        let said = match tested {
            Some(tested) => format!("{} training and {tested} test pictures", train.rows()),
            None => format!("{} pictures, a tenth of which is tested on", train.rows()),
        };
        (data, (train.rows(), said), train.class_names().len(), side as usize)
    };
    let (rows, said) = count;
    if classes < 2 || rows < FEWEST_ROWS {
        let why = format!("has {rows} training pictures of {classes} classes; at least {FEWEST_ROWS} of 2 are needed");
        return Err(LabError::config(path.display().to_string(), why));
    }
    let batch = (rows / 8).clamp(4, 64);
    let epochs = (STEPS * batch / rows).clamp(10, 100);
    let network = own.as_ref().map_or_else(
        || {
            format!(
                "# A small network for pictures of {side} pixels, trained from a random start. With trained weights, such as\n\
                 # torchvision's: network = {{ kind = \"resnet\", depth = 18, stem = \"imagenet\" }}, start.weights, crop = 224.\n\
                 [network]\nkind = \"resnet-cifar\"\ndepth = 20\n"
            )
        },
        |own| format!("{}\n# it begins with its own numbers; a head with other outputs is made anew\n[start]\nweights = {}\n", own.section(), place(&own.path)),
    );
    let text = format!(
        "# A class for pictures: {said}, {classes} classes. Written by `fidgp init`; every key: docs/guide.md.\n\
         # `fidgp data check` decodes every picture and names the damaged ones.\n\
         name = {name}\nmethod = \"fidgp\" # others: deterministic, ensemble, mc-dropout, sngp, …\nseed = 1\n\n\
         [data]\n{data}validation_fraction = 0.2 # set aside for `fidgp calibrate`\n\n\
         {network}\n\
         [inducing]\ninducing_rows = 48\ninducing_cols = 48\n\
         posterior = {{ family = \"flow\", flow = {{ kind = \"diagonal\" }} }}\ninit_lamda = 0.001\nmax_lamda = 0.03\n\
         max_sd_u = 0.1\n\n{POSTERIOR}\n[likelihood]\nkind = \"categorical\"\n\n\
         [train]\nepochs = {epochs}\nbatch_size = {batch}\noptimiser = {{ kind = \"adam\", learning_rate = 0.001 }}\n\
         schedule = {{ kind = \"cosine\" }}\nkl = {{ ml_epochs = 0.0, annealing_epochs = {annealing} }}\n\n\
         [predict]\ndraws = 8\n",
        name = quoted(&name(path)),
        annealing = epochs / 4,
    );
    if own.is_some() {
        let config = config::parse(&text, &[])?;
        let arrays = array_folder::is_there(path);
        if !arrays {
            check_network(&config, Some(classes))?;
        }
    }
    Ok(Starter { text, said: format!("{said}, {classes} classes") })
}

fn place(path: &Path) -> String {
    quoted(&path.display().to_string())
}
