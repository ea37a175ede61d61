//! Kernel laws.
