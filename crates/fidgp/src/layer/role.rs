//! What a trainable parameter is, said where it is made: the group of its path in the store.

use std::collections::HashSet;

use tch::nn::{Path, VarStore};

/// What an optimiser must know of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of a prior, a posterior or a likelihood, with a regulariser of its own or none: never decayed. What nobody said
    /// anything of is of this kind.
    Undecayed,
    /// A plain weight, bias or scale: weight decay is its regulariser.
    Decayed,
}

impl Role {
    /// A path whose parameters have this role.
    pub fn of<'a>(self, path: &Path<'a>) -> Path<'a> {
        path.set_group(usize::from(self == Self::Decayed))
    }
}

/// The names of the decayed parameters of a store.
pub fn decayed(store: &VarStore) -> HashSet<String> {
    let marked: HashSet<_> = {
        let variables = store.variables_.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let group = usize::from(true);
        variables.trainable_variables.iter().filter(|v| v.group == group).map(|v| v.tensor.data_ptr()).collect()
    };
    let named = store.variables().into_iter();
    named
        .filter(|(_, tensor)| tensor.numel() > 0 && marked.contains(&tensor.data_ptr()))
        .map(|(name, _)| name)
        .collect()
}
