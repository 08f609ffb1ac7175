//! The method against dense linear algebra, against itself, and against its own gradients.
//!
//! Every random number comes from a fixed key, so a statistical check passes or fails for good. Samples are held to
//! `SIGMAS` standard errors, entry by entry; with other seeds a check of n entries would fail about 6·10⁻⁵·n of the time.
//! The seeds are consecutive numbers, not picked.

mod bad_input;
mod common;
mod conditional;
mod convolution;
mod evidence;
mod gradients;
mod isotropic;
mod networks;
mod noise;
mod objective;
mod outputs;
mod posterior;
mod predict;
mod shapes;
mod unwhitened;
