#!/usr/bin/env bash
# Builds small stand-ins of the public base images, under the same names, on a machine that reaches
# package registries but no image registry: so the compose file and the Dockerfiles can be built and
# run there as they are. For tests only; elsewhere the public images are pulled and this is not
# needed. Needs Debian, root, and the project's .venv (`make setup`), whose jars it takes.
#
#   infra/local-images/build.sh            engine, compose and Debian only if they are missing; the images
#   infra/local-images/build.sh engine     one of these alone (engine, compose, images)
#   infra/local-images/build.sh images debian kafka    these images alone
#   infra/local-images/build.sh anew       the images, from a Debian made anew
#
# Not to be had this way: Grafana.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=infra/local-images

say() { printf 'local-images: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }
set -a
# shellcheck source=../versions.env
. infra/versions.env
set +a

# The engine, from Debian; it goes on running when this script ends.
engine() {
    if docker info >/dev/null 2>&1; then return; fi
    if ! command -v dockerd >/dev/null; then
        say "installing the Docker engine from Debian"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io iptables tini >/dev/null
    fi
    say "starting dockerd (its log: /var/log/dockerd.log)"
    # Without what this shell has open: a lock that it inherited would be held as long as it runs.
    (
        for open in /proc/self/fd/*; do
            open=${open##*/}
            if [ "$open" -gt 2 ]; then eval "exec $open>&-"; fi
        done
        exec setsid nohup dockerd
    ) >/var/log/dockerd.log 2>&1 </dev/null &
    for _ in $(seq 60); do
        if docker info >/dev/null 2>&1; then return; fi
        sleep 0.5
    done
    tail -5 /var/log/dockerd.log >&2
    die "dockerd does not answer; its last words are above"
}

# Docker Compose 2, built from its Go module.
compose() {
    if docker compose version >/dev/null 2>&1; then return; fi
    command -v go >/dev/null || die "Docker Compose 2 is missing and so is Go, with which it is built here"
    say "building Docker Compose $COMPOSE_VERSION from its Go module"
    local scratch
    scratch=$(mktemp -d)
    (
        cd "$scratch"
        go mod init keyspread.local/compose >/dev/null 2>&1
        printf '//go:build tools\n\npackage x\n\nimport _ "github.com/docker/compose/v2/cmd"\n' > tools.go
        go get "github.com/docker/compose/v2@$COMPOSE_VERSION" >/dev/null 2>&1
        mkdir -p ~/.docker/cli-plugins
        GOFLAGS=-mod=mod go build -trimpath -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=$COMPOSE_VERSION" \
            -o ~/.docker/cli-plugins/docker-compose github.com/docker/compose/v2/cmd
    )
    rm -rf "$scratch"
}

# Debian as debootstrap makes it, with the certificates that this machine trusts besides.
debian() {
    command -v debootstrap >/dev/null || { apt-get update -qq; apt-get install -y -qq debootstrap >/dev/null; }
    local root
    root=$(mktemp -d)
    debootstrap --variant=minbase bookworm "$root" >/var/log/debootstrap-keyspread.log 2>&1 \
        || die "debootstrap failed; see /var/log/debootstrap-keyspread.log"
    printf 'deb http://deb.debian.org/debian %s main\n' bookworm bookworm-updates > "$root/etc/apt/sources.list"
    echo 'deb http://deb.debian.org/debian-security bookworm-security main' >> "$root/etc/apt/sources.list"
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
    tar -C "$root" -c . | docker import \
        --change "ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt" \
        --change "LABEL keyspread.stand-in=true" --change 'CMD ["bash"]' - "$DEBIAN_IMAGE" >/dev/null
    rm -rf "$root"
}

# Kafka from the jars of the embedded broker, with the class that reads the official image's KAFKA_*.
kafka() {
    local context version=${KAFKA_IMAGE##*:}
    context=$(mktemp -d)
    cp -r $here/kafka/. "$context"
    mkdir "$context/libs"
    .venv/bin/python - "$version" "$context/libs" <<'PYTHON'
import shutil, sys
from pipelines.jars import KAFKA_VERSION, broker_classpath
if sys.argv[1] != KAFKA_VERSION:
    sys.exit(f"infra/versions.env wants Kafka {sys.argv[1]}, the embedded broker is {KAFKA_VERSION}")
for jar in broker_classpath():
    shutil.copy(jar, sys.argv[2])
PYTHON
    build "$KAFKA_IMAGE" "$context"
    rm -rf "$context"
}

postgres() { build "$POSTGRES_IMAGE" $here/postgres; }
prometheus() { build "$PROMETHEUS_IMAGE" $here/prometheus; }
build() { docker build --quiet --build-arg "DEBIAN_IMAGE=$DEBIAN_IMAGE" --label keyspread.stand-in=true -t "$1" "$2" >/dev/null; }

# images NAME...
images() {
    local name image
    for name in "$@"; do
        image=${name^^}_IMAGE
        image=${!image}
        # Debian comes from the network; the others are built from layers that are there.
        if [ "$name" = debian ] && [ -z "${anew:-}" ] && docker image inspect "$image" >/dev/null 2>&1; then continue; fi
        say "$image"
        "$name"
    done
}

every=(debian kafka postgres prometheus)
case ${1:-all} in
all) engine; compose; images "${every[@]}" ;;
engine | compose) "$1" ;;
images) if [ $# -gt 1 ]; then images "${@:2}"; else images "${every[@]}"; fi ;;
anew) anew=yes; images "${every[@]}" ;;
*) die "usage: $0 [engine | compose | images [${every[*]}] | anew]" ;;
esac
if [ "${1:-all}" != compose ]; then
    docker image ls --filter label=keyspread.stand-in=true --filter dangling=false --format '{{.Repository}}:{{.Tag}}  {{.Size}}'
fi
