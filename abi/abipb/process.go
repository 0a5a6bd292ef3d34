package abipb

import "github.com/rsmhost/rsmhost/abi"

// What host and plugin of the process form must agree on beside the messages (ABI.md, section 6). The handshake itself is
// go-plugin's.
const (
	// HandshakeVersion is the version in the handshake line: the service rsm.plugin.v1. It changes with abi.Version.
	HandshakeVersion = abi.Version

	// CookieKey and CookieValue stand in a plugin's environment when a host starts it. They keep no secret: they let a plugin
	// that a person starts say what it is.
	CookieKey   = "RSM_PLUGIN_COOKIE"
	CookieValue = "6d1f0e6e1c7b4a5f9a3d2b8e7c4f1a90"

	// LifelineEnv names the inherited descriptor of a pipe that the host holds open. End of file there means that the host
	// is gone, or wants the plugin gone.
	LifelineEnv = "RSM_LIFELINE_FD"

	// HealthService is the service that gRPC's health check asks for, by go-plugin's convention.
	HealthService = "plugin"

	// DefaultFrame and MaxFrame are the bytes of data in one FetchReply.
	DefaultFrame = 256 << 10
	MaxFrame     = 1 << 20
)
