#!/usr/bin/env bash
# A private Docker engine with a Postgres image made from this machine's own binaries: containers without any registry.
#
#   eval "$(tests/docker/postgres-image.sh up DIR)"     start it; prints what pytest and testcontainers must know
#   tests/docker/postgres-image.sh down DIR             stop it and remove DIR
#
# Needs root and Debian's docker.io, iproute2, busybox-static and postgresql (`up` installs what is missing).
# Everything lives in DIR, which `up` makes; one network bridge of its own is added; no firewall rule is touched: published
# ports are served on 127.0.0.1 by docker-proxy.
set -euo pipefail

verb=${1:?up or down}
dir=$(readlink -m "${2:?a folder}")
image=coordinate-test/postgres:local
mark=$dir/made-by-postgres-image.sh
export DOCKER_HOST=unix://$dir/docker.sock
number=$(printf %s "$dir" | cksum | cut -d' ' -f1) # Two engines on one machine have two bridges.
bridge=pgt$((number % 1000000))
bridge_address=172.31.$((number % 250)).1/24

up() {
    [ ! -e "$dir" ] || [ -e "$mark" ] || fail "$dir exists and is not ours"
    install_missing
    mkdir -p "$dir"
    touch "$mark"
    if ! docker_answers; then start_engine; fi # Not `||`: that would switch off `set -e` within.
    if ! docker image inspect "$image" >/dev/null 2>&1; then import_image; fi
    # testcontainers takes this machine for a container when /.dockerenv exists, and would then look for the wrong address.
    cat <<END
export DOCKER_HOST=$DOCKER_HOST COORDINATE_TEST_PG_IMAGE=$image
export TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_CONNECTION_MODE=docker_host TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
END
}

down() {
    [ -e "$dir" ] || return 0
    [ -e "$mark" ] || fail "$dir is not ours"
    if docker_answers; then
        docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes >/dev/null
    fi
    stop_engine
    ip link delete "$bridge" 2>/dev/null || true
    rm -rf "$dir"
}

install_missing() {
    local missing=()
    command -v dockerd >/dev/null || missing+=(docker.io)
    command -v ip >/dev/null || missing+=(iproute2)
    command -v busybox >/dev/null || missing+=(busybox-static)
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
    [ ${#missing[@]} = 0 ] && return
    apt-get update -qq </dev/null >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "${missing[@]}" </dev/null >&2
}

start_engine() {
    local driver
    if ! ip link show "$bridge" >/dev/null 2>&1; then
        ip link add "$bridge" type bridge
        ip address add "$bridge_address" dev "$bridge"
        ip link set "$bridge" up
    fi
    for driver in overlay2 vfs; do # overlay2 is fast, but does not work on every file system.
        setsid dockerd --host "$DOCKER_HOST" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" \
            --storage-driver "$driver" --bridge "$bridge" --ip 127.0.0.1 --iptables=false --ip6tables=false \
            --ip-forward=false --ip-masq=false >"$dir/dockerd-$driver.log" 2>&1 </dev/null &
        wait_for_engine $! && return
        stop_engine
    done
    tail -n 20 "$dir"/dockerd-*.log >&2
    fail "the Docker engine does not start"
}

wait_for_engine() {
    for _ in $(seq 150); do
        docker_answers && return
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.2
    done
    return 1
}

docker_answers() { docker version >/dev/null 2>&1; }

stop_engine() {
    local pid
    pid=$(cat "$dir/dockerd.pid" 2>/dev/null) || return 0
    kill "$pid" 2>/dev/null || return 0
    for _ in $(seq 150); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$pid"
}

import_image() {
    local root=$dir/image
    fill_image "$root"
    tar --create --directory "$root" . | docker import --change 'ENTRYPOINT ["/entrypoint.sh"]' \
        --change 'CMD ["postgres"]' --change 'EXPOSE 5432' - "$image" >/dev/null
    rm -rf "$root"
}

# Postgres, busybox as the shell, and the libraries they load: nothing else.
fill_image() {
    local root=$1 bin version tool
    bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort --version-sort | tail -n 1)
    version=$(basename "$(dirname "$bin")")
    mkdir -p "$root"/{bin,dev,etc,proc,root,run/postgresql,sys,tmp,usr/bin,usr/share/zoneinfo,var/lib/postgresql}
    ln -s /run "$root/var/run"
    chmod 1777 "$root/tmp"
    # The compiler for queries (JIT) weighs more than all the rest, and Postgres does without it.
    tar --create --directory / --exclude=bitcode --exclude='llvmjit*' --exclude=man \
        "usr/lib/postgresql/$version" "usr/share/postgresql/$version" | tar --extract --directory "$root"
    cp --archive --dereference /usr/share/zoneinfo/{UTC,Etc} "$root/usr/share/zoneinfo/"
    cp --dereference "$(command -v busybox)" "$root/bin/busybox"
    cp --dereference "$(command -v setpriv)" "$root/usr/bin/setpriv"
    for tool in $(busybox --list); do
        [ "$tool" = busybox ] || ln -s busybox "$root/bin/$tool"
    done
    for tool in psql pg_isready; do
        ln -s "$bin/$tool" "$root/usr/bin/$tool"
    done
    copy_libraries "$root"
    printf '%s\n' root:x:0:0::/root:/bin/sh postgres:x:999:999::/var/lib/postgresql:/bin/sh >"$root/etc/passwd"
    printf '%s\n' root:x:0: postgres:x:999: >"$root/etc/group"
    write_entrypoint "$root/entrypoint.sh"
}

copy_libraries() {
    local root=$1 library
    # ldd fails on what is no dynamic program; such files need nothing.
    { find "$root/usr/bin/setpriv" "$root"/usr/lib/postgresql -type f \( -perm -u+x -o -name '*.so' \) -print0 |
        xargs --null ldd 2>/dev/null || true; } | grep --only-matching '/[^ ]* (0x' | cut -d' ' -f1 | sort --unique |
        while read -r library; do
            mkdir -p "$root$(dirname "$library")"
            [ -e "$root$library" ] || cp --dereference "$library" "$root$library"
        done
}

# The part of the official image's behaviour that the tests rely on.
write_entrypoint() {
    cat >"$1" <<'END'
#!/bin/sh
set -eu
: "${POSTGRES_PASSWORD:?}" "${POSTGRES_USER:=postgres}" "${PGDATA:=/var/lib/postgresql/data}"
PATH=$(echo /usr/lib/postgresql/*/bin):/usr/bin:/bin
export PATH PGDATA
as_postgres="/usr/bin/setpriv --reuid=postgres --regid=postgres --clear-groups" # By path: busybox has a lesser one.
mkdir -p "$PGDATA"
chown postgres:postgres "$PGDATA" /run/postgresql
chmod 700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf %s "$POSTGRES_PASSWORD" >/tmp/password
    $as_postgres initdb -U "$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 \
        ${POSTGRES_INITDB_ARGS:-} >/dev/null
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
fi
exec $as_postgres "$@"
END
    chmod 755 "$1"
}

fail() {
    echo "$(basename "$0"): $1" >&2
    exit 1
}

case $verb in
    up | down) "$verb" ;;
    *) fail "up or down, not $verb" ;;
esac
