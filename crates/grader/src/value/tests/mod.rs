//! Which expressions have the same value.

mod equality;
mod infix;
mod properties;
mod sympy;
