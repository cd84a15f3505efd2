// Package embeddedpg runs a private PostgreSQL cluster as a child process, for
// the demo and for tests.
//
// It owns the way from nothing to a server that accepts connections: finding
// PostgreSQL's programs (or installing them, where that is allowed), choosing
// the user that the server runs as, creating the cluster once, holding off a
// second starter, clearing what a killed predecessor left, and stopping.
//
// It refuses to know what the databases hold: no migrations, no schema, no
// DATABASE_URL. Callers that have a server already don't come here.
//
// Invariants:
//
//   - The server has no port. It listens on a Unix socket inside a directory
//     that only the server's user (and root) can enter, so everybody who gets
//     that far is trusted.
//   - One starter per data directory: an flock is held from before the cluster
//     is looked at until the server has exited.
//   - A cluster directory is either complete (it carries the marker) or absent.
//     initdb works in a directory of another name, which is renamed at the end.
//   - The server dies with its parent, however the parent dies (Linux). Where
//     the system offers no such thing, the next starter stops the orphan.
//   - The server never runs as root, because PostgreSQL refuses to.
//   - Statements and their values do not reach the server's log file.
//
// Layout of the data directory:
//
//	lock          held by the starter; contains its process id
//	pg15/         the cluster of major version 15
//	pg15.log      what the server of this start said; pg15.log.1 the one before
//	run/          the socket, when the path is short enough for one
//	cache/        PostgreSQL from npm, when that had to be installed
package embeddedpg
