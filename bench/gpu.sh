#!/usr/bin/env bash
# What a GPU computes and how fast: one command, below nine minutes, for a machine that has a driver and neither Rust nor a network.
#
#   bench/gpu.sh build [DIRECTORY]   where there is Rust: builds what the other machine needs, below 64 MiB
#   bench/gpu.sh [DIRECTORY [PARTS]] on the machine with the GPU: measures, prints a table, leaves gpu.md, gpu.json and the tests'
#                                    output in DIRECTORY/results; of all parts or of some, such as models,GRPO,opponents
#
# DIRECTORY is target/gpu unless told otherwise. docs/guides/gpus.md says what is measured. transformers and TRL are measured at the same work where
# ISENTROPE_PYTHON, or else python3, has them. Ends with 1 where nothing can be measured, or where not everything is right.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

build() {
    local directory=$1 executables
    mkdir -p "$directory"
    cd "$root"
    cargo build --release -p isentrope-cuda --example gpu
    cp target/release/examples/gpu "$directory/gpu"
    executables=$(cargo test --release -p isentrope-cuda --test conformance --test cuda --no-run --message-format=json |
        sed -nE 's/.*"executable":"([^"]*\/(conformance|cuda)-[^"]*)".*/\1/p')
    local executable name tests
    tests=$(mktemp -d)
    for executable in $executables; do
        name=$(basename "$executable")
        cp "$executable" "$tests/${name%-*}"
    done
    cargo build --release -p isentrope
    cp target/release/isentrope "$tests"
    strip "$directory/gpu" "$tests"/*
    cp recipes/quickstart.toml "$tests"
    mkdir "$tests/assets"
    cp -r assets/countdown-base "$tests/assets"
    cp -r crates/compute/model/tests/fixtures/models "$tests/models"
    tar -C "$tests" -cJf "$directory/tests.tar.xz" .
    rm -rf "$tests"
    # The compiler of kernels, where this machine has one: the other one may not. That of an earlier build is not wanted.
    rm -f "$directory/nvrtc.tar.xz"
    if [ -n "${ISENTROPE_CUDA_LIBRARIES:-}" ]; then
        local named place library='' builtins
        # Like PATH, without empty and relative parts.
        IFS=: read -r -a named <<<"$ISENTROPE_CUDA_LIBRARIES"
        for place in "${named[@]}"; do
            if [ -z "$library" ] && [[ $place == /* ]] && [ -d "$place" ]; then
                # What cannot be read there is passed over.
                library=$(find "$place/" -name 'libnvrtc.so.1[23]' -print -quit) || true
            fi
        done
        if [ -n "$library" ]; then
            builtins=$(cd "$(dirname "$library")" && ls -d libnvrtc-builtins.so.*)
            # shellcheck disable=SC2086
            tar -C "$(dirname "$library")" -cJhf "$directory/nvrtc.tar.xz" "$(basename "$library")" $builtins
        fi
    fi
    cp bench/gpu.sh "$directory/gpu.sh"
    mkdir -p "$directory/opponents"
    cp bench/peers_gpu.py bench/trl_clock.py "$directory/opponents"
    local bytes
    bytes=$(du -sb --exclude=results --exclude=nvrtc --exclude=tests "$directory" | cut -f1)
    if [ "$bytes" -gt $((64 << 20)) ] && [ -e "$directory/nvrtc.tar.xz" ]; then
        rm "$directory/nvrtc.tar.xz"
        echo "gpu.sh: with NVRTC these are $bytes bytes, more than 64 MiB: it stays here, and the other machine must have one"
    fi
    du -sh --exclude=results --exclude=nvrtc --exclude=tests "$directory"
}

# The contract and attention's bits on the GPU, and a recipe trained twice: in bf16 on the GPU, in f32 on the GPU and the CPU.
check() {
    local tests=$1 results=$2 name run wrong=0
    mkdir -p "$results"
    for name in cuda:attention_bits conformance:f32 conformance:bf16; do
        local log=$results/${name#*:}.log
        ISENTROPE_TEST_DEVICE=gpu timeout 130 "$tests/${name%:*}" --test-threads=1 "${name#*:}::" >"$log" 2>&1 ||
            { wrong=1; echo "gpu.sh: ${name#*:} has failed: see $log" >&2; }
        # Tests that nothing is called are not right either.
        grep '^test result:' "$log" | grep -v ' 0 passed' | sed "s/^/${name#*:}: /" || { wrong=1; echo "gpu.sh: no result of ${name#*:}: see $log" >&2; }
    done
    rm -rf "$results/runs"
    for run in bf16-1:cuda bf16-2:cuda f32-1:cuda f32-2:cpu; do
        (cd "$tests" && timeout 30 ./isentrope train quickstart.toml --device "${run#*:}" \
            --set "run.out=$results/runs/${run%:*}" --set "device.dtype=${run%-*}" --set run.steps=5 --set eval.problems=64) \
            >"$results/${run%:*}.log" 2>&1 || { wrong=1; echo "gpu.sh: a run has failed: see $results/${run%:*}.log" >&2; }
    done
    for name in bf16 f32; do
        if (cd "$results/runs/$name-1" && set -- metrics.jsonl checkpoints/*/model.safetensors && [ -e "$2" ] &&
            for file; do cmp "$file" "../$name-2/$file" || exit 1; done) >"$results/$name-runs.log" 2>&1; then
            echo "quickstart in $name: the same bytes"
        else
            wrong=1
            echo "gpu.sh: quickstart in $name has other bytes: see $results/$name-runs.log" >&2
        fi
    done
    return $wrong
}

measure() {
    local wrong=0
    local directory=$1 parts=${2:-}
    if [ ! -x "$directory/gpu" ]; then
        echo "gpu.sh: $directory/gpu is not there: run \`bench/gpu.sh build\` where there is Rust, and copy the directory" >&2
        exit 1
    fi
    directory=$(cd "$directory" && pwd)
    local part unpacked=' '
    for part in tests nvrtc; do
        if [ -e "$directory/$part.tar.xz" ]; then
            mkdir -p "$directory/$part"
            if tar -C "$directory/$part" -xJf "$directory/$part.tar.xz"; then
                unpacked+="$part "
            else
                echo "gpu.sh: $part.tar.xz cannot be unpacked (tar needs xz for it): going on without" >&2
            fi
        fi
    done
    # What is there from another time may be of another version, or half of one.
    if [[ $unpacked == *' nvrtc '* ]]; then
        export ISENTROPE_CUDA_LIBRARIES="$directory/nvrtc${ISENTROPE_CUDA_LIBRARIES:+:$ISENTROPE_CUDA_LIBRARIES}"
    fi
    export ISENTROPE_TEST_FIXTURES="$directory/tests/models"
    if [ -z "$parts" ]; then check "$directory/tests" "$directory/results" || wrong=1; fi
    # Nine minutes in all, whatever happens.
    local left=$((535 - SECONDS))
    if ((left <= 30)); then
        echo "gpu.sh: the checks have left no time to measure: see $directory/results" >&2
        exit 1
    fi
    timeout "$left" "$directory/gpu" --tests "$directory/tests" --out "$directory/results" \
        --seconds $((left - 10)) \
        --opponents "$directory/opponents/peers_gpu.py" --python "${ISENTROPE_PYTHON:-python3}" ${parts:+--parts "$parts"} || {
        local status=$?
        if [ $status -eq 124 ]; then
            echo "gpu.sh: stopped after nine minutes; $directory/results/gpu.md has the parts that were done" >&2
        fi
        exit 1
    }
    return $wrong
}

case ${1:-} in
build) build "$(realpath -m "${2:-$root/target/gpu}")" ;;
-*) sed -n '2,11s/^# \{0,1\}//p' "$0" ;;
*) measure "${1:-$([ -x "$(dirname "$0")/gpu" ] && dirname "$0" || echo "$root/target/gpu")}" "${2:-}" ;;
esac
