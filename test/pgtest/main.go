package pgtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

const stopTimeout = 20 * time.Second

// Main runs the tests of a package, then stops the shared cluster, removes its
// directory and exits.
func Main(m *testing.M) {
	code := m.Run()
	if err := shared.close(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	if err := home.close(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func stopContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), stopTimeout)
}
