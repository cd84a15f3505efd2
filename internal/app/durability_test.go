package app_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// warnings gives the lines of the log that speak of forgetting.
type warnings struct{ found chan string }

func (w warnings) Write(p []byte) (int, error) {
	if line := string(p); strings.Contains(line, "may forget payments") {
		w.found <- line
	}
	return len(p), nil
}

// The servers of the tests are such ones: they are fast.
func TestBothProcessesWarnOfAServerThatMayForget(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"DATABASE_URL": pgtest.NewURL(t), "PSP_SECRET": mockpsp.DefaultConfig().Secret, "HTTP_ADDR": "127.0.0.1:0",
		"OPERATOR_ADDR": "127.0.0.1:0",
	}
	for name, start := range map[string]func(context.Context, *slog.Logger) func() error{
		"api": func(ctx context.Context, log *slog.Logger) func() error {
			a, err := app.NewAPI(ctx, settings(t, env), log)
			if err != nil {
				t.Fatal(err)
			}
			return func() error { return a.Run(ctx, func() {}) }
		},
		"reconciler": func(ctx context.Context, log *slog.Logger) func() error {
			c, err := config.LoadReconciler(func(name string) string { return env[name] })
			if err != nil {
				t.Fatal(err)
			}
			r, err := app.NewReconciler(ctx, c, log)
			if err != nil {
				t.Fatal(err)
			}
			return func() error { return r.Work(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			told := warnings{make(chan string, 1)}
			run, ended := start(ctx, slog.New(slog.NewTextHandler(told, nil))), make(chan error, 1)
			go func() { ended <- run() }()
			defer func() {
				interrupt()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			line := wait.For(t, "the warning", told.found)
			if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "synchronous_commit = off") {
				t.Error(line)
			}
		})
	}
}
