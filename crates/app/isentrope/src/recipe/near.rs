//! The known name nearest to a misspelt one. Algorithms differ by single letters (grpo, gspo, opo),
//! so a proposal must be the same name with a typing error, never another algorithm's name.

use strsim::damerau_levenshtein;

/// Bytes of the longest name that is compared.
const LONGEST: usize = 64;

/// The known key that was most likely meant: each of its words with at most a third of its letters
/// wrong, missing at the end, or added there; None if several are equally near.
pub fn key<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    nearest(name, known, |known| {
        let (a, b) = (words(name), words(known));
        let (joined, other) = (a.concat(), b.concat());
        let is_near =
            |(a, b): (&String, &String)| damerau_levenshtein(a, b) * 3 <= a.len().max(b.len());
        let is_slip = a.len() == b.len() && a.iter().zip(&b).all(is_near);
        let is_start = joined.len().min(other.len()) >= 4
            && (joined.starts_with(&other) || other.starts_with(&joined));
        match joined == other {
            true => Some(0),
            false if is_slip => Some(damerau_levenshtein(name, known)),
            false if is_start => Some(usize::MAX),
            false => (name.len() >= 6 && damerau_levenshtein(name, known) == 1).then_some(1),
        }
    })
}

/// A hint at the known key that was most likely meant, to stand behind a message.
pub fn hint(name: &str, known: &[String]) -> Option<String> {
    key(name, known.iter()).map(|near| format!("; did you mean `{near}`?"))
}

/// The known choice that was most likely meant: the same but for case and separators, or with one
/// letter too many, missing, swapped with the next or, in names of six and more, wrong; none if
/// several are equally near, or one of `others`, the names of other trainers.
pub fn choice<'a>(
    name: &str,
    known: impl Iterator<Item = &'a String>,
    mut others: impl Iterator<Item = &'static str>,
) -> Option<&'a String> {
    let plain = words(name).concat();
    let distance = |known: &str| {
        let distance = damerau_levenshtein(&plain, &words(known).concat());
        (distance == 0 || distance == 1 && plain.len() >= 3).then_some(distance)
    };
    let is_slip = |known: &str| {
        let is_other_letter = strsim::hamming(&plain, &words(known).concat()) == Ok(1);
        !is_other_letter || plain.len() >= 6
    };
    let near = nearest(name, known, distance).filter(|near| is_slip(near))?;
    let is_other = |other: &str| words(other).concat() != words(near).concat();
    let is_ambiguous = distance(near) != Some(0)
        && others.any(|other| is_other(other) && is_slip(other) && distance(other).is_some());
    (!is_ambiguous).then_some(near)
}

fn nearest<'a>(
    name: &str,
    known: impl Iterator<Item = &'a String>,
    distance: impl Fn(&str) -> Option<usize>,
) -> Option<&'a String> {
    if name.len() > LONGEST {
        return None;
    }
    let mut near: Vec<_> = known.filter_map(|known| Some((distance(known)?, known))).collect();
    near.sort();
    near.dedup();
    match near[..] {
        [(first, known), (second, _), ..] => (first < second).then_some(known),
        [(_, known)] => Some(known),
        [] => None,
    }
}

/// The words of a name, in small letters: clip_low, clip-low and "clip low" are two.
fn words(name: &str) -> Vec<String> {
    let is_separator = |c: char| !c.is_alphanumeric() && c != '+';
    name.split(is_separator).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &str) -> Vec<String> {
        names.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn slips_of_the_pen_are_understood_in_keys() {
        let known = names(
            "clip_low clip_high dual_clip warmup_steps micro_batch_tokens learning_rate beta1 beta2 eps",
        );
        for (name, meant) in [
            ("cliplow", Some("clip_low")),
            ("clip-low", Some("clip_low")),
            ("clip_hihg", Some("clip_high")),
            ("warmup", Some("warmup_steps")),
            ("warm_up_steps", Some("warmup_steps")),
            ("micro_batch", Some("micro_batch_tokens")),
            ("learningrates", Some("learning_rate")),
            ("learningrate", Some("learning_rate")),
            ("learing_rate", Some("learning_rate")),
            ("clip", None),
            ("clip_cov", None),
            ("beta3", None),
            ("rate", None),
            ("delta", None),
            ("", None),
        ] {
            assert_eq!(key(name, known.iter()).map(String::as_str), meant, "{name}");
        }
    }

    #[test]
    fn another_algorithm_is_never_proposed() {
        let algorithms = || ["grpo", "gspo", "opo", "dro", "ppo"].into_iter();
        let losses = names("clip importance gspo cispo policy-gradient");
        for (name, meant) in [
            ("policy_gradient", Some("policy-gradient")),
            ("GSPO", Some("gspo")),
            ("imporance", Some("importance")),
            ("cilp", Some("clip")),
            ("cspo", None), // one letter from both gspo and cispo, and neither need be meant
            ("grpo", None),
            ("gpo", None),
            ("dapo", None),
            ("ppo", None),
        ] {
            assert_eq!(
                choice(name, losses.iter(), algorithms()).map(String::as_str),
                meant,
                "{name}"
            );
        }
        let advantages = names("grpo dr-grpo rloo reinforce++ reinforce++-baseline remax opo");
        for (name, meant) in [
            ("dr_grpo", Some("dr-grpo")),
            ("reinforce++baseline", Some("reinforce++-baseline")),
            ("reinforce", None),
            ("gro", Some("grpo")),
            ("gspo", None),
            ("dpo", None),
            ("ppo", None),
            ("loo", Some("rloo")),
            ("dapo", None),
        ] {
            assert_eq!(
                choice(name, advantages.iter(), algorithms()).map(String::as_str),
                meant,
                "{name}"
            );
        }
        assert_eq!(choice("k4", names("abs k1 k2 k3").iter(), algorithms()), None);
    }
}
