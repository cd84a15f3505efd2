package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"payonce/internal/postgres"
	"payonce/lab/payers"
	"payonce/lab/world"
)

const (
	// kept is the directory below the lab's for what is of use when something is wrong.
	kept = "kept"
	// pairs is how many APIs and reconcilers each version has: two of everything.
	pairs = 2
	// refunds is how many of a hundred payments are returned in part.
	refunds = 20
	// noticeLimit bounds the wait until the balancer or the database shows what a process does.
	noticeLimit = 30 * time.Second
)

// stage is one database with programs of two versions.
type stage struct {
	*world.World

	settings    settings
	say         func(string)
	report      *report
	versions    versions
	site        *world.Site
	balancer    *balancer
	payers      *payers.Payers
	apis        []*world.Process // all that there were
	running     []*world.Process // all that should run
	old, behind []*world.Process // the old version's APIs and reconcilers
	crash       crash
	workers     int // reconcilers that were started
}

// update plays the whole of it.
func update(ctx context.Context, s settings, dir string, say func(string), r *report) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	st := &stage{settings: s, say: say, report: r, balancer: newBalancer()}
	defer func() {
		cancel()
		err = errors.Join(err, st.close())
	}()
	if st.versions, err = build(ctx, s.Old, dir, say); err != nil {
		return err
	}
	r.Old = st.versions.name
	if err := st.open(ctx, filepath.Join(dir, kept)); err != nil {
		return err
	}
	for _, step := range []struct {
		says string
		do   func(context.Context) error
	}{
		{"the old version alone, under load", st.load},
		{"the migration of the new version", st.migrate},
		{"an old API and an old reconciler crash, and come back over the newer schema", st.crashAndReturn},
		{"a new API for each old one", st.replaceAPIs},
		{"a new reconciler for each old one", st.replaceReconcilers},
		{"the new version alone; then all comes to rest", st.rest},
	} {
		say(step.says)
		if err := step.do(ctx); ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		} else if err != nil {
			r.broken("case", step.says, "%v", err)
			return nil
		}
	}
	return st.judge(ctx)
}

// open starts the old version on a database of its own schema.
func (s *stage) open(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if s.site, err = world.Open(ctx, world.Options{Programs: s.versions.old, Dir: dir, Say: s.say}); err != nil {
		return err
	}
	// The PSP is neither old nor new, and the invariants read its ledger: it is the tree's.
	s.World, err = s.site.New(ctx, world.Plan{
		Programs: &s.versions.new, Env: map[string]string{"DRAIN_DELAY": drainDelay.String()},
	})
	if err != nil {
		return err
	}
	s.balancer.run(ctx)
	s.payers = payers.New(payers.Options{
		Keys: s.Keys, Seed: s.settings.Seed, Name: "rolling", Refunds: refunds,
		History: filepath.Join(dir, "history.jsonl"), Choose: s.balancer.choose,
	})
	for i := range pairs {
		api, err := s.startAPI(ctx, s.versions.old, fmt.Sprintf("api-old-%d", i+1))
		if err != nil {
			return err
		}
		reconciler, err := s.startReconciler(ctx, s.versions.old, fmt.Sprintf("reconciler-old-%d", i+1))
		if err != nil {
			return err
		}
		s.old, s.behind = append(s.old, api), append(s.behind, reconciler)
	}
	return nil
}

// startAPI returns when the balancer sends requests to the API.
func (s *stage) startAPI(ctx context.Context, of world.Programs, name string) (*world.Process, error) {
	p, err := s.AddAPI(ctx, name)
	if err != nil {
		return nil, err
	}
	p.Program = of.Path(world.API)
	s.apis = append(s.apis, p)
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	s.running = append(s.running, p)
	s.balancer.add(p)
	return p, s.awaitChosen(ctx, p)
}

func (s *stage) awaitChosen(ctx context.Context, p *world.Process) error {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	if err := world.Until(ctx, lookEvery, func() (bool, error) { return s.balancer.has(p), nil }); err != nil {
		return fmt.Errorf("the balancer does not take %s: %w", p.Name, err)
	}
	return nil
}

func (s *stage) startReconciler(ctx context.Context, of world.Programs, name string) (*world.Process, error) {
	p, err := s.AddReconciler(name)
	if err != nil {
		return nil, err
	}
	p.Program = of.Path(world.Reconciler)
	s.workers++
	s.running = append(s.running, p)
	return p, p.Start(ctx)
}

// stop ends a process. One that has to be killed, or has ended before, could have lost what it had begun.
func (s *stage) stop(p *world.Process) {
	s.running = slices.DeleteFunc(s.running, func(each *world.Process) bool { return each == p })
	if !p.Stop() {
		s.report.broken("case", p.Name, "it has not ended in good order; its last words:\n%s", p.LastWords())
	}
}

func (s *stage) load(ctx context.Context) error {
	s.payers.Start(ctx)
	if err := s.payers.AwaitMore(ctx, s.settings.payments()); err != nil {
		return err
	}
	return s.awaitWorkers(ctx)
}

// awaitWorkers waits until each reconciler that was started has worked: River notes in a job who has had it.
func (s *stage) awaitWorkers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	worked := 0
	err := world.Until(ctx, lookEvery, func() (bool, error) {
		err := s.DB.QueryRow(ctx, "SELECT count(DISTINCT by) FROM river_job, unnest(attempted_by) AS by").Scan(&worked)
		return worked >= s.workers, err
	})
	if err != nil {
		return fmt.Errorf("%d of %d reconcilers have had a job: %w", worked, s.workers, err)
	}
	return nil
}

// migrate is the Job of the new version, which runs before its first process.
func (s *stage) migrate(ctx context.Context) error {
	began := s.payers.Recorder.Now()
	cmd := exec.CommandContext(ctx, s.versions.new.Path(world.API), "migrate")
	cmd.Env = []string{"DATABASE_URL=" + s.site.URLAs(postgres.Migrator, s.Name)}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	s.report.Facts.Tell("migration under load", "%s", (s.payers.Recorder.Now() - began).Round(time.Millisecond))
	var version int
	if err := s.DB.QueryRow(ctx, "SELECT max(version_id) FROM goose_db_version").Scan(&version); err != nil {
		return err
	}
	if version != s.versions.schema {
		s.report.broken("case", "migration", "the schema is at %d, want %d", version, s.versions.schema)
	}
	return s.payers.AwaitMore(ctx, s.settings.payments())
}

// crashAndReturn kills one process of each kind while it works. Its pod would be started again with the old version.
// A job that a killed reconciler had is taken up again after 90 seconds, so a quick run stops it in good order.
func (s *stage) crashAndReturn(ctx context.Context) error {
	api, reconciler := s.old[pairs-1], s.behind[pairs-1]
	killed := s.payers.Recorder.Now()
	api.Kill()
	if s.settings.Quick {
		s.stop(reconciler)
		s.running = append(s.running, reconciler) // again, in a moment
	} else {
		reconciler.Kill()
	}
	if err := api.Start(ctx); err != nil {
		return err
	}
	s.workers++
	if err := reconciler.Start(ctx); err != nil {
		return err
	}
	if err := s.awaitChosen(ctx, api); err != nil {
		return err
	}
	s.crash = crash{api.Name, killed, s.payers.Recorder.Now()}
	if err := s.payers.AwaitMore(ctx, s.settings.payments()); err != nil {
		return err
	}
	return s.awaitWorkers(ctx)
}

// replaceAPIs has one more API at a time than before, so that there are never fewer.
func (s *stage) replaceAPIs(ctx context.Context) error {
	for i, old := range s.old {
		if _, err := s.startAPI(ctx, s.versions.new, fmt.Sprintf("api-new-%d", i+1)); err != nil {
			return err
		}
		if err := s.payers.AwaitMore(ctx, s.settings.payments()); err != nil {
			return err
		}
		began := s.payers.Recorder.Now()
		s.stop(old)
		s.report.Facts.Tell(old.Name+" drained", "%s", (s.payers.Recorder.Now() - began).Round(time.Millisecond))
		if err := s.payers.AwaitMore(ctx, s.settings.payments()); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) replaceReconcilers(ctx context.Context) error {
	for i, old := range s.behind {
		if _, err := s.startReconciler(ctx, s.versions.new, fmt.Sprintf("reconciler-new-%d", i+1)); err != nil {
			return err
		}
		if err := s.awaitWorkers(ctx); err != nil {
			return err
		}
		s.stop(old)
	}
	return nil
}

// close ends everything. Logs stay.
func (s *stage) close() error {
	s.balancer.close()
	var errs []error
	if s.payers != nil {
		errs = append(errs, s.payers.Close())
	}
	if s.World != nil {
		errs = append(errs, s.Close())
	}
	if s.site != nil {
		errs = append(errs, s.site.Close())
	}
	return errors.Join(errs...)
}
