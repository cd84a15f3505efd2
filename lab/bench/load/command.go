package load

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Command carries out the plan that is on stdin as JSON and writes its Result to stdout. It is meant for a process of
// its own, whose CPU can be told from everybody else's, and takes the process for its own: it runs on one thread,
// because threads that look for work, and wake each other, cost more than the requests do.
func Command(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var p Plan
	if err := json.UnmarshalRead(stdin, &p, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	result, err := Run(ctx, p)
	if err != nil {
		return err
	}
	if err := json.MarshalWrite(stdout, result, json.Deterministic(true), jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
