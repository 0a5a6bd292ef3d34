//go:build race

package randomops

// defaultSeeds is small: every step takes ten times as long.
const defaultSeeds = 3
