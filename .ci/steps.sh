# What .ci/run and .ci/full share; both source it.
export CARGO_TERM_COLOR=always
mkdir -p target
# What the steps print, with the lines of skipped tests.
log=target/ci.log
# What took how long.
took=()

# step COMMAND...: runs it below a heading, and keeps its output and its time.
step() {
    printf '\n=== %s\n' "$*"
    local started=$SECONDS
    "$@" 2>&1 | tee -a "$log"
    took+=("$((SECONDS - started)) s  $*")
}

# apt PACKAGE...: has apt-get install them, where it can.
apt() {
    command -v apt-get >/dev/null || return
    local sudo
    sudo=$(command -v sudo || true)
    $sudo apt-get update -qq && $sudo apt-get install -y -qq "$@"
}

# install PROGRAM PACKAGE...: makes sure that PROGRAM is there.
install() {
    local program=$1
    shift
    command -v "$program" >/dev/null && return
    apt "$@" && command -v "$program" >/dev/null && return
    echo "missing: $program; install $*"
    return 1
}

# python_with FOLDER PACKAGE...: a Python in FOLDER with these packages of pip.
python_with() {
    local folder=$1
    shift
    python3 -c 'import ensurepip' 2>/dev/null || apt python3-venv || true
    python3 -m venv "$folder" >/dev/null 2>&1 && "$folder/bin/pip" install --quiet --timeout 20 "$@"
}

# What was left out, and how long each step took.
finish() {
    printf '\nskipped tests, each with what would make it run:\n'
    grep -ho 'skipped: .*' "$log" | sort -u || echo "none"
    printf '\nsteps\n'
    printf '  %s\n' "${took[@]}"
}
