package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/lab/failover/standby"
	"payonce/lab/invariants"
	"payonce/lab/payers"
	"payonce/lab/world"
)

// kept is the directory below the lab's for what is of use when something is wrong.
const kept = "kept"

// stage is a site with a standby and one world, whose programs know both servers.
type stage struct {
	*world.World

	lab         *lab
	site        *world.Site
	standby     *standby.Standby
	moved       bool // the standby is the site's server
	apis        []*world.Process
	reconcilers []*world.Process
	crowd       *payers.Payers
}

// act is how a case differs from the ordinary.
type act struct {
	name        string
	synchronous bool
	env         map[string]string
}

const (
	// stopLimit bounds the end of a standby.
	stopLimit = 20 * time.Second
	// loadLimit bounds a wait for one payment.
	loadLimit = 2 * time.Minute
	// retryPause is the time before the same key is sent again.
	retryPause = 100 * time.Millisecond
	// askEvery is the pause between two looks.
	askEvery = 10 * time.Millisecond
)

// open starts two servers, a PSP, two APIs and two reconcilers.
func (l *lab) open(ctx context.Context, a act) (_ *stage, err error) {
	s := &stage{lab: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	dir := filepath.Join(l.dir, kept, a.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if s.site, err = world.Open(ctx, world.Options{Programs: l.programs, Dir: dir, Say: l.say}); err != nil {
		return nil, err
	}
	if err := l.askVersion(ctx, s.site.URL("postgres")); err != nil {
		return nil, err
	}
	s.standby, err = standby.Start(ctx, standby.Primary{
		URL: s.site.URL("postgres"), Options: s.site.ServerOptions(), Backup: s.site.ServerProgram("pg_basebackup"),
	}, filepath.Join(dir, "standby"))
	if err != nil {
		return nil, err
	}
	s.World, err = s.site.New(ctx, world.Plan{Env: a.env, NoWebhooks: l.settings.Quick,
		DatabaseURL: func(role postgres.Role) (string, error) { return either(role, s.URL, s.standby.URL(s.Name)) }})
	if err != nil {
		return nil, err
	}
	if a.synchronous {
		err = s.standby.Demand(ctx)
	} else {
		err = s.standby.Follow(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s, s.startPrograms(ctx, payers.Options{})
}

// startPrograms starts two APIs and two reconcilers, and has the clients ready.
func (s *stage) startPrograms(ctx context.Context, o payers.Options) (err error) {
	if s.apis, s.reconcilers, err = s.Start(ctx, 2, 2); err != nil {
		return err
	}
	o.Keys, o.Seed, o.Name = s.Keys, s.lab.settings.Seed, "failover"
	o.History = filepath.Join(filepath.Dir(s.apis[0].Log), "history.jsonl")
	o.Choose = func(client, try int) *world.Process { return s.apis[(client+try)%len(s.apis)] }
	s.crowd = payers.New(o)
	return nil
}

// either is the connection string by which a role finds whichever of two servers can be written to.
func either(role postgres.Role, first, second string) (string, error) {
	one, err := url.Parse(first)
	if err != nil {
		return "", err
	}
	other, err := url.Parse(second)
	if err != nil {
		return "", err
	}
	q := one.Query()
	for _, name := range []string{"host", "port"} {
		q.Set(name, q.Get(name)+","+other.Query().Get(name))
	}
	q.Set("target_session_attrs", "read-write")
	one.User = url.User(string(role))
	one.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return one.String(), nil
}

func (l *lab) askVersion(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(conn.QueryRow(ctx, "SHOW server_version").Scan(&l.version), conn.Close(ctx))
}

// lose kills the primary, and tells when it was dead.
func (s *stage) lose() time.Duration {
	s.site.LosePostgres()
	return s.crowd.Recorder.Now()
}

// promote makes the standby the site's server. The programs have to find it by themselves.
func (s *stage) promote(ctx context.Context) error {
	if err := s.standby.Promote(ctx); err != nil {
		return err
	}
	if err := s.site.Follow(s.standby.Server); err != nil {
		return err
	}
	s.moved = true
	s.DB.Close()
	s.URL = s.standby.URL(s.Name)
	var err error
	s.DB, err = pgxpool.New(ctx, s.URL)
	return err
}

// evidence is what the invariants are judged by.
func (s *stage) evidence() invariants.Evidence {
	e := invariants.Evidence{
		GracePeriod: world.GracePeriod,
		DB:          s.DB, PSP: "http://" + s.PSP.Address, History: s.crowd.Recorder.Operations(),
		APIKeys: map[string]string{"acme": s.Keys.Acme, "globex": s.Keys.Globex},
	}
	for _, api := range s.apis {
		e.APIs = append(e.APIs, "http://"+api.Address)
	}
	return e
}

// close ends everything. Logs stay.
func (s *stage) close() error {
	var errs []error
	if s.crowd != nil {
		errs = append(errs, s.crowd.Close())
	}
	if s.World != nil {
		errs = append(errs, s.Close())
	}
	if s.standby != nil {
		s.standby.Line.Close()
		if !s.moved {
			ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
			defer cancel()
			errs = append(errs, s.standby.Stop(ctx), os.RemoveAll(s.standby.DataDir()))
		}
	}
	if s.site != nil {
		errs = append(errs, s.site.Close())
	}
	return errors.Join(errs...)
}
