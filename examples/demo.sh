#!/bin/sh
# The demonstration of `make demo`: real tiered data of a Kafka 4.3.1 broker, read through a WebAssembly module and
# through a process, with every step of the way shown; then served, and consumed by a Kafka client. Ends by itself; touches
# nothing outside a temporary directory, and leaves no process behind.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
server= # process id of the running `rsmhost serve`
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

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

waits() { # until a command succeeds, for at most 20 seconds
	left=200
	until "$@"; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || return 1
		sleep 0.1
	done
}
ended() { ! kill -0 "$server" 2>/dev/null; }
answered() { grep -q 'kcat -b' "$work/log" || ended; } # which is the last that it says
serve() { # starts a server on a free port; its address is the first line of its stdout
	echo "\$ rsmhost serve --listen 127.0.0.1:0"
	: >"$work/log"
	bin/rsmhost serve --listen 127.0.0.1:0 --config examples/rsmhost.yaml --cache-dir "$work/cache" --state-dir "$work/state" >"$work/address" 2>"$work/log" &
	server=$!
	waits answered || true
	address=$(head -n 1 "$work/address")
	cat "$work/log"
	[ -n "$address" ] # or it said why not
	echo
}
stop() { # ends the server by its process id
	[ -n "$server" ] || return 0
	kill "$server" 2>/dev/null || true
	waits ended || kill -9 "$server"
	wait "$server" 2>/dev/null || true
	server=
}
consume() { # reads as a member of a group into a file
	into=$1
	shift
	echo "\$ consume -group demo -read-committed $* $address payments"
	"$work/consume" -group demo -read-committed "$@" "$address" payments >"$into" 2>"$into.log" || { cat "$into.log"; exit 1; }
}
go build -o "$work/consume" ./examples/consume

say "The same data, served: to Kafka clients it is a broker. A consumer group reads 700 records (examples/consume), and ends here in each partition"
serve
consume "$work/first" -n 700 -idle 20s
awk -F '\t' '{ last[$1] = $0 } END { for (p in last) print last[p] }' "$work/first" | sort -n | cut -c 1-100

say "The server ends and starts again, on another port: the group goes on where it was, to the end. It begins here"
stop
serve
consume "$work/rest" -idle 3s
awk -F '\t' '!seen[$1]++' "$work/rest" | sort -n | cut -c 1-100
twice=$(cut -f 1,2 "$work/first" "$work/rest" | sort | uniq -d | wc -l)
printf '%d records, then %d; %d of them twice\n' "$(wc -l <"$work/first")" "$(wc -l <"$work/rest")" "$twice"
[ "$(cat "$work/first" "$work/rest" | wc -l)" -eq 1316 ] && [ "$twice" -eq 0 ] # which is what the broker gave

if command -v kcat >/dev/null; then
	say "And with kcat"
	echo "\$ kcat -b $address -C -t payments -p 0 -o 930 -c 3"
	kcat -q -b "$address" -C -t payments -p 0 -o 930 -c 3 -f '%p\t%o\t%k\t%s\n' | cut -c 1-100
fi
