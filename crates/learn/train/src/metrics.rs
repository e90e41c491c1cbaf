//! The metrics of a step.

use isentrope_model::RouterUse;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;

/// The metrics of routers that every mixture has: [`Metrics::set_router_use`].
pub const ROUTER_METRICS: [&str; 3] =
    ["router/entropy", "router/load_max", "router/experts_unused"];

/// Named numbers of one step, in the order in which they were first set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// Sets a metric. An existing one keeps its place in the order.
    pub fn set(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Sets a metric to the mean of `count` values, given by their sum. Without values it sets
    /// nothing.
    pub fn set_mean(&mut self, name: impl Into<String>, sum: f64, count: usize) {
        if count > 0 {
            self.set(name, sum / count as f64);
        }
    }

    /// Sets the metrics of routers, for a model with experts. Without tokens it sets nothing.
    pub fn set_router_use(&mut self, of: Option<&RouterUse>) {
        let Some(of) = of else { return };
        let values = [of.entropy(), of.largest_load(), of.unused()];
        for (name, value) in ROUTER_METRICS.into_iter().zip(values) {
            if let Some(value) = value {
                self.set(name, value);
            }
        }
    }

    /// A metric's value, if it has been set.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// Metrics are written as a map. JSON has no NaN and no infinity, so these become null.
impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

/// Reads a map in its order; null is NaN.
impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Metrics;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
                let mut metrics = Metrics::default();
                while let Some((name, value)) = map.next_entry::<String, Option<f64>>()? {
                    metrics.set(name, value.unwrap_or(f64::NAN));
                }
                Ok(metrics)
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_come_back_in_their_order_with_their_bits() {
        let mut metrics = Metrics::default();
        for (name, value) in
            [("z", 0.1 + 0.2), ("a", f64::MIN_POSITIVE), ("m", f64::INFINITY), ("b", -0.0)]
        {
            metrics.set(name, value);
        }
        let text = serde_json::to_string(&metrics).unwrap();
        let back: Metrics = serde_json::from_str(&text).unwrap();
        metrics.set("a", 2.0);
        let (names, values): (Vec<_>, Vec<_>) = metrics.iter().unzip();
        assert_eq!((&*names, values[1]), (&["z", "a", "m", "b"][..], 2.0), "it keeps its place");
        assert_eq!(metrics.get("c"), None);
        assert!(back.get("m").unwrap().is_nan());
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }
}
