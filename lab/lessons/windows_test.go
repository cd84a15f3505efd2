package lessons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"payonce/test/pgtest"
)

// schema is where the sessions' tables are: a reader tries them in the demo's database, beside Payonce's own tables.
const schema = "course"

// The page that tells how to open a window, and the page with the samples.
const (
	lessonWithCommands = "course/lessons/02-two-at-once.md"
	pageWithSamples    = "docs/sources.md"
)

var psqlBlock = regexp.MustCompile("(?ms)^```psql\n(.*?)^```$")

// pagesWithSessions are all pages of ours that may have psql blocks.
func pagesWithSessions(t *testing.T) []string {
	t.Helper()
	pages := []string{pageWithSamples}
	found, err := filepath.Glob(filepath.Join(root, "course/lessons/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		pages = append(pages, "course/lessons/"+filepath.Base(path))
	}
	return slices.DeleteFunc(pages, func(name string) bool { return len(sessionsOf(readFile(t, name))) == 0 })
}

// newDatabase is an empty database with the schema of the sessions.
func newDatabase(t *testing.T) string {
	t.Helper()
	url := pgtest.NewURL(t)
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "CREATE SCHEMA "+schema)
	return url
}

// newStage has windows in psql, opened by the command of the lesson.
func newStage(t *testing.T, url string) *stage {
	t.Helper()
	command := psqlCommand(t)
	observer, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{windows: map[string]*window{}}
	s.waitsOn = func(ctx context.Context, pids []uint32) (all [][]uint32, err error) {
		for _, pid := range pids {
			var blockers []int32
			if err := observer.QueryRow(ctx, "SELECT pg_blocking_pids($1)", int32(pid)).Scan(&blockers); err != nil {
				return nil, err
			}
			var unsigned []uint32
			for _, b := range blockers {
				unsigned = append(unsigned, uint32(b))
			}
			all = append(all, unsigned)
		}
		return all, nil
	}
	pidOf := func(application string) (pid uint32, err error) {
		var number pgtype.Int4
		err = observer.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE application_name = $1 AND datname = current_database()`, application).Scan(&number)
		return uint32(number.Int32), err
	}
	s.open = func(ctx context.Context, name string) (*window, error) {
		return openWindow(ctx, url, command, name, pidOf)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, w := range s.windows {
			w.close()
		}
		_ = observer.Close(ctx)
	})
	return s
}

// sessionsOf are the psql blocks of a page.
func sessionsOf(page string) (blocks []string) {
	for _, found := range psqlBlock.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// withSessions is the page with other sessions in the place of its own.
func withSessions(page string, blocks []string) string {
	return psqlBlock.ReplaceAllStringFunc(page, func(old string) string {
		if len(blocks) == 0 {
			return old
		}
		block := blocks[0]
		blocks = blocks[1:]
		return "```psql\n" + spacesAtTheEnd.ReplaceAllString(block, "") + "```"
	})
}

// playAll types sessions, one after the other, and returns them with what comes out.
func playAll(t *testing.T, s *stage, blocks []string) (played []string) {
	t.Helper()
	for _, block := range blocks {
		entries, err := parseSession(block)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.play(t.Context(), entries)
		if err != nil {
			t.Fatal(err)
		}
		played = append(played, text)
	}
	return played
}

// comparePage reports the first session that differs.
func comparePage(got, want []string) error {
	for i := range want {
		if err := compare(got[i], want[i]); err != nil {
			return fmt.Errorf("psql block %d of the page: %w", i+1, err)
		}
	}
	return nil
}

// compare reports the first line that differs. Spaces at the ends of lines are not compared: many editors remove them.
func compare(got, want string) error {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = strings.TrimRight(gotLines[i], " ")
		}
		if i < len(wantLines) {
			w = strings.TrimRight(wantLines[i], " ")
		}
		if g != w {
			return fmt.Errorf("line %d is\n\t%s\nand the page says\n\t%s\n(go test ./lessons -update writes the page)", i+1, g, w)
		}
	}
	return nil
}

var spacesAtTheEnd = regexp.MustCompile(`(?m) +$`)

// The lesson's own lines make the schema and remove it.
var (
	makesSchema   = regexp.MustCompile(`(?m)^psql .*CREATE SCHEMA.*$`)
	removesSchema = regexp.MustCompile(`(?m)^psql .*DROP SCHEMA.*$`)
)

func runLine(t *testing.T, url, line string) {
	t.Helper()
	if line == "" {
		t.Fatal("the lesson does not make or remove the schema")
	}
	command := exec.CommandContext(t.Context(), "bash", "-c", line)
	command.Env = append(os.Environ(), "DATABASE_URL="+url)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

var windowCommand = regexp.MustCompile(`(?m)^(PGOPTIONS=.* psql .*PROMPT1='A.*)$`)

// psqlCommand is the command that the lesson gives its readers to open a window.
func psqlCommand(t *testing.T) string {
	t.Helper()
	command := windowCommand.FindString(readFile(t, lessonWithCommands))
	if command == "" {
		t.Fatal("the lesson does not say how to open a window")
	}
	for _, program := range []string{"psql", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the sessions are played in %s", program)
		}
	}
	probe := exec.Command("true")
	terminal, err := onTerminal(probe)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("terminals are made for Linux only")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = probe.Wait()
	_ = terminal.Close()
	return command
}

func TestBadSessionIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ block, want string }{
		"another output":     {"A=> SELECT 1 AS one;\n one\n-----\n   2\n(1 row)\n", "the page says"},
		"a wait left out":    {lockedRow + "A=*> COMMIT;\nCOMMIT\nUPDATE 1\n", "the page says"},
		"a wait that is not": {"A=> BEGIN;\nBEGIN\n-- A waits for B.\nA=*> COMMIT;\nCOMMIT\n", "the page says"},
		"nobody goes on":     {lockedRow, "while these windows wait"},
		"typing in a window that waits": {lockedRow + "B=> SELECT 1;\n",
			"takes no statement"},
		"an open transaction":  {"A=> BEGIN;\nBEGIN\n", "is in a transaction"},
		"no semicolon":         {"A=> SELECT 1\n", "has no semicolon"},
		"two statements":       {"A=> BEGIN; COMMIT;\n", "more than one statement"},
		"nothing":              {"-- Nobody is here.\n", "nobody types"},
		"another prompt state": {"A=*> SELECT 1 AS one;\n one\n-----\n   1\n(1 row)\n", "the page says"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, err := parseSession(c.block)
			if err == nil {
				var got string
				if got, err = newStage(t, newDatabase(t)).play(t.Context(), entries); err == nil {
					err = compare(got, c.block)
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the session ends with %v, want an error with %q", err, c.want)
			}
		})
	}
}

const lockedRow = `A=> CREATE TABLE rows AS SELECT 1 AS id;
SELECT 1
A=> BEGIN;
BEGIN
A=*> UPDATE rows SET id = 1;
UPDATE 1
B=> UPDATE rows SET id = 1;
`

// A statement that takes long and waits for nobody is not reported as waiting.
func TestSlowStatementDoesNotWait(t *testing.T) {
	t.Parallel()
	entries := []entry{{"A", "SELECT 1 AS one FROM pg_sleep(0.3);"}}
	got, err := newStage(t, newDatabase(t)).play(t.Context(), entries)
	if err == nil {
		err = compare(got, "A=> SELECT 1 AS one FROM pg_sleep(0.3);\n one\n-----\n   1\n(1 row)\n")
	}
	if err != nil {
		t.Error(err)
	}
}
