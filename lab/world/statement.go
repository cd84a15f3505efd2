package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"payonce/internal/postgres"
	"payonce/internal/tenants"
	"payonce/lab/invariants"
)

// Statement has the program reconcile a day, as an operator does at the command line, past all proxies.
func (w *World) Statement(ctx context.Context, day time.Time) (told invariants.Statement, err error) {
	settings := Times()
	maps.Copy(settings, w.plan.Env)
	maps.Copy(settings, w.provider("http://"+w.wire))
	maps.Copy(settings, map[string]string{
		"DATABASE_URL": w.site.URLAs(postgres.Reconciler, w.Name), "PUBLIC_URL": publicURL,
	})
	program := w.programs().Path(Reconciler)
	if w.plan.psp() == tenants.Stripe {
		if program, err = w.site.hastyReconciler(ctx); err != nil {
			return told, err
		}
	}
	cmd := exec.CommandContext(ctx, program, "statement", "--date", day.Format(time.DateOnly),
		"--format", "json")
	cmd.Env = environment(settings)
	var problems strings.Builder
	cmd.Stderr = &problems
	told.Report, err = cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		told.Exit, err = exit.ExitCode(), nil
	}
	if err == nil && told.Exit > 1 {
		err = fmt.Errorf("reconciler statement ended with %d: %s", told.Exit, problems.String())
	}
	return told, err
}

// Stripe has no settlement files. Its day is complete when it is over, and Payonce refuses to judge it before. A world
// does not live that long, so its statements are made by a reconciler in which this one constant is another.
const (
	statementSource = "internal/gateway/stripe/statement.go"
	dayMustBeOver   = "statementDelay = 10 * time.Minute"
	dayMayLast      = "statementDelay = -24 * time.Hour"
)

// hastyReconciler builds that program, once.
func (s *Site) hastyReconciler(ctx context.Context) (string, error) {
	s.hastyOnce.Lock()
	defer s.hastyOnce.Unlock()
	if s.hasty != "" {
		return s.hasty, nil
	}
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(root, statementSource))
	if err != nil {
		return "", err
	}
	hasty := strings.Replace(string(source), dayMustBeOver, dayMayLast, 1)
	if hasty == string(source) {
		return "", fmt.Errorf("%s has no %q", statementSource, dayMustBeOver)
	}
	dir := filepath.Join(s.Dir, "hasty")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	by := filepath.Join(dir, "statement.go")
	if err := os.WriteFile(by, []byte(hasty), 0o600); err != nil {
		return "", err
	}
	overlay, err := WriteOverlay(root, dir, map[string]string{statementSource: by})
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, Reconciler)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program,
		"./cmd/reconciler")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the reconciler of statements: %w\n%s", err, out)
	}
	s.hasty = program
	return program, nil
}
