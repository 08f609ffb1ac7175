//! The models that are served, by name. A model whose folder has changed is replaced while requests to the old one are
//! answered by the old one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use crate::limits::Limits;
use crate::metrics::{Metrics, ModelMetrics};
use crate::model::Model;
use crate::queue::Queue;
use crate::turns::Turns;

/// What is said to those who ask; the log says more.
const CANNOT_BE_OPENED: &str = "its folder cannot be opened as it is now; the server's log says why";

/// Opens a model folder.
pub type Open = dyn Fn(&Path) -> Result<Box<dyn Model>, String> + Send + Sync;

/// A model that is served.
#[derive(Debug)]
pub struct Served {
    /// How often it was opened, from 1.
    pub version: String,
    /// Where requests wait.
    pub queue: Queue,
    /// What is counted.
    pub metrics: Arc<ModelMetrics>,
}

/// A name, its folder, and the model, if it could be opened.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    /// What the folder looked like when it was opened last.
    seen: Stamp,
    opened: u64,
    served: Option<Arc<Served>>,
    /// How often it was unloaded: what was being opened then is not served.
    unloaded: u64,
    /// Why it is not served, in words for those who ask: no paths, no errors.
    reason: &'static str,
}

/// A line of `v2/repository/index`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// READY or UNAVAILABLE.
    pub state: &'static str,
    /// Why it is unavailable, or what is wrong with its folder.
    pub reason: &'static str,
}

/// All models of a server.
pub struct Repository {
    places: RwLock<BTreeMap<String, Place>>,
    open: Box<Open>,
    limits: Limits,
    /// One model is opened at a time.
    opening: Mutex<()>,
    turns: Arc<Turns>,
    /// Of all models.
    pub metrics: Metrics,
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Repository {
    /// Opens every folder under its name.
    ///
    /// # Errors
    /// When a name is given twice, or a folder cannot be opened.
    pub fn open(folders: Vec<(String, PathBuf)>, limits: Limits, open: Box<Open>) -> Result<Self, String> {
        let turns = Arc::new(Turns::new(limits.computing));
        let (places, opening, metrics) = (RwLock::default(), Mutex::default(), Metrics::default());
        let repository = Self { places, open, limits, opening, turns, metrics };
        for (name, folder) in folders {
            let seen = Stamp::default();
            let place = Place { seen, folder, opened: 0, served: None, unloaded: 0, reason: "not loaded" };
            if repository.write().insert(name.clone(), place).is_some() {
                return Err(format!("two models are called `{name}`; give one another name with NAME=FOLDER"));
            }
            repository.load(&name)?;
        }
        Ok(repository)
    }

    /// Opens a model, again if it is served already. While it is opened the old one goes on.
    ///
    /// # Errors
    /// When there is no such name or its folder cannot be opened; then the old one stays.
    pub fn load(&self, name: &str) -> Result<(), String> {
        let _turn = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let (folder, number, unloaded) = {
            let places = self.read();
            let place = places.get(name).ok_or_else(|| format!("no model is called `{name}`"))?;
            (place.folder.clone(), place.opened + 1, place.unloaded)
        };
        let seen = Stamp::of(&folder);
        let version = number.to_string();
        let opened = (self.open)(&folder).and_then(|model| {
            let metrics = self.metrics.model(name, &version);
            let queue = Queue::start(name, model, &self.limits, metrics.clone(), self.turns.clone());
            Ok(Arc::new(Served { version, queue: queue.map_err(|error| error.to_string())?, metrics }))
        });
        let mut places = self.write();
        let place = places.get_mut(name).ok_or_else(|| format!("no model is called `{name}`"))?;
        place.seen = seen;
        match opened {
            Ok(_) if place.unloaded != unloaded => Err(format!("`{name}` was unloaded while it was opened")),
            Ok(served) => {
                (place.served, place.opened, place.reason) = (Some(served), number, "");
                Ok(())
            }
            Err(why) => {
                place.reason = CANNOT_BE_OPENED;
                Err(why)
            }
        }
    }

    /// Stops serving a model; what waits for it is answered.
    ///
    /// # Errors
    /// When there is no such name.
    pub fn unload(&self, name: &str) -> Result<(), String> {
        let mut places = self.write();
        let place = places.get_mut(name).ok_or_else(|| format!("no model is called `{name}`"))?;
        (place.served, place.reason) = (None, "unloaded");
        place.unloaded += 1;
        Ok(())
    }

    /// Opens again what has changed on disk since; returns what went wrong, by name.
    pub fn refresh(&self) -> Vec<(String, Result<(), String>)> {
        let changed: Vec<String> = {
            let places = self.read();
            let changed =
                places.iter().filter(|(_, place)| place.served.is_some() && Stamp::of(&place.folder) != place.seen);
            changed.map(|(name, _)| name.clone()).collect()
        };
        changed.into_iter().map(|name| (name.clone(), self.load(&name))).collect()
    }

    /// A model by its name.
    pub fn get(&self, name: &str) -> Option<Arc<Served>> {
        self.read().get(name).and_then(|place| place.served.clone())
    }

    /// The model, where only one is served.
    pub fn only(&self) -> Option<(String, Arc<Served>)> {
        let places = self.read();
        let mut served = places.iter().filter_map(|(name, place)| Some((name.clone(), place.served.clone()?)));
        let first = served.next()?;
        served.next().is_none().then_some(first)
    }

    /// Every name with its state.
    pub fn list(&self) -> Vec<Listed> {
        let line = |(name, place): (&String, &Place)| Listed {
            name: name.clone(),
            version: place.opened.to_string(),
            state: if place.served.is_some() { "READY" } else { "UNAVAILABLE" },
            reason: place.reason,
        };
        self.read().iter().map(line).collect()
    }

    /// Inputs that wait, by model.
    pub fn waiting(&self) -> Vec<(String, usize)> {
        let waiting = |(name, place): (&String, &Place)| Some((name.clone(), place.served.as_ref()?.queue.waiting()));
        self.read().iter().filter_map(waiting).collect()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, Place>> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Place>> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names, sizes and times of the files that a model may be read from: another stamp is another model. A run in training writes
/// its weights into `checkpoint/`; its log and its pages are no part of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stamp(Vec<(PathBuf, u64, Option<SystemTime>)>);

/// Endings of files that no model is read from.
const NO_PART: [&str; 5] = ["jsonl", "html", "svg", "png", "csv"];

impl Stamp {
    fn of(folder: &Path) -> Self {
        let mut files: Vec<_> =
            [folder.to_owned(), folder.join("checkpoint")].iter().flat_map(|at| files(at)).collect();
        files.sort();
        Self(files)
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let counts = |path: &Path| !path.extension().is_some_and(|ending| NO_PART.iter().any(|no_part| ending == *no_part));
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let stamp = |entry: std::fs::DirEntry| {
        let found = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((entry.path(), found.len(), found.modified().ok()))
    };
    entries.filter(|entry| counts(&entry.path())).filter_map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::model::{Item, ModelError, Options, Outputs, Signature, Takes};
    use crate::queue::Answers;

    struct Silent;

    impl Model for Silent {
        fn signature(&self) -> Signature {
            let (takes, gives) = (Takes::Pictures { size: None }, Outputs::Pixels(Vec::new()));
            Signature { takes, gives, draws: 8, levels: Vec::new(), scores_ood: false, decides: false }
        }

        fn predict(&mut self, _: &[Item], _: &Options) -> Result<Answers, ModelError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn weights_make_another_model_and_logs_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("checkpoint")).unwrap();
        write("run.toml", "a");
        let first = Stamp::of(folder.path());
        write("metrics.jsonl", "{}");
        write("report.html", "page");
        assert_eq!(Stamp::of(folder.path()), first);
        write("checkpoint/last.safetensors", "weights");
        let second = Stamp::of(folder.path());
        assert_ne!(second, first);
        write("temperature.json", "{}");
        assert_ne!(Stamp::of(folder.path()), second);
    }

    /// Who unloads a model while its folder is opened again has the last word.
    #[test]
    fn what_is_unloaded_while_it_is_opened_stays_unloaded() {
        let (begun, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let may_go = Mutex::new(may_go);
        let open = move |_: &Path| -> Result<Box<dyn Model>, String> {
            begun.send(()).map_err(|error| error.to_string())?;
            may_go.lock().unwrap().recv().map_err(|error| error.to_string())?;
            Ok(Box::new(Silent))
        };
        go.send(()).unwrap(); // the first time it need not wait
        let folders = vec![("m".to_owned(), PathBuf::from("nowhere"))];
        let repository = Repository::open(folders, Limits::default(), Box::new(open)).unwrap();
        has_begun.recv().unwrap();
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| repository.load("m"));
            has_begun.recv().unwrap();
            repository.unload("m").unwrap();
            go.send(()).unwrap();
            assert!(loading.join().unwrap().unwrap_err().contains("unloaded while"));
        });
        assert!(repository.get("m").is_none());
        assert_eq!(repository.list()[0].reason, "unloaded");
        go.send(()).unwrap();
        repository.load("m").unwrap();
        assert!(repository.get("m").is_some(), "it can be loaded again");
    }
}
