//! Relations between two sides, with their negations and reverses.

/// A relation between two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    /// Equal but for rounding.
    Approximate,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    /// A relation that is known by its name alone.
    Named(Named),
}

/// A relation that two answers must both have, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The relation's name, the same for all spellings and both directions.
    pub name: &'static str,
    /// Whether the relation goes from right to left.
    pub turned: bool,
    /// Whether the relation is negated.
    pub negated: bool,
}

/// Relations that are the same from both sides, each with its spellings.
const SYMMETRIC: &[&[&str]] = &[
    &["parallel"],
    &["perp", "bot"],
    &["equiv"],
    &["cong"],
    &["sim"],
    &["asymp"],
    &["iff", "Leftrightarrow", "Longleftrightarrow", "leftrightarrow", "longleftrightarrow"],
];

/// Relations from left to right, each with its spellings, and then those from right to left.
const DIRECTED: &[(&[&str], &[&str])] = &[
    (&["subset"], &["supset"]),
    (&["subseteq", "subseteqq"], &["supseteq", "supseteqq"]),
    (&["subsetneq", "subsetneqq", "varsubsetneq"], &["supsetneq", "supsetneqq", "varsupsetneq"]),
    (&["sqsubset"], &["sqsupset"]),
    (&["sqsubseteq"], &["sqsupseteq"]),
    (&["triangleleft", "lhd"], &["triangleright", "rhd"]),
    (&["trianglelefteq", "unlhd"], &["trianglerighteq", "unrhd"]),
    (&["prec"], &["succ"]),
    (&["preceq", "preccurlyeq"], &["succeq", "succcurlyeq"]),
    (&["ll"], &["gg"]),
    (&["lesssim"], &["gtrsim"]),
    (&["mid"], &[]),
    (&["propto", "varpropto"], &[]),
    (&["to", "rightarrow", "longrightarrow"], &["gets", "leftarrow", "longleftarrow"]),
    (&["mapsto", "longmapsto"], &[]),
    (&["implies", "Rightarrow", "Longrightarrow"], &["impliedby", "Leftarrow", "Longleftarrow"]),
    (&["models", "vDash"], &[]),
    (&["vdash"], &["dashv"]),
];

/// Commands that negate a relation and do not begin with n and its name.
const NEGATED: &[(&str, &str)] = &[
    ("notin", "in"),
    ("nleqslant", "leq"),
    ("ngeqslant", "geq"),
    ("nshortparallel", "parallel"),
    ("nshortmid", "mid"),
    ("nVdash", "vdash"),
    ("nvDash", "models"),
];

impl Relation {
    /// The relation that a command is.
    pub fn of_command(command: &str) -> Option<Self> {
        if let Some(relation) = affirmative(command) {
            return Some(relation);
        }
        let negated = NEGATED.iter().find(|(name, _)| *name == command).map(|(_, of)| *of);
        affirmative(negated.or_else(|| command.strip_prefix('n'))?).map(Self::negated)
    }

    /// The negation of the relation. For numbers, not less means greater or equal.
    pub fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::In => Self::Named(Named { name: "in", turned: false, negated: true }),
            Self::Approximate => {
                Self::Named(Named { name: "approx", turned: false, negated: true })
            }
            Self::Named(Named { name: "in", turned: false, negated: true }) => Self::In,
            Self::Named(Named { name: "approx", .. }) => Self::Approximate,
            Self::Named(named) => Self::Named(Named { negated: !named.negated, ..named }),
        }
    }

    /// The relation from the other side.
    pub fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::In => Self::Named(Named { name: "in", turned: true, negated: false }),
            Self::Named(Named { name: "in", turned: true, negated: false }) => Self::In,
            Self::Named(named) if is_symmetric(named.name) => self,
            Self::Named(named) => Self::Named(Named { turned: !named.turned, ..named }),
            Self::Equal | Self::Approximate | Self::NotEqual => self,
        }
    }

    /// Whether the relation is one of the four orders.
    pub fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }

    /// Whether the relation holds between lines, and so between rays and segments on them.
    pub fn is_of_lines(self) -> bool {
        matches!(self, Self::Named(Named { name: "parallel" | "perp", .. }))
    }

    /// Whether the relation pairs the corners of two figures in order.
    pub fn orders_corners(self) -> bool {
        matches!(self, Self::Named(Named { name: "sim" | "cong", .. }))
    }
}

fn affirmative(command: &str) -> Option<Relation> {
    let named = |name, turned| Relation::Named(Named { name, turned, negated: false });
    Some(match command {
        "lt" | "less" => Relation::Less,
        "gt" | "gtr" => Relation::Greater,
        "le" | "leq" | "leqslant" | "leqq" => Relation::LessOrEqual,
        "ge" | "geq" | "geqslant" | "geqq" => Relation::GreaterOrEqual,
        "ne" | "neq" => Relation::NotEqual,
        "approx" | "simeq" | "doteq" | "approxeq" | "thickapprox" => Relation::Approximate,
        "in" | "isin" => Relation::In,
        "ni" | "owns" => named("in", true),
        _ => {
            if let Some(spellings) = SYMMETRIC.iter().find(|spellings| spellings.contains(&command))
            {
                return Some(named(spellings[0], false));
            }
            let (spellings, turned) = DIRECTED.iter().find_map(|(ahead, back)| {
                let turned = back.contains(&command);
                (turned || ahead.contains(&command)).then_some((ahead, turned))
            })?;
            named(spellings[0], turned)
        }
    })
}

fn is_symmetric(name: &str) -> bool {
    name == "approx" || SYMMETRIC.iter().any(|spellings| spellings[0] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relation_is_what_it_is_from_either_side_and_is_not_its_negation() {
        let all = SYMMETRIC
            .iter()
            .copied()
            .chain(DIRECTED.iter().flat_map(|(ahead, back)| [*ahead, *back]));
        let commands = all
            .flatten()
            .copied()
            .chain(["lt", "leq", "gt", "geq", "ne", "approx", "in", "ni", "notin"]);
        for command in commands {
            let relation = Relation::of_command(command).unwrap();
            assert_eq!(relation.turned().turned(), relation, "{command}");
            assert_eq!(relation.negated().negated(), relation, "{command}");
            assert_ne!(relation.negated(), relation, "{command}");
        }
    }

    #[test]
    fn negations_have_commands() {
        for (negated, of) in [
            ("nparallel", "parallel"),
            ("nmid", "mid"),
            ("nsubseteq", "subseteq"),
            ("ncong", "cong"),
            ("nless", "lt"),
            ("nleq", "le"),
            ("notin", "in"),
            ("nRightarrow", "implies"),
        ] {
            assert_eq!(
                Relation::of_command(negated),
                Relation::of_command(of).map(Relation::negated),
                "{negated}"
            );
        }
        assert_eq!(Relation::of_command("nu"), None);
        assert_eq!(Relation::of_command("neg"), None);
    }
}
