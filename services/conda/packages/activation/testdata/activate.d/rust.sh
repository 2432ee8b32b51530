#!/usr/bin/env bash
export CARGO_HOME="${CARGO_HOME:-${CONDA_PREFIX}/.cargo}"
export CARGO_CONFIG=${CARGO_HOME}/config
export RUSTUP_HOME=$CARGO_HOME/rustup
case ":${PATH}:" in
    *:"$CARGO_HOME/bin":*) ;;
    *) export PATH="$CARGO_HOME/bin:$PATH" ;;
esac
arch=$(uname -m)
export CARGO_BUILD_TARGET="${arch}-unknown-linux-gnu"
target_upper=$(echo "$CARGO_BUILD_TARGET" | tr '[:lower:]' '[:upper:]' | tr '-' '_')
export RUST_TARGET_VAR="CARGO_TARGET_${target_upper}_LINKER"
