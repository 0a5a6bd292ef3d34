// Package e2e has the only tests that see host and plugins together.
package e2e
