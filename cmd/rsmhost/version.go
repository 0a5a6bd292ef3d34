package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
)

// version is stamped by the Makefile: -ldflags "-X main.version=...".
var version = ""

// What was read byte for byte by the tests of this version.
const (
	testedKafka  = "4.3.1"
	testedLayout = "kafkalocal (LocalTieredStorage of Kafka 4.3.1)"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "what was built, from what, and what it was tested with",
		Flags: []cli.Flag{outputFlag("table", "json")},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			rows := [][]string{
				{"rsmhost", buildVersion()}, {"revision", revision()}, {"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
				{"plugin ABI", fmt.Sprint(abi.Version)}, {"tested with Kafka", testedKafka}, {"tested layouts", testedLayout},
			}
			if c.String("output") == "json" {
				return writeJSON(c.App.Writer, map[string]any{"version": buildVersion(), "revision": revision(), "go": runtime.Version(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH, "abiVersions": []int{abi.Version}, "testedKafka": testedKafka, "testedLayouts": []string{testedLayout}})
			}
			return writeTable(c.App.Writer, nil, rows)
		},
	}
}

func buildVersion() string {
	if version != "" {
		return version
	}
	return "devel"
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	rev, dirty := "unknown", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = ", with changes"
			}
		}
	}
	return rev + dirty
}
