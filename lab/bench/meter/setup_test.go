package meter

import (
	"context"
	"io/fs"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// staged is a machine whose times a test sets.
type staged struct {
	files fstest.MapFS
	clock time.Time
	// onRead, if set, is asked before each read of a file.
	onRead func(name string)
}

func newStaged() *staged { return &staged{files: fstest.MapFS{}, clock: time.Unix(0, 0)} }

func (s *staged) meter() *Meter {
	return &Meter{proc: s, now: func() time.Time { return s.clock }, window: time.Millisecond}
}

func (s *staged) Open(name string) (fs.File, error) {
	if s.onRead != nil {
		s.onRead(name)
	}
	return s.files.Open(name)
}

func (s *staged) set(name, text string) { s.files[name] = &fstest.MapFile{Data: []byte(text)} }

// process sets the times of one, in hundredths of a second.
func (s *staged) process(pid, parent, own, reaped int) {
	s.set(strconv.Itoa(pid)+"/stat", strconv.Itoa(pid)+" (a b) c) S "+strconv.Itoa(parent)+" 1 1 0 -1 0 0 0 0 0 "+
		strconv.Itoa(own)+" 0 "+strconv.Itoa(reaped)+" 0 20 0 1 0 0")
}

func (s *staged) end(pid int) { delete(s.files, strconv.Itoa(pid)+"/stat") }

// idle sets how long the two cores have idled, in hundredths of a second.
func (s *staged) idle(hundredths int) {
	s.set("stat", "cpu  1 2 3 "+strconv.Itoa(hundredths-5)+
		" 5 0 0 0 0 0\ncpu0 1 2 3 4 5\ncpu1 1 2 3 4 5\nintr 1\nctxt 2\n")
}
