package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
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

// onePartition is the one that -p names, of those that a server has. That it has no such one is a finding.
func onePartition(c *cli.Context, server *replay.Client, has []int32) ([]int32, error) {
	p := int32(c.Int("partition"))
	if !slices.Contains(has, p) {
		return nil, statusOne{abi.Errorf("find partition", fmt.Sprintf("%s-%d", c.String("topic"), p), abi.NotFound, "%s has the partitions %v", server.Address(), has)}
	}
	return []int32{p}, nil
}
