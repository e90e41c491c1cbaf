//! Numbers that may not be finite, which JSON writes as null.

use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(numbers: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(|&number| number.is_finite().then_some(number)))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let numbers = Vec::<Option<f32>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f32::NAN)).collect())
}
