//! Problems of the built-in task, told apart by how many numbers they give.

use isentrope_data::countdown::given_numbers;
use serde_json::Value;
use std::collections::BTreeMap;

/// The problems of each size, by their places; none unless there are several sizes, and every problem has one.
pub(crate) fn by_size<'a>(ground_truths: impl IntoIterator<Item = &'a Value>) -> BTreeMap<usize, Vec<usize>> {
    let mut sizes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, ground_truth) in ground_truths.into_iter().enumerate() {
        match given_numbers(ground_truth) {
            Some(size) => sizes.entry(size).or_default().push(place),
            None => return BTreeMap::new(),
        }
    }
    if sizes.len() > 1 { sizes } else { BTreeMap::new() }
}

/// What the mean of k responses to problems of a size is called.
pub(crate) fn name_of_size(k: usize, size: usize) -> String {
    format!("mean@{k}_{size}_numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_problems_of_the_task_in_several_sizes_are_told_apart() {
        let of = |count: usize| json!({"numbers": vec![1; count], "target": count});
        assert_eq!(by_size(&[of(3), of(4), of(3)]), BTreeMap::from([(3, vec![0, 2]), (4, vec![1])]));
        assert!(by_size(&[of(3), of(3)]).is_empty());
        assert!(by_size(&[of(3), of(4), json!("7")]).is_empty());
        assert!(by_size(&[]).is_empty());
    }
}
