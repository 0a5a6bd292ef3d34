//go:build race

package e2e

// underRace: every step takes ten times as long.
const underRace = true
