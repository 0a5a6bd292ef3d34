//go:build race

package main

// underRace: every process takes ten times as long to start.
const underRace = true
