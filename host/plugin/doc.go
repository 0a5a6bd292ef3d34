// Package plugin finds a plugin, loads it in the placement that its file says, checks its configuration against its own
// schema before anything is opened, and grants what that configuration names.
//
// # Concurrency
//
// A Plugin is safe for concurrent use until Close.
//
// # Errors
//
// *abi.Error in one clear sentence: NOT_FOUND where no file is, INVALID for a setting, UNSUPPORTED for what this host
// can't run, and what the placements say of a plugin that does not start.
package plugin
