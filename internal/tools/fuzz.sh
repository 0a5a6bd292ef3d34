#!/bin/sh
# Runs every fuzz target of the module, each for the time given (20s where none is).
set -eu
time=${1:-20s}
go list -f '{{.Dir}} {{.ImportPath}}' ./... | while read -r dir pkg; do
	grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u | while read -r target; do
		echo "== $pkg $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s -parallel 2 "$pkg"
	done
done
