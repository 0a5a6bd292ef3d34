// Rsm-localfs is the storage plugin localfs: a process, or a Wasm module when it is built for wasip1.
package main

import (
	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/plugins/localfs"
)

func main() { sdk.Main(localfs.Plugin()) }
