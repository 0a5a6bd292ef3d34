// main.main is declared in host_wasm.go without a body; only a package with assembly may do that.
