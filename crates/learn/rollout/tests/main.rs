//! Responses as the sampler's callers see them. Each file here is a module below.

mod between_turns;
mod episodes;
mod recurrent_states;
mod respond;
mod text;
