#!/bin/sh
# The demonstration of `make demo`: real tiered data of a Kafka 4.3.1 broker, read through a WebAssembly module and
# through a process, with every step of the way shown. Ends by itself; touches nothing outside a temporary directory.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

data=testdata/kafka/txn
say() { printf '\n== %s\n\n' "$1"; }
run() { # shows the command and runs it; the trace goes to stderr, the records to stdout
	echo "\$ rsmhost $*"
	bin/rsmhost "$@" --config examples/rsmhost.yaml --cache-dir "$work/cache" --state-dir "$work/state" 2>&1
	echo
}

say "What a broker left behind: two partitions, most of it in the remote tier"
run topics
run segments -t payments -p 1

say "One read through the WebAssembly module: offset 930 lies in a tiered segment"
run fetch -t payments -p 0 --offset 930 --trace --limit 3

say "The same read again: the index comes from the cache"
run fetch -t payments -p 0 --offset 930 --trace --limit 1

say "Further on the read leaves the remote tier and goes on in the local log"
run fetch -t payments -p 0 --offset 1100 --trace --limit 1

say "The same through a process, read_committed: aborted transactions are left out"
run fetch -t payments -p 0 --offset 930 --isolation read_committed --placement process --trace --limit 3

say "Everything that was recorded of the real broker, byte for byte, through the module"
run test --kafka-exact "$data/golden/fetch.jsonl"
