//! The part of the program that others check: recipes.

pub mod recipe;
