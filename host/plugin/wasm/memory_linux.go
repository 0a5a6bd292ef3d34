package wasm

import "syscall"

// mapNoReserve keeps a reservation from counting as used where the system is strict about overcommitment.
const mapNoReserve = syscall.MAP_NORESERVE
