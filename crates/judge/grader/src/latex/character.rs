//! LaTeX for characters beyond ASCII.

/// Characters, each with its LaTeX. A command has a space after it.
const LATEX: &str = r"
−–—‐‑－﹣ -; ＋ +; ×✕⨯ \times; ·⋅∙•∗ \cdot; ÷ \div; ／∕⁄ /; ＝ =; ≤⩽≦ \leq; ≥⩾≧ \geq; ≠ \neq;
≈≃ \approx; ≅ \cong; ≡ \equiv; ≢ \not\equiv; ∼ \sim; ≁ \not\sim; ≮ \nless; ≯ \ngtr; ≰ \nleq;
≱ \ngeq; ≪ \ll; ≫ \gg; ≺ \prec; ≻ \succ; ∝ \propto; ∥ \parallel; ∦ \nparallel; ⊥⟂ \perp;
∤ \nmid; ⊂ \subset; ⊃ \supset; ⊆ \subseteq; ⊇ \supseteq; ⊊ \subsetneq; ⊋ \supsetneq;
⊄ \not\subset; ⊅ \not\supset; ⊈ \nsubseteq; ⊉ \nsupseteq; ∋ \ni; ∉ \notin; ⊢ \vdash; ⊨ \models;
¬ \neg; ∧ \land; ∨ \lor; ⊕ \oplus; ⊗ \otimes; ∘ \circ; ⇔⟺ \iff; ⇐⟸ \impliedby; ← \gets;
↦ \mapsto; ↔ \leftrightarrow; ‰ \permille; ＜ <; ＞ >; ± \pm; ∓ \mp; √ \sqrt; ∛ \sqrt[3];
∜ \sqrt[4]; ∞ \infty; ∪ \cup; ∩ \cap; ∈ \in; ∖ \setminus; ∅Øø \emptyset; ∑ \sum; ∏ \prod;
∫ \int; ∠ \angle; △ \triangle; ⇒⟹ \implies; → \to; °º˚ ^\circ; ′’‘ '; ″ ''; ％ %; （ (; ） );
［【 [; ］】 ]; ｛ {; ｝ }; ⟨〈 \langle; ⟩〉 \rangle; ⌊ \lfloor; ⌋ \rfloor; ⌈ \lceil; ⌉ \rceil; ｜∣ |;
，、 ,; ：∶ :; 。 .; …⋯ \dots; ½ \frac12; ⅓ \frac13; ⅔ \frac23; ¼ \frac14; ¾ \frac34;
⅕ \frac15; ⅖ \frac25; ⅗ \frac35; ⅘ \frac45; ⅙ \frac16; ⅚ \frac56; ⅛ \frac18; ⅜ \frac38;
⅝ \frac58; ⅞ \frac78; ℝ \mathbb{R}; ℤ \mathbb{Z}; ℕ \mathbb{N}; ℚ \mathbb{Q}; ℂ \mathbb{C};
α \alpha; β \beta; γ \gamma; δ \delta; Δ∆ \Delta; εϵ \epsilon; ζ \zeta; η \eta; θϑ \theta;
κ \kappa; λ \lambda; μµ \mu; ν \nu; ξ \xi; π \pi; ρ \rho; σ \sigma; Σ \Sigma; τ \tau; φϕ \phi;
Φ \Phi; χ \chi; ψ \psi; ω \omega; Ω \Omega; ℓ \ell";

/// The LaTeX of a character; `None` if it has no other spelling.
pub fn latex(character: char) -> Option<&'static str> {
    match character {
        '\u{2126}' => return Some("\\Omega "),
        '$' | '€' | '£' | '¥' | '￥' | '₹' | '₽' | '¢' => return Some(" "),
        '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => return Some(""),
        '；' => return Some(";"),
        _ => {}
    }
    let (_, latex) = LATEX
        .split(';')
        .filter_map(|entry| entry.trim_start().split_once(' '))
        .find(|(characters, _)| characters.contains(character))?;
    Some(latex)
}

/// The digit, sign or letter that a superscript character raises.
pub fn superscript(character: char) -> Option<char> {
    let raised = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ".chars().zip("0123456789+-nx".chars());
    raised.into_iter().find_map(|(raised, plain)| (raised == character).then_some(plain))
}

/// The digit that a subscript character lowers.
pub fn subscript(character: char) -> Option<char> {
    let digit = u32::from(character).checked_sub(0x2080)?;
    char::from_digit(digit, 10)
}

/// The ASCII character that a full-width digit or letter is.
pub fn narrow(character: char) -> Option<char> {
    let ascii = u32::from(character).checked_sub(0xfee0).and_then(char::from_u32)?;
    ascii.is_ascii_alphanumeric().then_some(ascii)
}

/// Whether a character is a letter that no formula has: Cyrillic, Chinese and others that are
/// neither Latin nor Greek.
pub fn is_prose_letter(character: char) -> bool {
    let in_scripts = matches!(character, '\u{400}'..='\u{1cff}' | '\u{2c00}'..='\u{2dff}' | '\u{3005}'..='\u{d7ff}')
        || matches!(character, '\u{f900}'..='\u{fdff}' | '\u{20000}'..='\u{3ffff}');
    in_scripts && character.is_alphabetic()
}
