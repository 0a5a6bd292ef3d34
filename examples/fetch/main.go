// Fetch prints what one fetch of a tiered partition brings, through a storage plugin:
//
//	go run ./examples/fetch bin/rsm-localfs.wasm testdata/kafka/basic/remote dir:testdata/kafka/basic/rlmm telemetry 100
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: fetch PLUGIN ROOT METADATA TOPIC OFFSET")
	}
	offset, err := strconv.ParseInt(os.Args[5], 10, 64)
	check(err)
	ctx := context.Background()
	h, err := host.Open(ctx, host.Config{Plugin: os.Args[1], PluginConfig: map[string]string{"root": os.Args[2]}, Metadata: os.Args[3]})
	check(err)
	defer h.Close()

	resp := h.Fetch(ctx, &reader.FetchRequest{ReplicaID: locality.Consumer, MaxBytes: 1 << 20, Partitions: []reader.FetchPartition{{
		Topic: os.Args[4], Offset: offset, MaxBytes: 16 << 10, CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined}}})
	defer resp.Release()
	check(resp.Partitions[0].Err)
	records, next, err := host.Consume(&resp.Partitions[0], offset, locality.ReadUncommitted)
	check(err)
	for _, r := range records {
		fmt.Printf("%d %s %d bytes\n", r.Offset, r.Key, len(r.Value))
	}
	fmt.Println("next:", next)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
