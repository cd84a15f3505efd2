package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"time"

	"payonce/internal/postgres"
	"payonce/lab/invariants"
)

// Statement has the program reconcile a day, as an operator does at the command line, past all proxies.
func (w *World) Statement(ctx context.Context, day time.Time) (told invariants.Statement, err error) {
	settings := Times()
	maps.Copy(settings, w.plan.Env)
	maps.Copy(settings, map[string]string{
		"DATABASE_URL": w.site.urlAs(postgres.Reconciler, w.Name), "PSP_URL": "http://" + w.PSP.Address,
		"PSP_SECRET": pspSecret,
		"PUBLIC_URL": "http://payonce.test",
	})
	cmd := exec.CommandContext(ctx, w.programs().Path(Reconciler), "statement", "--date", day.Format(time.DateOnly),
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
