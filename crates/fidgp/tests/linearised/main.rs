//! The linearised posterior against Gaussian processes, Laplace approximations and regressions that are made without it, from
//! derivatives by automatic differentiation or finite differences and dense linear algebra.

mod classes;
mod exact;
mod features;
mod kinds;
mod networks;
mod predictions;
mod structures;
