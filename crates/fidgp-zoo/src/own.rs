//! How kinds of networks are registered: those of an enum, and beside them networks of one's own.

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::sync::{PoisonError, RwLock};

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::ser::{Error as _, SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::{Architecture, Error, Result};

/// Registers kinds of networks: an enum with one line for each, whose `kind` in a config is its name in kebab-case. Beside them
/// it holds networks of one's own, which `register` adds while the program runs.
#[macro_export]
macro_rules! networks {
    ($(#[$about:meta])* $visibility:vis enum $name:ident { $($(#[$what:meta])* $kind:ident($config:ty)),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(rename_all = "kebab-case", tag = "kind", remote = "Self")]
        $visibility enum $name {
            $($(#[$what])* $kind($config),)*
            /// A network of one's own.
            #[serde(skip)]
            Own($crate::own::Own),
        }

        #[allow(dead_code, reason = "not every program has networks of its own")]
        impl $name {
            /// Adds a network of one's own to those that a config can name, for this process.
            ///
            /// # Errors
            /// When there is one of this name, or the type has another name.
            $visibility fn register<A>(name: &'static str) -> $crate::Result<()>
            where
                A: $crate::Architecture + Clone + ::serde::Serialize + ::serde::de::DeserializeOwned,
                A: Send + Sync + 'static,
            {
                $crate::own::register::<A>(name, &[$(stringify!($kind)),*])
            }

            /// A network of one's own, of a registered type.
            ///
            /// # Errors
            /// When nobody has registered it.
            $visibility fn own<A>(config: A) -> $crate::Result<Self>
            where
                A: $crate::Architecture + Clone + ::serde::Serialize + Send + Sync + 'static,
            {
                $crate::own::Own::new(config).map(Self::Own)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                $crate::own::read(deserializer, Self::deserialize, Self::Own)
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::std::result::Result<S::Ok, S::Error> {
                match self {
                    Self::Own(own) => ::serde::Serialize::serialize(own, serializer),
                    ours => Self::serialize(ours, serializer),
                }
            }
        }

        impl ::std::ops::Deref for $name {
            type Target = dyn $crate::Architecture;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$kind(config) => config,)*
                    Self::Own(own) => own.architecture(),
                }
            }
        }

        impl ::std::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Self::$kind(config) => config,)*
                    Self::Own(own) => own.architecture_mut(),
                }
            }
        }
    };
}

/// A network that a program has registered, as a config has it.
#[derive(Debug)]
pub struct Own {
    kind: Kind,
    config: Box<dyn OwnArchitecture>,
}

/// What a config of one's own must be: an [`Architecture`] that can be read, written and copied.
trait OwnArchitecture: Architecture + Any + Send + Sync {
    fn copy(&self) -> Box<dyn OwnArchitecture>;
    fn table(&self) -> Result<Table, toml::ser::Error>;
}

impl<A: Architecture + Clone + Serialize + Send + Sync + 'static> OwnArchitecture for A {
    fn copy(&self) -> Box<dyn OwnArchitecture> {
        Box::new(self.clone())
    }

    fn table(&self) -> Result<Table, toml::ser::Error> {
        Table::try_from(self)
    }
}

/// A kind, its type, and how its other keys become a config.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    of: TypeId,
    read: fn(Table) -> Result<Box<dyn OwnArchitecture>, toml::de::Error>,
}

static REGISTERED: RwLock<Vec<Kind>> = RwLock::new(Vec::new());

fn registered(wanted: impl Fn(&Kind) -> bool) -> Option<Kind> {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner).iter().copied().find(wanted)
}

/// Adds a kind beside those of an enum, for this process; [`networks!`](crate::networks) calls it.
///
/// # Errors
/// When there is one of this name, or the type has another name.
pub fn register<A>(name: &'static str, ours: &[&str]) -> Result<()>
where
    A: Architecture + Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let is_ours = ours.iter().any(|ours| kebab(ours) == name);
    let of = TypeId::of::<A>();
    if is_ours || registered(|kind| kind.name == name || kind.of == of).is_some() {
        return Err(Error::setting("network.kind", name, "is there already; give another name to another type"));
    }
    let read = |table: Table| Ok(Box::new(Value::Table(table).try_into::<A>()?) as Box<dyn OwnArchitecture>);
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner).push(Kind { name, of, read });
    Ok(())
}

/// Reads a network: one that is registered, or one of ours.
///
/// # Errors
/// When a key is not known, or a value of the wrong type.
pub fn read<'de, D: Deserializer<'de>, N>(
    deserializer: D,
    ours: impl FnOnce(Value) -> Result<N, toml::de::Error>,
    own: impl FnOnce(Own) -> N,
) -> Result<N, D::Error> {
    let mut table = Table::deserialize(deserializer)?;
    let named = table.get("kind").and_then(Value::as_str).map(str::to_owned);
    let kind = named.and_then(|name| registered(|kind| kind.name == name));
    let network = match kind {
        Some(kind) => {
            table.remove("kind");
            (kind.read)(table).map(|config| own(Own { kind, config }))
        }
        None => ours(Value::Table(table)),
    };
    network.map_err(|error| D::Error::custom(with_registered(error.message().trim())))
}

/// The message, which names our kinds, with those that are registered.
fn with_registered(message: &str) -> String {
    let all = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let own = if message.starts_with("unknown variant") { all.as_slice() } else { &[] };
    own.iter().fold(message.to_owned(), |text, kind| format!("{text}, `{}`", kind.name))
}

/// A variant's name as a config has it: `resnet-cifar`.
fn kebab(variant: &str) -> String {
    let letters = variant.char_indices().flat_map(|(at, letter)| {
        let dash = (at > 0 && letter.is_uppercase()).then_some('-');
        dash.into_iter().chain(letter.to_lowercase())
    });
    letters.collect()
}

impl Own {
    /// A network of a registered type.
    ///
    /// # Errors
    /// When nobody has registered it: run folders and models could not be read again.
    pub fn new<A: Architecture + Clone + Serialize + Send + Sync + 'static>(config: A) -> Result<Self> {
        let advice =
            "is not registered: call `NetworkConfig::register` first, so that what is written can be read again";
        let kind = registered(|kind| kind.of == TypeId::of::<A>());
        let kind = kind.ok_or_else(|| Error::setting("network.kind", config.name(), advice))?;
        Ok(Self { kind, config: Box::new(config) })
    }

    /// What it is.
    pub fn architecture(&self) -> &(dyn Architecture + 'static) {
        self.config.as_ref()
    }

    /// The same, to be changed.
    pub fn architecture_mut(&mut self) -> &mut (dyn Architecture + 'static) {
        self.config.as_mut()
    }
}

impl Clone for Own {
    fn clone(&self) -> Self {
        Self { kind: self.kind, config: self.config.copy() }
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        (self.kind.name, self.config.table().ok()) == (other.kind.name, other.config.table().ok())
    }
}

impl Serialize for Own {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = self.config.table().map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(Some(1 + table.len()))?;
        map.serialize_entry("kind", self.kind.name)?;
        table.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}
