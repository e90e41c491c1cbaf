//! Matrices and vectors.

use super::{different, same};

#[test]
fn matrices() {
    same(&[
        (
            "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
            "\\left[\\begin{array}{cc}1 & 2 \\\\3 & 4\\end{array}\\right]",
        ),
        (
            "\\begin{pmatrix}6&8\\\\10&12\\end{pmatrix}",
            "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix} + \\begin{bmatrix}5&6\\\\7&8\\end{bmatrix}",
        ),
        ("\\begin{pmatrix} 1/3 \\\\ 2/3 \\end{pmatrix}", "\\frac13\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"),
        (
            "\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}",
            "\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}",
        ),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}^T"),
        (
            "\\begin{pmatrix}-\\frac{7}{4}&-2\\\\4&\\frac{1}{4}\\\\\\end{pmatrix}",
            "\\begin{pmatrix}-\\frac{7}{4}&-2\\\\4&\\frac{1}{4}\\end{pmatrix}",
        ),
    ]);
    different(&[
        ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\3&5\\end{pmatrix}"),
        ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}"),
        ("\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1&2&0\\end{pmatrix}"),
    ]);
}

#[test]
fn rows_may_be_apart() {
    same(&[(
        "\\begin{pmatrix} -1/3 \\\\ 2/3 \\end{pmatrix}",
        "\\begin{bmatrix} -\\frac13 \\\\[4pt] \\frac23 \\\\[0.5 em] \\end{bmatrix}",
    )]);
    // What stands in brackets may also be a part of the row.
    different(&[("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ [4] \\end{pmatrix}")]);
}
