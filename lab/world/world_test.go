package world_test

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"payonce/lab/world"
	"payonce/test/pgproxy"
)

// patience bounds every wait. Reaching it is a failure.
const patience = time.Minute

func open(t *testing.T) (context.Context, *world.Site) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	root, err := world.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "payonce-world-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	programs, err := world.Build(ctx, root, dir+"/bin", nil)
	if err != nil {
		t.Fatal(err)
	}
	site, err := world.Open(ctx, world.Options{Programs: programs, Dir: dir, Say: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, site
}

// One test, since a site is dear: a kill in the middle of a payment, a crash of PostgreSQL, a pause, and what the
// reconciler makes of it.
func TestWorldOutlivesWhatIsDoneToIt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it builds the programs, and kills each of them")
	}
	ctx, site := open(t)
	w, err := site.New(ctx, world.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	api, err := w.StartAPI(ctx, "api-1")
	if err != nil {
		t.Fatal(err)
	}
	reconciler, err := w.StartReconciler(ctx, "reconciler-1")
	if err != nil {
		t.Fatal(err)
	}
	client := world.NewClient()
	t.Cleanup(client.Close)
	pay := func(key string) (world.Answer, error) {
		return client.Do(ctx, api.Address, w.Keys.Payment(key, "pm_ok"))
	}

	// Killed when it is charged, and nobody has written it.
	held := api.DB.On("CompleteKeys", pgproxy.HoldBefore)
	go func() { _, _ = pay("key-of-the-killed-one") }()
	if err := held.Reached(ctx); err != nil {
		t.Fatal(err)
	}
	api.Kill()
	if api.Running() {
		t.Fatal("the API outlived kill -9")
	}
	api.DB.Down()
	if err := api.DB.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := site.CrashPostgres(ctx); err != nil {
		t.Fatal(err)
	}
	reconciler.Pause()
	if err := api.Start(ctx); err != nil {
		t.Fatal(err)
	}
	reconciler.Resume()
	awaitStatus(ctx, t, func() (world.Answer, error) { return pay("key-of-the-killed-one") }, http.StatusCreated)
	if n := api.PSP.Seen(world.Charge); n != 1 {
		t.Fatalf("the API has sent %d charges for one key", n)
	}
	reconciler.Stop()
	if reconciler.Running() {
		t.Fatal("the reconciler did not stop")
	}
}

// awaitStatus asks until the answer has the status.
func awaitStatus(ctx context.Context, t *testing.T, ask func() (world.Answer, error), status int) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := ask()
		if err == nil && a.Status == status {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the last answer was %d %s (%v)", a.Status, a.Body, err)
		}
	}
}
