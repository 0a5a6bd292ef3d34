//go:build !race

package randomops

const defaultSeeds = 8
