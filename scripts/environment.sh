# Shared by the scripts: finding a Python and making a virtual environment. Sourced, not run.

# find_python VERSION...: print the first Python found of the given versions ("3.11"), on the PATH or under pyenv.
find_python() {
    local version candidate
    for version in "$@"; do
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python "$PWD"/.envs/pythons/cpython-"$version".*/bin/python; do
            if command -v "$candidate" >/dev/null 2>&1 &&
                "$candidate" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" >/dev/null 2>&1; then
                command -v "$candidate"
                return 0
            fi
        done
    done
    return 1
}

# provide_python VERSION: find_python, else get it: by pyenv where there is one, else by uv into .envs/; nothing is installed system-wide.
provide_python() {
    find_python "$1" && return 0
    [ -z "${WHEELS:-}" ] || return 1
    local base
    if command -v pyenv >/dev/null 2>&1 && pyenv install --skip-existing "$1" >&2; then
        find_python "$1" && return 0
    fi
    base="$(any_python)" || return 1
    [ -x .envs/uv/bin/uv ] || { "$base" -m venv .envs/uv && .envs/uv/bin/python -m pip install --quiet --disable-pip-version-check uv; } >&2 || return 1
    UV_PYTHON_INSTALL_DIR="$PWD/.envs/pythons" .envs/uv/bin/uv python install --quiet --no-bin "$1" >&2 || return 1
    find_python "$1"
}

# any_python: print some Python from 3.7 on that can make virtual environments, first the project's: the newest that README names.
any_python() {
    find_python 3.13 3.12 3.11 3.10 3.14 3.9 3.8 3.7 && return 0
    local candidate
    for candidate in python3 python; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 7))" >/dev/null 2>&1; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "no Python 3.7 or newer with the venv module was found on the PATH (Debian and Ubuntu: install python3-venv)" >&2
    return 1
}

# python_between: print a Python between the oldest and the newest one, first Debian 12's.
python_between() {
    find_python 3.11 3.10 3.12 3.9 3.8
}

# make_environment PYTHON FOLDER REQUIREMENT...: a virtual environment with the requirements; WHEELS=DIR installs without a network.
make_environment() {
    local python="$1" folder="$2"
    shift 2
    local options=(--quiet --disable-pip-version-check)
    if [ -n "${WHEELS:-}" ]; then
        options+=(--no-index --find-links "$WHEELS")
    fi
    if [ ! -x "$folder/bin/python" ] || ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$folder"
        "$python" -m venv "$folder" || return 1
    fi
    # Of the same version pip would keep what an earlier run installed.
    "$folder/bin/python" -m pip uninstall --quiet --disable-pip-version-check --yes goldwatch >/dev/null 2>&1 || true
    rm -rf build # what an earlier build left there would land in the wheel
    # Old pips cannot read pyproject.toml or newer wheel tags. Without a network the one that came with Python must do.
    if [ -z "${WHEELS:-}" ]; then
        "$folder/bin/python" -m pip install "${options[@]}" --upgrade pip || return 1
    fi
    "$folder/bin/python" -m pip install "${options[@]}" "$@"
}

# build_wheel PYTHON FOLDER: goldwatch's wheel, alone in that folder.
build_wheel() {
    make_environment "$1" .envs/build "setuptools>=64" wheel &&
        rm -rf "$2" &&
        .envs/build/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$2" .
}

# have_chromium: tell whether there is a Chromium with its driver.
have_chromium() {
    command -v chromedriver >/dev/null && { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
}

# install_chromium: Debian's, where that is allowed.
install_chromium() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y chromium chromium-driver
}

# provide_axe: axe-core, which finds faults of pages for those who do not see or point; from npm into .envs/. In CI Debian's npm is installed
# where there is none and that is allowed.
provide_axe() {
    [ ! -f .envs/axe/node_modules/axe-core/axe.min.js ] || return 0
    [ -z "${WHEELS:-}" ] || return 1
    if [ "${CI:-}" = true ] && ! command -v npm >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends npm
    fi
    command -v npm >/dev/null || return 1
    mkdir -p .envs/axe
    timeout 300 npm install --prefix .envs/axe --no-save --ignore-scripts --no-audit --no-fund --loglevel error axe-core@4.14.1 >&2 || return 1
    [ -f .envs/axe/node_modules/axe-core/axe.min.js ]
}

# released PYTHON: what scripts/release makes can be installed by two commands without a network, and its kernel computes.
released() {
    scripts/release .envs/release --python "$1" &&
        rm -rf .envs/installed && "$1" -m venv .envs/installed &&
        .envs/installed/bin/pip install --quiet --disable-pip-version-check --no-index --find-links .envs/release goldwatch &&
        (cd / && "$OLDPWD/.envs/installed/bin/goldwatch" --version -v)
}
