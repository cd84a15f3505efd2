// Package heldport reserves TCP ports on loopback for programs that are started later. A port that is chosen, closed
// and handed over can be given to anybody in between, by the kernel too, as the port of an outgoing connection.
//
// It replaces the search for a port that is free at the moment. It refuses to know who listens there.
package heldport

// tester is a test. Programs hold ports, too, and do not link package testing.
type tester interface {
	Helper()
	Fatal(args ...any)
	Cleanup(end func())
}

// Address is that of a port which is held until the test ends.
func Address(t tester) string {
	t.Helper()
	port, err := Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Close)
	return port.Address
}
