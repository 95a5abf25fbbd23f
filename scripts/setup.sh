#!/usr/bin/env bash
# Makes .venv with every pinned package, and sees to a Java 17 or 21. Quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
die() { say "setup: $*"; exit 2; }

# Runs a command as root: directly, or by a sudo that asks for no password; fails where neither may be had.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo "$@"
    else return 1
    fi
}

# apt_install WHY PACKAGE...: installs the first package that the system's package manager has.
apt_install() {
    local why=$1 package
    shift
    command -v apt-get >/dev/null || die "$why; install it with your system's package manager, then run this again."
    as_root true || die "$why; install it with: sudo apt-get install $1"
    say "setup: $why; installing it with apt-get"
    as_root apt-get update -qq || say "setup: apt-get update failed, trying with the lists there are"
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >&2 \
                || die "apt-get could not install $package; its own words are above."
            return
        fi
    done
    die "$why, and apt-get has none of: $*"
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null \
            && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# The same search as pipelines.java.find_java, which the running program uses.
has_java() {
    local java
    for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        if [ -x "$java" ] && "$java" -version 2>&1 | grep -Eq 'version "(17|21)[."]'; then return; fi
    done
    return 1
}

python=$(find_python) || die "Python 3.11 or later is missing; install it with: sudo apt-get install python3"
"$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install "Python's venv module is missing" \
    "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" python3-venv
has_java || apt_install "Java 17 or 21 is missing" openjdk-17-jre-headless openjdk-21-jre-headless

stamp=.venv/.keyspread-setup
wanted=$(cat requirements{,-setup,-kafka-python-2}.lock pyproject.toml scripts/setup.sh | sha256sum; "$python" -V; pwd)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

say "setup: installing the pinned packages into .venv (1.7 GB, once)"
rm -f "$stamp"
"$python" -m venv --clear .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-setup.lock
# A run is a dozen Python processes: without bytecode each compiles for seconds what it imports.
export UV_PYTHON=$PWD/.venv/bin/python UV_LINK_MODE=${UV_LINK_MODE:-copy} UV_COMPILE_BYTECODE=1
.venv/bin/uv pip install --quiet --require-hashes -r requirements.lock
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --editable .
.venv/bin/python -m compileall -q partitioners pipelines
# kafka-python 2 cannot live beside kafka-python 3: its adapter is tested from a folder of its own.
rm -rf .venv-kafka-python-2
.venv/bin/uv pip install --quiet --require-hashes --target .venv-kafka-python-2 -r requirements-kafka-python-2.lock
printf '%s\n' "$wanted" > "$stamp"
