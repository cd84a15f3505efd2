package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/test/heldport"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// pooler starts PgBouncer in transaction mode in front of a database, and returns the connection string that leads
// through it. The database's settings are as docs/pooler.md says, since a client of the pooler cannot.
func pooler(t *testing.T, database string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; !exists(program) {
			t.Skip("PgBouncer is not installed: apt-get install pgbouncer")
		}
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	socketDir, name := u.Query().Get("host"), strings.TrimPrefix(u.Path, "/")
	setForPooler(t, pgtest.As(t, database, "payonce"), name)

	dir := pgtest.DataDir(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	addr := heldport.Address(t)
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "users.txt")
	if err := os.WriteFile(users, fmt.Appendf(nil, "\"%s\" \"\"\n\"%s\" \"\"\n", postgres.API, postgres.Reconciler),
		0o644); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`[databases]
%s = host=%s port=%s
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 20
max_client_conn = 300
`, name, socketDir, u.Query().Get("port"), host, port, users)
	path := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	startPooler(t, program, path, socketDir)
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", u.User.Username(), addr, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func setForPooler(t testing.TB, database, name string) {
	t.Helper()
	conn := pgtest.Connect(t, database)
	for _, setting := range []string{"statement_timeout = '5s'", "lock_timeout = '2s'",
		"idle_in_transaction_session_timeout = '10s'", "enable_seqscan = off", "enable_bitmapscan = off", "jit = off"} {
		pgtest.Exec(t, conn, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" SET "+setting)
	}
}

// startPooler runs PgBouncer as the account that PostgreSQL runs as, and waits until it listens. It refuses to run as
// root.
func startPooler(t testing.TB, program, config, socketDir string) {
	t.Helper()
	owner, err := os.Stat(socketDir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, config)
	if stat, ok := owner.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}}
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	up := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "process up") {
				up <- nil
				_, _ = io.Copy(io.Discard, log)
				return
			}
		}
		up <- fmt.Errorf("PgBouncer ended: %w", lines.Err())
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
	})
	if err := wait.For(t, "PgBouncer comes up", up); err != nil {
		t.Fatal(err)
	}
}

func TestEverythingWorksThroughAPoolerInTransactionMode(t *testing.T) {
	if testing.Short() {
		t.Skip("long: all of it once more")
	}
	t.Parallel()
	var pooled string
	w := setup(t, func(o *options) {
		o.database = func(url string) string {
			pooled = pooler(t, url)
			return pooled
		}
		o.settings = func(c *config.API) {
			c.DBPooler = true
			c.PSPTotal, c.PSPDial, c.FirstLookup, c.PSPLate = 2*time.Second, 2*time.Second, 0, time.Second
			c.Lease, c.DrainLimit = 6*time.Second, 6*time.Second
		}
	})
	key := freshKey()
	paid := w.pay(key, "pm_ok")
	paid.expect(t, http.StatusCreated, "")
	w.pay(key, "pm_ok").same(t, paid)
	w.refund(paid.text(t, "paymentId"), freshKey(), `{"amountCents":100}`).expect(t, http.StatusCreated, "")

	silent, never := freshKey(), freshKey()
	w.pay(silent, "pm_silent_charged").expect(t, http.StatusAccepted, "")
	w.pay(never, "pm_timeout_not_charged").expect(t, http.StatusAccepted, "")
	reconcileThroughPooler(t, pgtest.As(t, pooled, postgres.Reconciler), w.psp.URL)
	w.becomes(silent, "completed")
	w.pay(silent, "pm_silent_charged").expect(t, http.StatusCreated, "")
	w.becomes(never, "failed_retryable")
}

// reconcileThroughPooler runs a reconciler until the test ends.
func reconcileThroughPooler(t *testing.T, database, psp string) {
	t.Helper()
	env := map[string]string{
		"DATABASE_URL": database, "DB_POOLER": "true", "PSP_URL": psp, "PSP_SECRET": pspSecret,
		"PUBLIC_URL": "http://payonce.test",
		"LEASE":      "6s", "PSP_TIMEOUT": "2s", "PSP_LATE_LIMIT": "1s",
		"FIRST_LOOKUP":    "1ms",
		"RECONCILER_ADDR": "127.0.0.1:0", "SWEEP_EVERY": "200ms", "CLAIM_EVERY": "200ms", "LOOKUP_BASE": "100ms",
		"LOOKUP_CAP": "200ms",
	}
	settings, err := config.LoadReconciler(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.NewReconciler(t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
