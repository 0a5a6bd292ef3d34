// Package planted holds bugs that the random-operation test (internal/randomops) must find. They are constants that are false,
// and cost nothing, unless a program is built with the tag plantedbug; then they are variables that the test sets, one at a
// time, before it opens a host.
package planted
