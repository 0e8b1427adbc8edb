#!/bin/sh
# Install the MPIs that tests/cluster/mpi_runs runs, each with mpi4py and numpy in a venv of its own
# below ${CORRAL_CACHE:-~/.cache/corral}/mpi, and beside them Debian's sshd where the machine has
# none. What is there already is left alone; two of these may run at the same time.
#
#   tests/mpi/install.sh [openmpi5 openmpi4 mpich intel sshd]
set -eu

cache="${CORRAL_CACHE:-$HOME/.cache/corral}/mpi"
python="${PYTHON:-python3}"

packages() {
    case "$1" in
        openmpi5) echo "openmpi>=5,<6" ;;
        openmpi4) echo "openmpi>=4,<5" ;;
        mpich) echo "mpich>=4" ;;
        intel) echo "impi-rt" ;;
        *) echo "$0: $1 is none of openmpi5, openmpi4, mpich, intel, sshd" >&2; return 2 ;;
    esac
}

install() {
    if [ "$1" = intel ] && [ "$(uname -m)" != x86_64 ]; then
        echo "intel: there are no builds for $(uname -m)" >&2
        return
    fi
    # `.complete` has what was asked for, so a half-made or outdated venv is made anew.
    wanted="$(packages "$1") mpi4py numpy"
    venv="$cache/$1"
    if [ "$(cat "$venv/.complete" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    rm -rf "$venv"
    "$python" -m venv "$venv"
    # shellcheck disable=SC2086  # each word is a requirement
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: $wanted
    printf '%s\n' "$wanted" > "$venv/.complete"
    echo "$1: installed in $venv"
}

download() {
    # shellcheck disable=SC2086  # options
    (cd "$folder" && apt-get -qq -o APT::Sandbox::User= ${lists:-} download openssh-server libwrap0)
}

own_lists() { # for a machine that has none, or outdated ones
    mkdir -p "$folder/lists/partial" "$folder/archives/partial"
    lists="-o Dir::State::Lists=$folder/lists -o Dir::Cache=$folder"
    # shellcheck disable=SC2086  # options
    apt-get -qq -o APT::Sandbox::User= $lists update
}

install_sshd() {
    # Unpacked, not installed: nothing of the machine changes.
    if [ -x /usr/sbin/sshd ] || [ -x "$cache/sshd/usr/sbin/sshd" ]; then
        return
    fi
    if ! command -v apt-get > /dev/null; then
        echo "sshd: install OpenSSH's server for the tests that need it" >&2
        return
    fi
    folder="$(mktemp -d "$cache/sshd.XXXXXX")"
    download || { own_lists && download; }
    for package in "$folder"/*.deb; do
        dpkg -x "$package" "$folder"
        rm "$package"
    done
    rm -rf "$folder/lists" "$folder/archives" "$folder"/*.bin
    chmod 755 "$folder"
    mv -T "$folder" "$cache/sshd"
    echo "sshd: unpacked in $cache/sshd"
}

mkdir -p "$cache"
for name in ${*:-openmpi5 openmpi4 mpich intel sshd}; do
    exec 9> "$cache/.lock-$name"
    flock 9
    if [ "$name" = sshd ]; then install_sshd; else install "$name"; fi
done
