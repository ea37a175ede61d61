//! The tests from outside, in one binary: it links once.

mod architecture;
