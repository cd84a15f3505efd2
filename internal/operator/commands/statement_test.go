package commands

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/cli"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/judge"
	"payonce/internal/postgres"
	"payonce/internal/statement"
	"payonce/internal/telemetry"
	"payonce/test/pgtest"
)

const (
	statementPatience = 20 * time.Second
	statementHeader   = "id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,feeCents,netCents,createdAt\r\n"
	oneBreak          = statementHeader + "ch_x,charge,key,,,5,EUR,succeeded,0,1,2026-03-10T02:00:00Z\r\ntotal,1,,,,,,,,,\r\n"
	noBreak           = statementHeader + "total,0,,,,,,,,,\r\n"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// statementCall is the two streams of a person who has called the command.
type statementCall struct {
	t           *testing.T
	deps        StatementDeps
	config      statement.Config
	out, errors bytes.Buffer
	mu          sync.Mutex
	paths       []string
}

// statementServer is the command in front of a PSP that publishes these files, by account, for every day.
func statementServer(t *testing.T, files map[string]string) *statementCall {
	t.Helper()
	term := &statementCall{t: t}
	pool := pgtest.New(t)
	pgtest.Exec(t, pool, "INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme'), ('globex', 'globex')")
	config := statement.DefaultConfig()
	config.DB, config.NewID = postgres.Wrap(pool, statementPatience), uuid.NewV7
	config.Payments, config.Metrics = noEvidence{}, telemetry.NewMetrics(prometheus.NewRegistry())
	config.PSPs = statementPSP(t, func(w http.ResponseWriter, r *http.Request) {
		term.mu.Lock()
		term.paths = append(term.paths, r.Header.Get("PSP-Account")+" "+r.URL.Path)
		term.mu.Unlock()
		if file := files[r.Header.Get("PSP-Account")]; file != "" {
			_, _ = w.Write([]byte(file))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	term.config = config
	term.deps = StatementDeps{
		Deps: Deps[statement.Config]{Stdout: &term.out,
			Open: func() (statement.Config, func(), error) { return term.config, func() {}, nil }},
		Stderr: &term.errors, Now: time.Now,
	}
	return term
}

// noEvidence leaves all breaks alone.
type noEvidence struct{}

func (noEvidence) BreakTx(context.Context, pgx.Tx, judge.Break) (bool, error) { return false, nil }

func statementPSP(t *testing.T, h http.HandlerFunc) gateway.PSPs {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	psp, err := native.New(server.URL, "test-psp-secret", gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	return gateway.PSPs{native.Name: psp}
}

func (c *statementCall) run(args ...string) error { return Statement(c.t.Context(), args, c.deps) }

func TestStatementExitCodeTellsBreaksFromFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		acme, globex string
		exit         int
		says         string
	}{
		"all agrees":          {noBreak, noBreak, 0, "No breaks."},
		"breaks":              {oneBreak, noBreak, 1, "missing_here"},
		"breaks, and failure": {oneBreak, "", 2, "missing_here"},
		"failure":             {"", "", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := statementServer(t, map[string]string{"acme": c.acme, "globex": c.globex})
			err := term.run("--date", "2026-03-10")
			if got := cli.Code(err); got != c.exit || !strings.Contains(term.out.String(), c.says) {
				t.Fatalf("exit %d, %v\n%s", got, err, term.out.String())
			}
			if term.errors.Len() > 0 {
				t.Fatalf("progress without a terminal: %q", term.errors.String())
			}
		})
	}
}

func TestStatementIsOfYesterdayUnlessTold(t *testing.T) {
	t.Parallel()
	term := statementServer(t, map[string]string{"acme": noBreak})
	before := time.Now().UTC()
	if err := term.run("--account", "acme"); err != nil {
		t.Fatal(err)
	}
	after := time.Now().UTC()
	want := []string{
		"acme /v1/settlements/" + before.AddDate(0, 0, -1).Format(time.DateOnly) + ".csv",
		"acme /v1/settlements/" + after.AddDate(0, 0, -1).Format(time.DateOnly) + ".csv",
	}
	if len(term.paths) != 1 || (term.paths[0] != want[0] && term.paths[0] != want[1]) {
		t.Fatalf("asked for %v", term.paths)
	}
}

func TestStatementOfTodayAndYesterdayByName(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]int{"today": 0, "yesterday": -1} {
		term := statementServer(t, map[string]string{"acme": noBreak})
		before := time.Now().UTC()
		if err := term.run("--account", "acme", "--date", name); err != nil {
			t.Fatal(err)
		}
		after := time.Now().UTC()
		if want := func(at time.Time) string {
			return "acme /v1/settlements/" + at.AddDate(0, 0, offset).Format(time.DateOnly) + ".csv"
		}; len(term.paths) != 1 || (term.paths[0] != want(before) && term.paths[0] != want(after)) {
			t.Errorf("--date %s asked for %v", name, term.paths)
		}
	}
}

func TestStatementArgumentsThatCannotBe(t *testing.T) {
	t.Parallel()
	term := statementServer(t, nil)
	for _, args := range [][]string{
		{"--date", "19.11.2026"}, {"--date", "2026-02-30"}, {"--date", "Today"}, {"--date", ""}, {"--format", "xml"},
		{"--account", ""}, {"yesterday"}, {"--since", "1"},
		{"--output", filepath.Join(t.TempDir(), "none", "report")}, {"--output", t.TempDir()}, {"--account", "nobody"},
	} {
		err := term.run(append(args, "--date=2026-03-10")...)
		if args[0] == "--date" {
			err = term.run(args...)
		}
		if cli.Code(err) != 2 {
			t.Errorf("%v: %v", args, err)
		}
	}
	if len(term.paths) > 0 || term.out.Len() > 0 {
		t.Errorf("asked for %v, said %q", term.paths, term.out.String())
	}
}

func TestStatementHelpNamesExitCodes(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--help", "-h", "-help"} {
		term := statementServer(t, nil)
		if err := term.run(flag); err != nil || !strings.Contains(term.out.String(), "Exit code: 0") {
			t.Errorf("%s: %v, %q", flag, err, term.out.String())
		}
	}
}

func TestStatementOutputAppearsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "report.csv")
	term := statementServer(t, map[string]string{"acme": oneBreak})
	if err := term.run("--date", "2026-03-10", "--account", "acme", "--format", "csv", "--output",
		name); !errors.Is(err, statement.ErrBreaks) {
		t.Fatal(err)
	}
	report, err := os.ReadFile(name)
	if err != nil || bytes.Count(report, []byte("\n")) != 2 || term.out.Len() > 0 {
		t.Fatalf("%v, %q, on the terminal %q", err, report, term.out.String())
	}
	if err := term.run("--date", "2026-03-10", "--account", "globex", "--output", name); cli.Code(err) != 2 {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(name); err != nil || !bytes.Equal(again, report) {
		t.Fatalf("a run that failed has changed it: %v, %q", err, again)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
}

func TestStatementProgressIsOneLine(t *testing.T) {
	t.Parallel()
	term := statementServer(t, map[string]string{"acme": oneBreak})
	term.deps.Terminal = true
	term.config.Every = 1
	if err := term.run("--date", "2026-03-10", "--account", "acme"); !errors.Is(err, statement.ErrBreaks) {
		t.Fatal(err)
	}
	got := term.errors.String()
	if !strings.Contains(got, "\r\x1b[Kacme 2026-03-10: 1 lines") || strings.Contains(got, "\n") ||
		!strings.HasSuffix(got, "\r\x1b[K") {
		t.Fatalf("%q", got)
	}
}

func TestStatementThatIsInterruptedSaysSo(t *testing.T) {
	t.Parallel()
	term := statementServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	term.config.PSPs = statementPSP(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	err := Statement(ctx, []string{"--date", "2026-03-10"}, term.deps)
	if !errors.Is(err, context.Canceled) || term.out.Len() > 0 {
		t.Fatalf("%v, %q", err, term.out.String())
	}
}
