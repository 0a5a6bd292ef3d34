// Package sdk is what the Go author of a plugin imports. A plugin is a value and a main of one line:
//
//	func main() { sdk.Main(myfs.Plugin()) }
//
// Built for the machine it is a process plugin, built for wasip1 (GOOS=wasip1 GOARCH=wasm -buildmode=c-shared) the same
// source is a Wasm module. Embedders and tests may use the plugin in their own process by Plugin.New and NewConfig.
package sdk
