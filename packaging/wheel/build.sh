#!/usr/bin/env bash
# Builds a wheel that carries the program, checks what an index would ask of it, and tries it in a fresh virtual environment.
#
#     packaging/wheel/build.sh [DIRECTORY [ARGUMENTS OF maturin build]]
#
# The wheel lies in DIRECTORY (dist) at the end. It names the oldest glibc that has all it needs, as maturin finds it in the
# program's symbols: built on an older system, or in a manylinux image, it installs on older ones.
#
# Needs Rust, a C compiler, and Python 3.9 or later, which installs maturin and twine into a directory of its own.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$(realpath -m "${1:-dist}")
shift || true

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/build"
"$work/build/bin/pip" install --quiet 'maturin>=1.9,<2' 'twine>=6.1'
export PATH="$work/build/bin:$PATH"
case " $* " in *" --profile "*) ;; *) set -- --release "$@" ;; esac
(cd "$root/packaging/wheel" && maturin build --out "$work/wheel" "$@")
twine check --strict "$work"/wheel/*.whl

# As a user would: a fresh environment, an empty directory, and nothing but what the wheel has.
python3 -m venv "$work/try"
"$work/try/bin/pip" install --quiet --no-index "$work"/wheel/*.whl
mkdir "$work/empty"
(
    cd "$work/empty"
    "$work/try/bin/isentrope" --version
    "$work/try/bin/isentrope" doctor
    "$work/try/bin/isentrope" examples
    "$work/try/bin/isentrope" train recipes/quickstart.toml --dry-run >/dev/null
    "$work/try/bin/isentrope" train recipes/quickstart.toml --set run.steps=1 --set eval.every=0
)
mkdir -p "$out"
mv "$work"/wheel/*.whl "$out/"
ls -l "$out"/isentrope-*.whl
