package main

import (
	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host/replay"
)

// clientConfigFlag is how a server, which another flag names, is connected to.
func clientConfigFlag(server string) cli.Flag {
	return &cli.StringFlag{Name: server + "-config", Usage: "connect to --" + server + " as this properties `FILE` says, the one that Kafka's tools take as --command-config: security.protocol, sasl..., PEM stores"}
}

// dialServer connects to the server that a flag names.
func dialServer(c *cli.Context, server string) (*replay.Client, error) {
	var security replay.Security
	if path := c.String(server + "-config"); path != "" {
		var err error
		if security, err = replay.ReadSecurity(path); err != nil {
			return nil, err
		}
	}
	return replay.DialSecurely(c.Context, c.String(server), security)
}
