//! What a parameter is, said where it is made: the group of its path in the store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::PoisonError;

use tch::nn::{Path, VarStore};

/// What an optimiser, and who reads a store, must know of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of a likelihood or of another method, with a regulariser of its own or none: never decayed. What nobody said anything
    /// of is of this kind.
    Undecayed,
    /// A plain weight, bias or scale: weight decay is its regulariser.
    Decayed,
    /// Of a prior over inducing matrices: Z and D.
    Prior,
    /// Of a posterior: the mean, deviation and flow of an inducing matrix, and λ.
    Posterior,
    /// Stored, not trained: running statistics, and what is kept of a power iteration.
    Buffer,
}

impl Role {
    /// Those of trained parameters, by the number of their group in a store.
    const GROUPS: [Self; 4] = [Self::Undecayed, Self::Decayed, Self::Prior, Self::Posterior];

    /// A path whose trained parameters have this role. A buffer needs none: `…_no_train` makes one, under any path.
    pub fn of<'a>(self, path: &Path<'a>) -> Path<'a> {
        path.set_group(Self::GROUPS.iter().position(|role| *role == self).unwrap_or_default())
    }
}

/// The role of everything in a store, by name.
pub fn roles(store: &VarStore) -> BTreeMap<String, Role> {
    let groups: HashMap<_, _> = {
        let variables = store.variables_.lock().unwrap_or_else(PoisonError::into_inner);
        variables.trainable_variables.iter().map(|v| (v.tensor.data_ptr(), v.group)).collect()
    };
    let role = |group: Option<&usize>| group.map_or(Role::Buffer, |group| Role::GROUPS[group % Role::GROUPS.len()]);
    let named = store.variables().into_iter().filter(|(_, tensor)| tensor.numel() > 0);
    named.map(|(name, tensor)| (name, role(groups.get(&tensor.data_ptr())))).collect()
}

/// The names of the decayed parameters of a store.
pub fn decayed(store: &VarStore) -> HashSet<String> {
    roles(store).into_iter().filter(|(_, role)| *role == Role::Decayed).map(|(name, _)| name).collect()
}
