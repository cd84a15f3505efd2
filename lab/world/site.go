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
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/internal/postgres"
	"payonce/lab/invariants"
)

// Options of a site.
type Options struct {
	Programs Programs
	Dir      string            // for everything that is kept; has to exist, and be one that everybody may enter
	Settings map[string]string // of PostgreSQL, beside ours
	// fsync and the like; without it a crash of PostgreSQL loses nothing, one of the machine does
	Durable bool
	Servers Servers // one, unless it is given
	// URLAs are the connection strings of servers that somebody else runs. Without it, the site has its own.
	URLAs func(role, database string) string
	Say   func(string)
}

// Site is one PostgreSQL server, or several that share the rows of tenants.
type Site struct {
	Programs Programs
	Dir      string
	Say      func(string)
	Keys     Keys

	options embeddedpg.Options
	count   Servers

	mu      sync.Mutex
	servers servers
	next    int

	hastyOnce sync.Mutex
	hasty     string // path of the reconciler that judges days which are not over; built when it is needed
}

// Keys are the API keys of the template, and so of every world. Those of Limited are acme's and an operator's, and may
// not do everything.
type Keys struct {
	Acme, Globex, Operator string
	Limited                invariants.Limited
}

// template is the database that worlds are cloned from.
const template = "world_template"

const stopLimit = 20 * time.Second

// Open starts the server and makes the template.
func Open(ctx context.Context, o Options) (_ *Site, err error) {
	s := &Site{Programs: o.Programs, Dir: o.Dir, Say: o.Say, count: o.Servers}
	if o.URLAs != nil {
		s.servers = elsewhere(o.URLAs)
		return s, s.makeTemplate(ctx)
	}
	settings := map[string]string{
		"max_connections": "400", "shared_buffers": "128MB", "jit": "off",
		// Without it, a crash of PostgreSQL forgets what it has acknowledged: a reservation, for which a charge was
		// then made.
		"synchronous_commit": "on",
	}
	maps.Copy(settings, o.Settings)
	s.options = embeddedpg.Options{
		DataDir: filepath.Join(o.Dir, "postgres"), Durable: o.Durable, Install: true, Progress: o.Say,
		Settings: settings,
	}
	if s.servers, err = o.Servers.start(ctx, s.options); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	return s, s.makeTemplate(ctx)
}

func (s *Site) makeTemplate(ctx context.Context) error {
	if err := s.servers.create(ctx, template); err != nil {
		return err
	}
	// As an administrator would: the roles by himself, the schema by the role that owns it.
	url := s.URL(template)
	if _, err := s.run(ctx, url, "roles"); err != nil {
		return err
	}
	if _, err := s.run(ctx, s.URLAs(postgres.Migrator, template), s.servers.migrate()...); err != nil {
		return err
	}
	if err := s.makeKeys(ctx, url); err != nil {
		return err
	}
	// Limits of requests have tests of their own.
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "UPDATE tenants SET requests_per_second = 100000, request_burst = 100000")
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("lift the tenants' limits: %w", err)
	}
	return s.servers.freeze(ctx, template)
}

// makeKeys makes the API keys of all worlds, as an administrator does.
func (s *Site) makeKeys(ctx context.Context, url string) error {
	l := &s.Keys.Limited
	for _, k := range []struct {
		into  *string
		ended bool
		args  string
	}{
		{&s.Keys.Acme, false, "--tenant acme"},
		{&s.Keys.Globex, false, "--tenant globex"},
		{&s.Keys.Operator, false, "--operator --scopes ops:read,ops:resolve --label world"},
		{&l.Reader, false, "--tenant acme --scopes payments:read"},
		{&l.Writer, false, "--tenant acme --scopes payments:write"},
		{&l.Ended, true, "--tenant acme"},
		{&l.OperatorReader, false, "--operator --scopes ops:read --label reader"},
		{&l.OperatorEnded, true, "--operator --label ended"},
	} {
		out, err := s.run(ctx, url, append([]string{"keys", "create"}, strings.Fields(k.args)...)...)
		if err != nil {
			return err
		}
		*k.into, _, _ = strings.Cut(out, "\n")
		if !k.ended {
			continue
		}
		_, id, _ := strings.Cut(out, "Its id is ")
		if _, err := s.run(ctx, url, "keys", "expire", "--id",
			strings.TrimSuffix(strings.TrimSpace(id), ".")); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command of the api program to its end.
func (s *Site) run(ctx context.Context, url string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.Programs.Path(API), args...)
	cmd.Env = []string{"DATABASE_URL=" + url}
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("api %s: %w\n%s", strings.Join(args, " "), err, problems.String())
	}
	return string(out), nil
}

// admin runs one statement as the superuser, beside all databases of ours.
func (s *Site) admin(ctx context.Context, sql string) error {
	s.mu.Lock()
	servers := s.servers
	s.mu.Unlock()
	return servers.everywhere(ctx, sql)
}

// URL is the superuser's connection string of a database, straight to the server.
func (s *Site) URL(database string) string { return s.URLAs(superuser, database) }

// Servers are the PostgreSQL servers, by name.
func (s *Site) Servers() map[string]*embeddedpg.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers.all()
}

// CrashPostgres ends the server as pg_ctl stop -m immediate does, and starts it again: it recovers from its log.
func (s *Site) CrashPostgres(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	s.servers, err = s.servers.crash(ctx, 0)
	return err
}

// CrashPart does the same to one of the servers that share the tenants' rows.
func (s *Site) CrashPart(ctx context.Context, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	s.servers, err = s.servers.crash(ctx, 1+n%(len(s.servers.all())-1))
	return err
}

// clone makes one more database.
func (s *Site) clone(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.next++
	name := fmt.Sprintf("world_%d", s.next)
	s.mu.Unlock()
	if err := s.admin(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		return name, err
	}
	return name, s.admin(ctx, postgres.DatabaseRights(name))
}

// URLAs is the connection string of a database for one of the roles that the programs are given.
func (s *Site) URLAs(role postgres.Role, database string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers.urlAs(string(role), database)
}

// Close ends the server and removes its data.
func (s *Site) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers.close(ctx)
}

// ServerOptions are those of the server, for another one that is to take its place.
func (s *Site) ServerOptions() embeddedpg.Options { return s.options }

// ServerProgram is the path of a program that came with the server, such as pg_basebackup. It need not exist.
func (s *Site) ServerProgram(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers.first().Program(name)
}

// LosePostgres kills the server with all its processes, as a machine that loses its power does. Nothing starts it
// again.
func (s *Site) LosePostgres() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers.first().Crash()
}

// Follow makes another server that of this site, when the one before it is lost. Worlds keep their pools and proxies:
// who wants those to find the new one has to say so in their connection strings.
func (s *Site) Follow(server *embeddedpg.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.servers.first().Done():
	default:
		return errors.New("follow another server: the one before it still runs")
	}
	if err := os.RemoveAll(s.servers.first().DataDir()); err != nil {
		return fmt.Errorf("remove the lost server's data: %w", err)
	}
	s.servers = newOne(server, s.options)
	return nil
}
