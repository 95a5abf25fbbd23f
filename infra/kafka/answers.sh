#!/usr/bin/env bash
# Whether the broker in this container answers: an ApiVersions request (key 18, version 0,
# correlation id 1, no client id) gets at least a length and the same correlation id back.
set -eu
exec 3<>"/dev/tcp/127.0.0.1/${1:-9092}"
printf '\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff' >&3
answer=$(head -c 8 <&3 | od -An -tx1 | tr -d ' \n')
[ "${answer:8}" = 00000001 ]
