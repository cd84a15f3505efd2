package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/lab/bench/load"
	"payonce/lab/bench/meter"
	"payonce/lab/world"
)

// side is one of the two that are compared.
type side struct {
	name string
	dir  string
	site *world.Site
	w    *world.World
	api  *world.Process

	meter    *meter.Meter
	keys     []string // API keys of the tenants
	measured []measured
	answers  map[int]int64 // by status
	quotes   []string
}

// measured is a case, a figure for each round.
type measured struct {
	total, p50, prepared []float64            // ms, ms, each for one payment
	cpu                  map[string][]float64 // ms, by server
}

const (
	manyTenants = 8
	noLimit     = 100_000 // requests per second of a tenant
	// sliceLimit ends a measurement sooner: the ratio is of payments, however many they are.
	sliceLimit = 120.0
)

// openSide starts a site and an API.
func openSide(ctx context.Context, name string, o world.Options) (_ *side, err error) {
	s := &side{name: name, dir: o.Dir, answers: map[int]int64{}, measured: make([]measured, len(costCases()))}
	for i := range s.measured {
		s.measured[i].cpu = map[string][]float64{}
	}
	if s.meter, err = meter.New(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(o.Dir, 0o755); err != nil {
		return nil, err
	}
	o.Settings = map[string]string{
		"wal_keep_size": "512MB", // what was written in a measurement is read after it
		// The statement that has failed says why an answer was not 201. All keys and tokens are those of this run.
		"log_min_error_statement": "error", "log_error_verbosity": "default",
	}
	if s.site, err = world.Open(ctx, o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	// A world's own times are short. Three servers on a busy machine would exceed them, and the answers be 202 and 503.
	times := map[string]string{
		"DB_ACQUIRE_TIMEOUT": "9s", "DB_STATEMENT_TIMEOUT": "12s", "PSP_TIMEOUT": "15s", "LEASE": "45s",
	}
	if s.w, err = s.site.New(ctx, world.Plan{Env: times, NoWebhooks: true}); err != nil {
		return nil, err
	}
	var names []string
	for i := range manyTenants {
		names = append(names, fmt.Sprintf("payer-%d", i+1))
		key, err := s.w.AddTenant(ctx, names[i], noLimit)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, key)
	}
	for _, server := range s.site.Servers() {
		if err := execute(ctx, server, "CREATE EXTENSION pg_walinspect"); err != nil { // to read what was written
			return nil, err
		}
	}
	if o.Servers > 1 {
		if err := s.bothHave(ctx, names); err != nil {
			return nil, err
		}
	}
	s.api, err = s.w.StartAPI(ctx, "api-1")
	return s, err
}

// bothHave fails if the tenants' rows do not lie on both workers, three of the eight on each at least.
func (s *side) bothHave(ctx context.Context, names []string) error {
	counts, err := s.w.Spread(ctx, names)
	if err == nil && slices.Min(counts) < 3 {
		err = fmt.Errorf("of the tenants, the workers have %v", counts)
	}
	return err
}

// pay makes payments and measures nothing.
func (s *side) pay(ctx context.Context, c costCase, payments int64) error {
	_, err := s.load(ctx, c, payments)
	return err
}

func (s *side) load(ctx context.Context, c costCase, payments int64) (load.Result, error) {
	r, err := load.Run(ctx, load.Plan{Address: s.api.Address, Kind: load.New, Clients: c.clients, Seconds: sliceLimit,
		Requests: payments, APIKeys: s.keys[:c.tenants]})
	if err != nil {
		return r, err
	}
	for status, n := range r.Answers {
		s.answers[status] += n
	}
	s.quotes = append(s.quotes, r.Quotes...)
	if r.Requests == 0 || r.Lost > 0 {
		return r, errors.Join(r.Clean(0), ctx.Err())
	}
	return r, ctx.Err()
}

// odd is how many answers were not 201. Those are no mistakes by themselves, but nobody has hindered these payments.
func (s *side) odd() (n int64) {
	for status, of := range s.answers {
		if status != http.StatusCreated {
			n += of
		}
	}
	return n
}

// measure makes payments, and adds what they took.
func (s *side) measure(ctx context.Context, i int, c costCase, payments int64) error {
	before, err := s.read(ctx)
	if err != nil {
		return err
	}
	r, err := s.load(ctx, c, payments)
	if err != nil {
		return err
	}
	m, each := &s.measured[i], 1/float64(r.Requests)
	var total time.Duration
	var prepared int64
	for name, server := range s.site.Servers() {
		after, err := s.meter.Tree(name, server.PID()).CPU()
		if err != nil {
			return err
		}
		used := after - before[name].cpu
		total += used
		m.cpu[name] = append(m.cpu[name], millis(used)*each)
	}
	// What is counted here takes CPU, so it is counted when that of all is known.
	for name, server := range s.site.Servers() {
		n, err := preparedSince(ctx, server, before[name].wal)
		if err != nil {
			return err
		}
		prepared += n
	}
	m.total = append(m.total, millis(total)*each)
	m.p50 = append(m.p50, r.P50Micros/1000)
	m.prepared = append(m.prepared, float64(prepared)*each)
	return nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

// reading is where a server was before a measurement.
type reading struct {
	wal string
	cpu time.Duration
}

func (s *side) read(ctx context.Context) (map[string]reading, error) {
	all := map[string]reading{}
	for name, server := range s.site.Servers() {
		var r reading
		err := ask(ctx, server, &r.wal, mark)
		if err != nil {
			return nil, err
		}
		if r.cpu, err = s.meter.Tree(name, server.PID()).CPU(); err != nil {
			return nil, err
		}
		all[name] = r
	}
	return all, nil
}

// mark writes to a server's log of what it has written, and says where.
const mark = "SELECT pg_logical_emit_message(true, 'cost', '')::text"

// preparedSince counts the first halves of two-phase commits in that log, from one mark to another. Each has to be
// there, and to read it afterwards costs a payment nothing.
func preparedSince(ctx context.Context, server *embeddedpg.Server, from string) (n int64, err error) {
	var to string
	if err := ask(ctx, server, &to, mark); err != nil {
		return 0, err
	}
	err = ask(ctx, server, &n, `SELECT count(*) FROM pg_get_wal_records_info($1::text::pg_lsn, $2::text::pg_lsn)
		WHERE resource_manager = 'Transaction' AND record_type = 'PREPARE'`, from, to)
	return n, err
}

func ask(ctx context.Context, server *embeddedpg.Server, into any, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, sql, args...).Scan(into)
	return errors.Join(err, conn.Close(ctx))
}

func execute(ctx context.Context, server *embeddedpg.Server, statements ...string) error {
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	for _, sql := range statements {
		if _, err = conn.Exec(ctx, sql); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

func (s *side) names() []string { return slices.Sorted(maps.Keys(s.measured[0].cpu)) }
func (s *side) statuses() []int { return slices.Sorted(maps.Keys(s.answers)) }

// close ends what openSide has started.
func (s *side) close() error {
	var err error
	if s.w != nil {
		err = s.w.Close()
	}
	return errors.Join(err, s.site.Close())
}

// keepLogs copies the logs of the API, the PSP and all servers to where they outlive the run, with what the answers
// said and the problems that the API has told. It does nothing if all answers were 201.
func (s *side) keepLogs(to string, say func(string)) error {
	to = filepath.Join(to, strings.ReplaceAll(s.name, " ", "-"))
	if err := os.RemoveAll(to); err != nil || len(s.quotes) == 0 {
		return err // of a run before
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files := os.DirFS(s.dir)
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".log" {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, strings.ReplaceAll(path, "/", "-")), text, 0o600)
	})
	if err != nil {
		return err
	}
	said := slices.Clone(s.quotes)
	log, err := os.Open(s.api.Log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), `"level":"WARN"`) || strings.Contains(lines.Text(), `"level":"ERROR"`) {
			said = append(said, lines.Text())
		}
	}
	say(fmt.Sprintf("%s: not all answers were 201; see %s:\n%s", s.name, to,
		strings.Join(said[:min(len(said), 5)], "\n")))
	return os.WriteFile(filepath.Join(to, "problems.txt"), []byte(strings.Join(said, "\n")+"\n"), 0o600)
}
