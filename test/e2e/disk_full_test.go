package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/test/pgtest"
)

// Nobody pays: the process has to find out by itself that the disk is full, and that it is not any more.
func TestReadyzIsNotReadyWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) { o.url = pgtest.Migrate(t, pgtest.OwnServer(t, false)) })
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	empty := w.fillDisk()
	r := w.operator("/readyz")
	if r.expect(t, http.StatusServiceUnavailable, ""); !strings.Contains(string(r.body),
		`"disk":"the database's disk is full; make room there"`) ||
		!strings.Contains(string(r.body), `"database":"ok"`) {
		t.Fatalf("readyz says %s", r.body)
	}
	empty()
	eventually(t, "ready again", func() bool { return w.operator("/readyz").status == http.StatusOK })
}

// fillDisk has each session of the API meet a full disk with the next files that it writes: the server finds /dev/full
// under their names.
func (w *world) fillDisk() (empty func()) {
	w.t.Helper()
	const full, files = "/dev/full", 10
	if _, err := os.Stat(full); err != nil {
		w.t.Skip("no ", full)
	}
	var data string
	if err := w.db.QueryRow(w.t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		w.t.Fatal(err)
	}
	rows, err := w.db.Query(w.t.Context(),
		"SELECT pid FROM pg_stat_activity WHERE usename = 'payonce_api' AND datname = current_database()")
	if err != nil {
		w.t.Fatal(err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(sessions) == 0 {
		w.t.Fatalf("sessions %v, %v", sessions, err)
	}
	dir := filepath.Join(data, "base", "pgsql_tmp")
	w.serversOwn(data, dir)
	var names []string
	for _, session := range sessions {
		for n := range files {
			name := filepath.Join(dir, fmt.Sprintf("pgsql_tmp%d.%d", session, n))
			if err := os.Symlink(full, name); err != nil {
				w.t.Fatal(err)
			}
			names = append(names, name)
		}
	}
	return func() {
		for _, name := range names {
			if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
				w.t.Fatal(err)
			}
		}
	}
}

// serversOwn makes a directory of the server's, which may run as somebody else.
func (w *world) serversOwn(data, dir string) {
	w.t.Helper()
	owner, err := os.Stat(data)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if is, ok := owner.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(dir, int(is.Uid), int(is.Gid)); err != nil {
			w.t.Fatal(err)
		}
	}
}
