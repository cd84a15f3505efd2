// Package standby runs a second PostgreSQL that follows a first one, and takes its place.
//
// It owns the copy (pg_basebackup), the line between the two, which can be cut as a network is, what the primary waits
// for, and the promotion. It refuses to know what is in the databases and who uses them.
//
// Invariant: a standby that is promoted waits for nobody. The primary's synchronous_standby_names is set after the copy
// was made, in the primary's own file, so the copy does not have it.
package standby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/lab/world"
)

// Name is what the primary knows the standby by.
const Name = "standby"

// ErrNoBackup says that this PostgreSQL came without pg_basebackup, as the one from npm does.
var ErrNoBackup = errors.New("pg_basebackup is missing")

// Primary is who to follow.
type Primary struct {
	URL     string             // of any database on it, as a superuser
	Options embeddedpg.Options // that it was started with
	Backup  string             // path of its pg_basebackup
}

// Standby is a server that follows another one, until it is promoted.
type Standby struct {
	*embeddedpg.Server
	Line *world.Line // between the two; it ends with Close

	primary string
}

// promoteLimit bounds the wait for a promotion. It takes a moment.
const promoteLimit = 30 * time.Second

// Start copies the primary into dir and follows it. It does not make the primary wait: see Demand.
func Start(ctx context.Context, p Primary, dir string) (_ *Standby, err error) {
	if _, err := os.Stat(p.Backup); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	cfg, err := pgx.ParseConfig(p.URL)
	if err != nil {
		return nil, err
	}
	line, err := world.OpenLine(p.URL)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			line.Close()
		}
	}()
	if err := backup(ctx, p, cfg.User, line, dir); err != nil {
		return nil, err
	}
	o := p.Options
	o.DataDir = dir
	server, err := embeddedpg.Start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start the standby: %w", err)
	}
	return &Standby{Server: server, Line: line, primary: p.URL}, nil
}

// backup makes the copy. The server that is started there owns its files from then on.
func backup(ctx context.Context, p Primary, user string, line *world.Line, dir string) error {
	var version string
	if err := query(ctx, p.URL, "SHOW server_version_num", &version); err != nil {
		return err
	}
	number, err := strconv.Atoi(version)
	if err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	// The server's user has to pass through, whatever our umask says.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	host, port := line.Address()
	conninfo := fmt.Sprintf("host=%s port=%s user=%s application_name=%s sslmode=disable gssencmode=disable", host,
		port, user, Name)
	// Where embeddedpg looks for a cluster of this version.
	cluster := filepath.Join(dir, fmt.Sprintf("pg%d", number/10000))
	cmd := exec.CommandContext(ctx, p.Backup, "-D", cluster, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d",
		conninfo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run pg_basebackup: %w: %s", err, out)
	}
	return nil
}

// Demand makes the primary wait for the standby with every commit, and returns when it does.
func (s *Standby) Demand(ctx context.Context) error {
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (" + Name + ")'",
		"SELECT pg_reload_conf()"} {
		if err := query(ctx, s.primary, sql); err != nil {
			return err
		}
	}
	return s.awaitState(ctx, "sync")
}

// Follow returns when the standby streams.
func (s *Standby) Follow(ctx context.Context) error { return s.awaitState(ctx, "async") }

func (s *Standby) awaitState(ctx context.Context, state string) error {
	return world.Until(ctx, 10*time.Millisecond, func() (bool, error) {
		var n int
		err := query(ctx, s.primary,
			"SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND application_name = '"+
				Name+"' AND sync_state = '"+state+"'", &n)
		return n == 1, err
	})
}

// Promote makes it a primary. The old one has to be gone, or fenced: this package cannot know.
func (s *Standby) Promote(ctx context.Context) error {
	var done bool
	sql := fmt.Sprintf("SELECT pg_promote(true, %d)", int(promoteLimit.Seconds()))
	if err := query(ctx, s.URL("postgres"), sql, &done); err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("promote the standby: not done within %s", promoteLimit)
	}
	return nil
}

// query runs one statement on a connection of its own. A read that finds a row puts it into the places given.
func query(ctx context.Context, url, sql string, into ...any) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	if len(into) == 0 {
		_, err = conn.Exec(ctx, sql)
	} else {
		err = conn.QueryRow(ctx, sql).Scan(into...)
	}
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
