//! Where there is no Linux there is no process group.

use std::convert::Infallible;
use std::time::Duration;

use tch::{Device, Tensor};

use crate::launched::Launched;

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupError(pub String);

impl std::fmt::Display for GroupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GroupError {}

/// Never made.
#[derive(Debug)]
pub struct Group(Infallible);

#[expect(missing_docs, reason = "as on Linux")]
impl Group {
    pub fn join(_: &Launched, _: Device, _: Duration) -> Result<Self, GroupError> {
        Err(GroupError("several processes need Linux".to_owned()))
    }
    pub fn rank(&self) -> usize {
        match self.0 {}
    }
    pub fn size(&self) -> usize {
        match self.0 {}
    }
    pub fn device(&self) -> Device {
        match self.0 {}
    }
    pub fn launched(&self) -> &Launched {
        match self.0 {}
    }
    pub fn all_reduce(&self, _: &mut Tensor, _: &str) -> Result<(), GroupError> {
        match self.0 {}
    }
    pub fn broadcast(&self, _: &mut Tensor, _: usize, _: &str) -> Result<(), GroupError> {
        match self.0 {}
    }
    pub fn all_gather(&self, _: &Tensor, _: &str) -> Result<Tensor, GroupError> {
        match self.0 {}
    }
    pub fn barrier(&self, _: &str) -> Result<(), GroupError> {
        match self.0 {}
    }
    pub fn sum(&self, _: &Tensor, _: f64, _: &str) -> Result<Tensor, GroupError> {
        match self.0 {}
    }
    pub fn text_of_first(&self, _: &str, _: &str) -> Result<String, GroupError> {
        match self.0 {}
    }
    pub fn texts(&self, _: &str, _: &str) -> Result<Vec<String>, GroupError> {
        match self.0 {}
    }
    pub fn watch(&self, _: Duration, _: impl FnOnce(GroupError) + Send + 'static) {
        match self.0 {}
    }
    pub fn missing(&self, _: &str, _: &str) -> GroupError {
        match self.0 {}
    }
    pub fn name(&self, _: usize) -> String {
        match self.0 {}
    }
    pub fn fail(&self, _: &str) {
        match self.0 {}
    }
    pub fn leave(&self) {
        match self.0 {}
    }
}
